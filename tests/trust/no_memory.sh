#!/bin/sh
# no_memory.sh POINTS RANKS_SPEAK BEFORE... -- AFTER...: runs BEFORE POINT AFTER at so many points of rank 1's allocations,
# evenly spread from the first to the last. Each job must end with exit code 86, no rank by a signal. Rank 1 says that it has no
# memory, once: on threads and under MPI in the one line of the job, over sockets in its own (RANKS_SPEAK: 1, or how many ranks
# say a line).
points=$1 most=$2
shift 2
before= after=
while [ "$1" != -- ]; do before="$before $1"; shift; done
shift
after=$*
report=$(mktemp)
trap 'rm -f "$report"' EXIT
all=$(sh -c "exec $before -1 $after" 2>&1 | sed -n 's/.*allocations \([0-9]*\).*/\1/p')
[ -n "$all" ] || { echo "FAILED: nobody says how many allocations there are" >&2; exit 1; }
failed=0 k=0
while [ "$k" -lt "$points" ]; do
  point=$((k * (all - 1) / (points > 1 ? points - 1 : 1)))
  k=$((k + 1))
  timeout 60 sh -c "exec $before $point $after" >"$report" 2>&1
  ended=$?
  lines=$(grep -c 'parallax: rank [0-9]* ends the job (exit code 86): .*out of memory (rank 1)' "$report")
  own=$(grep -c 'parallax: rank 1 ends the job (exit code 86): .*out of memory (rank 1)' "$report")
  wrong=
  [ "$ended" -eq 86 ] || wrong="exit code $ended"
  [ "$lines" -ge 1 ] && [ "$lines" -le "$most" ] && [ "$own" -le 1 ] || wrong="$wrong, $lines lines that name rank 1, $own of them its own"
  grep -q 'terminate called' "$report" && wrong="$wrong, terminate"
  [ -z "$wrong" ] && continue
  failed=$((failed + 1))
  echo "FAILED at allocation $point: $wrong" >&2
  sed 's/^/  /' "$report" | cut -c1-300 >&2
done
echo "$((points - failed)) of $points points of $all allocations: exit code 86, and rank 1 named once"
[ "$failed" -eq 0 ]
