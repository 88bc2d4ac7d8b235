#!/bin/sh
# ends_with.sh CODE WORDS COMMAND...: passes if COMMAND ends with exit code CODE and its stderr contains WORDS.
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
if ! grep -qF -e "$words" "$report"; then
  [ -z "$words" ] && exit 0
  echo "FAILED: stderr does not contain: $words" >&2
  exit 1
fi
