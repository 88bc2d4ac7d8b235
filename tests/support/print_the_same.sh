#!/bin/sh
# print_the_same.sh COMMAND COMMAND: passes if both end with exit code 0 and print the same, which is something. Each is a line of
# the shell. Lines that begin with "[" are left out: libraries below MPI print such about the machine, to standard output too.
fail() {
  echo "FAILED: $1" >&2
  exit 1
}
first=$(sh -c "$1") || fail "the first command ended with exit code $?"
second=$(sh -c "$2") || fail "the second command ended with exit code $?"
first=$(printf '%s\n' "$first" | sed '/^\[/d') second=$(printf '%s\n' "$second" | sed '/^\[/d')
printf '%s\n%s\n' "$first" "$second"
[ -n "$first" ] || fail "nothing was printed"
[ "$first" = "$second" ] || fail "they print different things"
