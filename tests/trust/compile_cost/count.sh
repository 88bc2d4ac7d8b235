#!/bin/sh
# count.sh COMPILER INCLUDE [FLAG...]: what trainers cost their compiler, in a count that repeats: the bytes of machine code at -O2,
# which is what an optimiser's time goes to. Each is compiled header-only, and for a program that links parallax::compiled. Fails
# where one is above its goal. FLAGs say where MPI is.
set -eu
compiler=$1 include=$2
shift 2
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

code() {  # trainer source goal flags...
  name=$1 source=$2 goal=$3
  shift 3
  "$compiler" -std=c++20 -O2 -I "$include" "$@" -c "$source" -o "$folder/object.o"
  bytes=$(size -A "$folder/object.o" | awk '/^[.]text/ { sum += $2 } END { print sum }')
  printf '%-24s %8d bytes of at most %d\n' "$name" "$bytes" "$goal"
  [ "$bytes" -le "$goal" ] || { echo "FAILED: $name is above its goal"; failed=1; }
}
trainers() {  # form, a goal for each trainer, flags...
  form=$1 hello=$2 mpi=$3 driver=$4
  shift 4
  code "hello_step, $form" "$here/../../../examples/hello_step.cpp" "$hello" "$@"
  code "MPI trainer, $form" "$here/mpi_trainer.cpp" "$mpi" "$@"
  code "driver, $form" "$here/driver.cpp" "$driver" "$@"
}
# Before the engine's bodies stood below its classes hello_step had 341,000 bytes.
trainers header-only 280000 315000 350000 "$@"
trainers compiled 119000 159000 193000 -DPARALLAX_COMPILED "$@"
exit $failed
