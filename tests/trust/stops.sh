#!/bin/sh
# stops.sh RUNS MPIEXEC NUMPROC_FLAG PROGRAM: stops one rank of two or three at each phase, so many times, and prints how the
# jobs ended. Each must end with exit code 86 and a report that names the rank, or the phase where no rank can be known.
runs=$1 mpiexec=$2 flag=$3 program=$4
report=$(mktemp)
trap 'rm -f "$report"' EXIT
failed=0 all=0
printf '%-40s %8s %6s %6s %8s\n' 'R3 SIGSTOP under MPI' cases wrong hangs seconds
for phase in register agreement pull sparse dense finish; do
  cases=0 wrong=0 hangs=0 begin=$(date +%s)
  while [ "$cases" -lt "$runs" ]; do
    ranks=$((2 + cases % 2))
    stuck=$((cases / 2 % ranks))
    case $phase in
      register) words="a rank did not construct its MpiCommunicator within the deadline" ;;
      pull) words="timeout (rank $stuck) in pull of 'words'" ;;
      agreement) words="timeout (rank $stuck) in pull of 'words'" ;;
      finish) words="timeout (rank $stuck) in finish" ;;
      sparse | dense) words="timeout (rank $stuck) in step of 'layer, words'" ;;
    esac
    MPIEXEC_TIMEOUT=20 "$mpiexec" "$flag" "$ranks" "$program" "$phase" "$stuck" >/dev/null 2>"$report"
    ended=$?
    cases=$((cases + 1))
    if grep -q -i -e 'timed out' -e 'MPIEXEC_TIMEOUT' "$report"; then
      hangs=$((hangs + 1))
    elif [ "$ended" -ne 86 ] || ! grep -qF -e "$words" "$report"; then
      wrong=$((wrong + 1))
      echo "  $phase, rank $stuck of $ranks: exit code $ended, expected «$words»:" && cat "$report"
    fi
  done
  printf '  %-38s %8d %6d %6d %8d\n' "$phase" "$cases" "$wrong" "$hangs" $(($(date +%s) - begin))
  failed=$((failed + wrong + hangs)) all=$((all + cases))
done
printf '  %-38s %8d %6d\n' all "$all" "$failed"
[ "$failed" -eq 0 ]
