#!/bin/sh
# job.sh RANKS COMMAND...: starts a job as torchrun would, and ends with 0 if all its ranks did.
ranks=$1
shift
export WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 12000))
rank=1 processes=
while [ "$rank" -lt "$ranks" ]; do
  RANK=$rank "$@" &
  processes="$processes $!"
  rank=$((rank + 1))
done
RANK=0 "$@" || exit
for process in $processes; do wait "$process" || exit; done
