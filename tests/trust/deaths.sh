#!/bin/sh
# deaths.sh RUNS MPIEXEC NUMPROC_FLAG PROGRAM: lets one rank of two or three die in every way amid training, so many times by memory
# and by messages, and prints how the jobs ended. A death is reported always: by the job's exit code, and on stderr by the first
# cause's words where the process could still speak, by mpiexec's where it could not.
runs=$1 mpiexec=$2 flag=$3 program=$4
report=$(mktemp)
trap 'rm -f "$report"' EXIT
failed=0 all=0
printf '%-34s %8s %6s %6s %8s\n' 'Endings of MPI jobs' cases wrong hangs seconds
for how in return caught uncaught seven exit abort kill segv half two; do
  for transport in memory messages; do
    for ranks in 2 3; do
      cases=0 wrong=0 hangs=0 begin=$(date +%s)
      while [ "$cases" -lt "$runs" ]; do
        who=$((cases % ranks)) when=$((cases * 7 % 20))
        ends="rank $who ends the job (exit code 86): "
        code=86
        case $how in
          return)
            words="rank $who destroyed its session without finish"
            [ "$who" -ne 0 ] || words="the session was destroyed without finish"
            ;;
          caught) words="caught: no batch left" ;;
          uncaught) words="${ends}parallax: exception in user code (rank $who) in the training of a rank: no batch left" ;;
          seven) words="${ends}parallax: exception in user code (rank $who) in the training of a rank: " ;;
          exit) words="${ends}its process exits before its session has finished" ;;
          abort | kill | segv) code=not0 words="BAD TERMINATION" ;;  # as MPICH's mpiexec says it
          half) code=0 words="" ;;
          two) words="parallax: timeout (rank $who) in step of 'words, layer'" ;;
        esac
        MPIEXEC_TIMEOUT=20 "$mpiexec" "$flag" "$ranks" "$program" "$how" "$who" "$when" "$transport" >"$report" 2>&1
        ended=$?
        cases=$((cases + 1))
        [ "$code" = not0 ] && [ "$ended" -ne 0 ] && code=$ended
        if grep -q -i -e 'timed out' -e 'MPIEXEC_TIMEOUT' "$report"; then
          hangs=$((hangs + 1))
        elif [ "$ended" -ne "$code" ] || { [ -n "$words" ] && ! grep -qF -e "$words" "$report"; }; then
          wrong=$((wrong + 1))
          echo "  $how of rank $who of $ranks in step $when, by $transport: exit code $ended, expected $code and «$words»:"
          cat "$report"
        fi
      done
      printf '  %-32s %8d %6d %6d %8d\n' "$how, $ranks ranks, $transport" "$cases" "$wrong" "$hangs" $(($(date +%s) - begin))
      failed=$((failed + wrong + hangs)) all=$((all + cases))
    done
  done
done
printf '  %-32s %8d %6d\n' all "$all" "$failed"
[ "$failed" -eq 0 ]
