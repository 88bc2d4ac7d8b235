#!/bin/sh
# lacks.sh RANK LINES WHAT=POINTS... BEFORE... -- AFTER...: runs BEFORE WHAT POINT RANK FOLDER AFTER at so many points of that rank's
# calls, evenly spread from the first to the last, or at all of them where PARALLAX_SIZE=full is set. A job that lacks descriptors or
# threads ends with the bits of one that does not, or with exit code 86 and on stderr at most LINES lines of ranks (1: of the whole job;
# or how many ranks say one). All of them name the rank, and one the cause, or, of lines of one job, a rank and the cause. A job that
# signals interrupt ends with the same bits always.
rank=$1 most=$2
shift 2
faults=
while case $1 in *=*) ;; *) false ;; esac; do faults="$faults $1"; shift; done
before= after=
while [ "$1" != -- ]; do before="$before $1"; shift; done
shift
after=$*
report=$(mktemp) folder=$(mktemp -d)
trap 'rm -rf "$report" "$folder"' EXIT
bits() { grep -o 'rank [0-9]* ends with [0-9a-f]*' "$report" | sort; }
job() {
  rm -rf "$folder"/*
  timeout 60 sh -c "exec $before $1 $2 $rank $folder $after" >"$report" 2>&1
}
failed=0
for fault in $faults; do
  what=${fault%%=*} points=${fault#*=}
  job "$what" -1
  right=$(bits)
  all=$(sed -n 's/.*calls \([0-9]*\).*/\1/p' "$report")
  [ -n "$all" ] && [ -n "$right" ] || { echo "FAILED: nobody says how many calls there are, or with what it ends" >&2; cat "$report" >&2; exit 1; }
  case $what in
    descriptors) cause='Too many open files\|(ulimit -n)' of="rank $rank" ;;
    threads) cause='Resource temporarily unavailable' of='rank [0-9]*' ;;
    *) cause= of= ;;
  esac
  [ "$PARALLAX_SIZE" = full ] && points=$all
  [ "$points" -le "$all" ] || points=$all
  wrong=0 well=0 ended=0 k=0
  [ -n "$cause" ] || k=-1  # every second call
  tried=$((points - k))
  while [ "$k" -lt "$points" ]; do
    point=-2
    [ "$k" -lt 0 ] || point=$((k * (all - 1) / (points > 1 ? points - 1 : 1)))
    k=$((k + 1))
    job "$what" "$point"
    status=$?
    lines=$(grep -c 'parallax: rank [0-9]* ends the job (exit code 86): ' "$report")
    name=$(grep 'parallax: rank [0-9]* ends the job (exit code 86): ' "$report" | grep -c "$of")
    why=
    if [ "$status" -eq 0 ]; then
      [ "$(bits)" = "$right" ] || why="other bits"
      well=$((well + 1))
    elif [ -z "$cause" ] || [ "$status" -ne 86 ]; then why="exit code $status"
    else
      ended=$((ended + 1))
      [ "$lines" -ge 1 ] && [ "$lines" -le "$most" ] && [ "$name" -eq "$lines" ] || why="$lines lines, of which $name name the rank"
      grep 'ends the job (exit code 86): ' "$report" | grep -q "$cause" || why="$why, and none the cause"
      grep 'ends the job (exit code 86): ' "$report" | grep -q 'in user code' && why="$why, a user's exception"
    fi
    grep -q 'terminate called' "$report" && why="$why, terminate"
    [ -z "$why" ] && continue
    wrong=$((wrong + 1))
    echo "FAILED by $what at call $point: $why" >&2
    sed 's/^/  /' "$report" | cut -c1-400 >&2
  done
  if [ -n "$cause" ]; then how="$well ended with the same bits, $ended with exit code 86, the rank and the cause"
  else how="$well ended with the same bits"; fi
  echo "$what: $tried jobs, at points of $all calls: $how; $wrong wrong"
  failed=$((failed + wrong))
done
[ "$failed" -eq 0 ]
