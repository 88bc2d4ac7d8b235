#!/bin/sh
# compare.sh PLAIN LOOSE PLAIN_FIRST LOOSE_FIRST: programs of train.cpp, compiled by the standard's rules, under -Ofast, and of
# both, in whichever order they are linked. All print the same lines, and as many as they should.
plain=$("$1" plain) && loose=$("$2" loose) || { echo "a program has failed"; exit 1; }
[ "$(echo "$plain" | wc -l)" = 14 ] || { echo "not 14 lines:"; echo "$plain"; exit 1; }
[ "$plain" = "$loose" ] || { echo "plainly:"; echo "$plain"; echo "under -Ofast:"; echo "$loose"; exit 1; }
[ "$(echo "$plain" | grep -c taken)" = 1 ] || { echo "something is taken that is to be refused:"; echo "$plain"; exit 1; }
for program in "$3" "$4"; do
  for half in plain loose; do
    mixed=$("$program" $half) || { echo "$program $half has failed"; exit 1; }
    [ "$plain" = "$mixed" ] || { echo "plainly:"; echo "$plain"; echo "$program, the $half half:"; echo "$mixed"; exit 1; }
  done
done
