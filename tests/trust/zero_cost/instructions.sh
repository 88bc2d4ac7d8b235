#!/bin/sh
# instructions.sh PROGRAM: counts with callgrind what one step costs by hand, bound and checked, on one rank, for vectors of
# several sizes. Fails where the library's instructions exceed those by hand by more for a longer vector.
set -eu
command -v valgrind >/dev/null || { echo "SKIPPED: there is no valgrind"; exit 0; }
program=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

count() {  # function elements
  valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no --toggle-collect="counted_$1" \
    "$program" "$2" >"$log" 2>&1 || { cat "$log"; exit 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log"
}

printf '%10s %14s %14s %14s\n' elements 'by hand' 'bound, above' 'checked, above'
for n in 1000 10000 100000 1000000; do
  hand=$(count by_hand $n) bound=$(count bound $n) checked=$(count checked $n)
  printf '%10d %14d %14d %14d\n' $n "$hand" $((bound - hand)) $((checked - hand))
  [ "$hand" -gt $((n / 8)) ] || { echo "FAILED: that cannot be all"; exit 1; }
  : "${first_bound:=$((bound - hand))}" "${first_checked:=$((checked - hand))}"
  for excess in $((bound - hand - first_bound)) $((checked - hand - first_checked)); do
    [ "$excess" -le 100 ] || { echo "FAILED: $excess instructions more than for 1000 elements"; exit 1; }
  done
done
