#!/bin/sh
# every_flag_wrong.sh PARALLAX-BENCH VERSION: each flag of each command wrong once, as the program's own help lists them: unknown,
# another command's, without its value, with a value that is none, with one too many. Each time one sentence on stderr, and exit
# code 2. And --version says VERSION.
bench=$1 version=$2
report=$(mktemp)
trap 'rm -f "$report"' EXIT
cases=0 failed=0

flags_of() { "$bench" "$1" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p'; }
# refused WORDS COMMAND...: whether it is, by one sentence that has the words.
refused() {
  words=$1
  shift
  "$bench" "$@" >/dev/null 2>"$report"
  ended=$?
  cases=$((cases + 1))
  if [ "$ended" -ne 2 ] || [ "$(wc -l <"$report")" -ne 1 ] || ! grep -qF -e "$words" "$report"; then
    failed=$((failed + 1))
    echo "FAILED: parallax-bench $* ended with $ended, not with 2 and one sentence that has «$words»:"
    cat "$report"
  fi
}

commands=$("$bench" --help | sed -n 's/^  \([a-z]\{2,\}\) .*/\1/p')
all=$(for command in $commands; do flags_of "$command"; done | sort -u)
for command in $commands; do
  own=$(flags_of "$command")
  refused "there is no flag '--pigeons'" "$command" --pigeons 3
  for flag in $all; do
    if ! printf '%s\n' "$own" | grep -qxF -e "$flag"; then
      refused "$command has no flag $flag" "$command" "$flag" 1
      continue
    fi
    case $flag in
      --smoke | --help | --version) refused "$flag takes no value" "$command" "$flag=1" ;;
      --csv | --json | --html | --trace | --ids | --wire) refused "$flag needs a value" "$command" "$flag" ;;
      *)
        refused "$flag needs a value" "$command" "$flag"
        refused "the value of $flag is" "$command" "$flag" '1e99,?'
        ;;
    esac
  done
done
refused "the value of the command is one of" pigeons
refused "a command is needed" --smoke
[ "$cases" -gt 300 ] || failed=$((failed + 1))
"$bench" --version | grep -qF -e "parallax-bench $version, " || { failed=$((failed + 1)) && "$bench" --version; }
echo "$cases wrong command lines, $failed not refused as they should be"
[ "$failed" -eq 0 ]
