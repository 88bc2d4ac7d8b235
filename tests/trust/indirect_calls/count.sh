#!/bin/sh
# count.sh PROGRAM [bound]: counts with callgrind every indirect call that PROGRAM's own code executes in each of its cases, and
# fails where there are more or fewer than docs/architecture.md promises. What is counted is every execution of a `call *` or a
# `jmp *` in its section .text, which was compiled without tables of jumps. A call to a shared library is none: it goes to the
# linker's table, outside of .text, and what the library does is its own. How many calls a step makes whatever its arguments are
# is not said. bound: the cases of bound steps must be there.
set -eu
for tool in valgrind objdump; do
  command -v $tool >/dev/null || { echo "SKIPPED: there is no $tool"; exit 0; }
done
program=$1 bound=${2-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A file for each case, in the order in which the program names them.
valgrind --tool=callgrind --branch-sim=yes --dump-instr=yes --skip-plt=no --compress-strings=no --compress-pos=no \
  --zero-before=case_begins --dump-before=case_ends --callgrind-out-file="$folder/out" "$program" \
  >"$folder/names" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
objdump -d -j .text --no-show-raw-insn "$program" >"$folder/code"

# `counts`: a case, its indirect calls. `places`: a case, a file and line, the indirect calls there.
n=0
while read -r name; do
  n=$((n + 1))
  [ -f "$folder/out.$n" ] || { echo "FAILED: nothing was counted of $name"; exit 1; }
  echo "name $name"
  cat "$folder/out.$n"
done <"$folder/names" >"$folder/cases"
awk -v program="$program" -v places="$folder/places" '
  function ends(of,  at) {
    if (of == "") return
    if (!executed) { print "FAILED: no code of the program was seen in " of; failed = 1 }
    print of, calls + 0
    for (at in here) { print of, at, here[at] >places; delete here[at] }
    calls = executed = 0
  }
  FNR == NR {
    if ($1 ~ /^[0-9a-f]+:$/) { sub(/:/, "", $1); text["0x" $1] = 1 + ($0 ~ /(call|jmp)q? +\*/) }
    next
  }
  $1 == "name" { ends(name); name = $2; next }
  /^ob=/ { own = substr($0, 4) == program; next }
  /^f[lie]=/ { file = substr($0, 4); sub(/.*\/parallax\//, "", file); next }
  /^calls=/ { called = 1; next }   # the line after it has what was called, which is counted where it lies
  /^0x/ {
    if (called) { called = 0; next }
    if (!own || !($1 in text)) next
    ++executed
    if ($6 + 0 == 0) next          # address, line; instructions, branches, mispredicted; indirect ones
    if (text[$1] == 1) { print "FAILED: no indirect call, but something like it, at " $1 ", " file ":" $2; failed = 1 }
    calls += $6
    here[file ":" $2] += $6
  }
  END { ends(name); exit failed }' "$folder/code" "$folder/cases" >"$folder/counts" || { cat "$folder/counts"; exit 1; }
touch "$folder/places"

failed=0
of() {  # case
  awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$folder/counts" ||
    { echo "FAILED: there is no case $1" >&2; echo 0; }
}
fail() {  # sentence case...
  echo "FAILED: $1"
  shift
  for name in "$@"; do awk -v name="$name" '$1 == name { print "  " $0 }' "$folder/places" | sort; done
  failed=1
}
same() {  # case sizes...: as many in all sizes
  printf '%-24s' "$1"
  name=$1 first=$(of "$1.$2")
  shift
  for size in "$@"; do
    calls=$(of "$name.$size")
    printf ' %12s %4d' "$size:" "$calls"
    [ "$calls" -eq "$first" ] || wrong="$wrong $name.$size"
  done
  echo
  [ -z "$wrong" ] || fail "not as many in all sizes" "$name.$1" "${wrong##* }"
  wrong=
}
each() {  # calls case numbers...: so many for one more
  printf '%-24s' "$2"
  slope=$1 name=$2 least=$3 first=$(of "$2.$3")
  shift 2
  for number in "$@"; do
    calls=$(of "$name.$number")
    printf ' %12s %4d' "$number:" "$calls"
    [ $((calls - first)) -eq $((slope * (number - least))) ] || wrong="$wrong $name.$number"
  done
  echo
  [ -z "$wrong" ] || fail "not $slope for one more" "$name.$least" "${wrong##* }"
  wrong=
}
wrong=

echo "indirect calls; for an element or a row: none"
for policy in all_reduce ps_shard; do
  same layer.$policy 16 65536
  same transformed.$policy 16 65536
done
for kind in ps_shard settled all_gather all_reduce; do
  for operation in pull push ahead; do
    same $operation.$kind 64x4 64x64 1024x4 1024x64
  done
done

echo "for an argument and phase: one"
each 7 layers 10 20 40      # next, which says that there is no leg; reduce, merge, transform; apply, settled, close
each 9 clipped 10 20 40     # the same; seek and norm
each 10 looked_at 10 20 40  # the same; seek, and non_finite twice: of what was given, and of the sums
each 12 pushed 1 2 4        # the same; tell and hear; next, write and read of the one leg
each 0 range 10 40          # it is one argument
each 0 starting 10 40

echo "for an update that was started: one, which tells what it is when the step begins"
each 1 started 10 40

echo "for a table of a pull and a rank: two, tell and hear; for a table whose rows this rank owns: two, touch and gather"
each 4 pulled 1 2 4

if [ "$bound" = bound ]; then
  echo "in a bound step: none"
  for name in bound.1.16 bound.1.65536 bound.2.16 bound.2.65536; do
    calls=$(of $name)
    printf '%-24s %17d\n' $name "$calls"
    [ "$calls" -eq 0 ] || fail "it makes a call" $name
  done
fi
grep -q '^FAILED' "$folder/counts" && failed=1
exit $failed
