#!/bin/sh
# apart.sh RUNS MPIEXEC NUMPROC_FLAG PROGRAM: lets something go wrong with one of three ranks that train apart, so many times with
# an owner that only serves and with a worker, and prints how the jobs ended. What is wrong with a worker's ids or gradients is that
# worker's alone, and the job goes on; all else ends it, and names the rank.
runs=$1 mpiexec=$2 flag=$3 program=$4
. "$(dirname "$0")/judge.sh"
title 'MPI jobs that train apart'
for how in kill stop exception bad_id wrong_size nan letter registry; do
  for servers in 1 0; do
    for who in 0 2; do
      case $servers$who$how in
        10bad_id | 10wrong_size | 10nan) continue ;;  # a server has no ids and no gradients
      esac
      run=0
      while [ "$run" -lt "$runs" ]; do
        when=$((run * 7 % 20)) run=$((run + 1))
        code=86
        case $how in
          kill) code=not0 words="BAD TERMINATION" ;;  # as MPICH's mpiexec says it
          stop) words="parallax: timeout (rank $who) in" ;;
          exception)
            words="parallax: exception in user code (rank $who) in train: no batch left"
            [ "$servers$who" != 10 ] || words="parallax: exception in user code (rank $who) in the training of a rank: no batch left"
            ;;
          bad_id) code=0 words="caught: parallax: bad id (rank $who) in pull of 'words': index 6 at position 1 is outside [0, 6)" ;;
          wrong_size) code=0 words="caught: parallax: invalid argument (rank $who) in push of 'layer': a gradient of 7 elements" ;;
          nan) code=0 words="caught: parallax: non-finite gradient (rank $who) in push of 'layer': the gradient has nan" ;;
          letter) words="parallax: mismatch between ranks (rank $who) in train: a letter of rank $who cannot be read" ;;
          registry) words="parallax: mismatch between ranks (rank $who) in train of 'words'" ;;
        esac
        judge "$code" "$words" "$how of rank $who, $servers servers, in step $when" \
          "$mpiexec" "$flag" 3 "$program" "$how" "$who" "$when" "$servers"
      done
      kind=worker
      [ "$servers" -eq 1 ] || kind="worker that owns"
      [ "$servers$who" != 10 ] || kind=server
      [ "$servers$who" != 00 ] || kind="first that owns"
      row "$how, $kind"
    done
  done
done
total
