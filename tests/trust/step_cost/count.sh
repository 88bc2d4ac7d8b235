#!/bin/sh
# count.sh PROGRAM: what a steady step between two thread ranks costs, in the instructions that callgrind counts: those of many steps
# less those of a few, so that what is done once is left out. Fails where a case is above its goal. How often a rank looks whether
# others have come is not the same in each run. valgrind runs one thread at a time: by turns, where it is told so, and else that
# which has run already gets the lock again for as long as the kernel likes, and all that it does is look. By turns the looking is
# some hundredths of what is counted, and the least of four counts decides.
set -eu
command -v valgrind >/dev/null || { echo "SKIPPED: there is no valgrind"; exit 0; }
program=$1
failed=0

instructions() {  # case steps
  valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 | awk '/Collected/ { print $4 }'
}
cost() {  # case steps ranks and units of a step, goal, unit
  each=
  for _ in 1 2 3 4; do
    few=$(instructions "$1" "$2") many=$(instructions "$1" $((3 * $2)))
    now=$(((many - few) / (2 * $2 * $3)))
    [ -n "$each" ] && [ "$each" -le "$now" ] || each=$now
    [ "$each" -gt "$4" ] || break
  done
  printf '%-8s %6d instructions a %s and rank, of at most %d\n' "$1" "$each" "$5" "$4"
  [ "$each" -le "$4" ] || { echo "FAILED: $1 is above its goal"; failed=1; }
}
cost tensors 20 2000 530 variable
cost rows 100 2 62000 step
exit $failed
