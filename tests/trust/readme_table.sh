#!/bin/sh
# readme_table.sh PROGRAM README MEASURED: PROGRAM, the language model in full, ends with the table that README has, words/s apart; what
# README says of counting words is what PROGRAM says; and what it says of two hosts stands in MEASURED.
set -eu
program=$1 readme=$2 measured=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" >"$folder/said"
grep -E '^\| [a-z_]+ \| [0-9.]+ \| [0-9.]+ \|$' "$readme" >"$folder/promised"
sed -n -E 's/^(\| [a-z_]+ \|) [0-9]+ \|( [0-9.]+ \| [0-9.]+ \|)$/\1\2/p' "$folder/said" >"$folder/trained"
[ -s "$folder/promised" ] || { echo "README has no table of policies"; exit 1; }
diff "$folder/promised" "$folder/trained" || { echo "FAILED: README's table (<) is not what was trained (>)"; exit 1; }
counted=$(sed -n -E 's/.*\(unigram ([0-9.]+), bigram ([0-9.]+)\).*/\1 \2/p' "$folder/said" | tail -n 1)
grep -q "unigram model's held-out perplexity on this text is ${counted% *}, a bigram model's ${counted#* }\." "$readme" ||
  { echo "FAILED: counting words has the perplexities $counted, and README says others"; exit 1; }
tr '\n' ' ' <"$readme" >"$folder/line"
for policy in 'hybrid' '`all_reduce`'; do
  quoted=$(sed -n -E "s/.* $policy sends ([0-9.]+) MB( a step)? and keeps ([0-9.]+) .*/\1 \3/p" "$folder/line")
  row=$(tr -d '`' <"$measured" | awk -v policy="$(echo "$policy" | tr -d '`')" '$1 == 128 && $5 == policy { print $6, $NF }')
  [ -n "$quoted" ] && [ "$quoted" = "$row" ] || { echo "FAILED: of $policy on two hosts README says '$quoted', $measured '$row'"; exit 1; }
done
cat "$folder/trained"
