#!/bin/sh
# deaths.sh RUNS MPIEXEC NUMPROC_FLAG PROGRAM: lets one rank of two or three die in every way amid training, so many times by memory
# and by messages, and prints how the jobs ended. A death is reported always: by the job's exit code, and on stderr by the first
# cause's words where the process could still speak, by mpiexec's where it could not.
runs=$1 mpiexec=$2 flag=$3 program=$4
. "$(dirname "$0")/judge.sh"
title 'Endings of MPI jobs'
for how in return caught uncaught seven exit abort kill segv half two; do
  for transport in memory messages; do
    for ranks in 2 3; do
      run=0
      while [ "$run" -lt "$runs" ]; do
        who=$((run % ranks)) when=$((run * 7 % 20)) run=$((run + 1))
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
        judge "$code" "$words" "$how of rank $who of $ranks in step $when, by $transport" \
          "$mpiexec" "$flag" "$ranks" "$program" "$how" "$who" "$when" "$transport"
      done
      row "$how, $ranks ranks, $transport"
    done
  done
done
total
