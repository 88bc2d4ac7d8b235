#!/bin/sh
# ends_with.sh [--last] CODE WORDS COMMAND...: passes if COMMAND ends with exit code CODE and its stderr contains each line of
# WORDS; with --last, if one line has the WORDS, and it is the last one that begins with «parallax: ».
last=
[ "$1" = --last ] && last=yes && shift
code=$1 words=$2
shift 2
report=$(mktemp)
trap 'rm -f "$report"' EXIT
"$@" 2>"$report"
ended=$?
cat "$report" >&2
if [ "$ended" -ne "$code" ]; then
  echo "FAILED: ended with exit code $ended instead of $code" >&2
  exit 1
fi
if [ -n "$last" ]; then
  times=$(grep -cF -e "$words" "$report")
  if [ "$times" -ne 1 ] || ! grep '^parallax: ' "$report" | tail -n 1 | grep -qF -e "$words"; then
    echo "FAILED: $times lines of stderr have, and the last of parallax must have: $words" >&2
    exit 1
  fi
fi
[ -z "$words" ] || printf '%s\n' "$words" | while IFS= read -r line; do
  grep -qF -e "$line" "$report" && continue
  echo "FAILED: stderr does not contain: $line" >&2
  exit 1
done
