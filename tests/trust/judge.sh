# For scripts that let jobs of MPI end in many ways, and print how they did.
#   title WORDS
#   judge CODE WORDS WHAT MPIEXEC...   one job: its exit code (not0: any but 0), and what its stderr must say; empty: nothing
#   row LABEL                          the jobs since the last row
#   total                              fails if any job ended otherwise, or not at all
report=$(mktemp)
trap 'rm -f "$report"' EXIT
failed=0 all=0

next_row() { cases=0 wrong=0 hangs=0 begin=$(date +%s); }
title() {
  printf '%-34s %8s %6s %6s %8s\n' "$1" cases wrong hangs seconds
  next_row
}
judge() {
  code=$1 words=$2 what=$3
  shift 3
  MPIEXEC_TIMEOUT=20 "$@" >"$report" 2>&1
  ended=$?
  cases=$((cases + 1))
  [ "$code" = not0 ] && [ "$ended" -ne 0 ] && code=$ended
  if grep -q -i -e 'timed out' -e 'MPIEXEC_TIMEOUT' "$report"; then
    hangs=$((hangs + 1))
  elif [ "$ended" -ne "$code" ] || grep -q 'TOO LATE' "$report" || { [ -n "$words" ] && ! grep -qF -e "$words" "$report"; }; then
    wrong=$((wrong + 1))
    echo "  $what: exit code $ended, expected $code and «$words»:"
    cat "$report"
  fi
}
row() {
  printf '  %-32s %8d %6d %6d %8d\n' "$1" "$cases" "$wrong" "$hangs" $(($(date +%s) - begin))
  failed=$((failed + wrong + hangs)) all=$((all + cases))
  next_row
}
total() {
  printf '  %-32s %8d %6d\n' all "$all" "$failed"
  [ "$failed" -eq 0 ]
}
