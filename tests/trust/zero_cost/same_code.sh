#!/bin/sh
# same_code.sh PROGRAM FUNCTION FUNCTION: fails, with the differences, where the two are not the same machine code. Addresses
# are left out: what is called is named, what is jumped to is counted from the function's begin. So are alignments, and which
# operand of a comparison comes first.
set -eu
program=$1
code() {
  objdump -d --no-show-raw-insn --disassemble="$1" "$program" |
    sed -n "/^[0-9a-f]* <$1>:/,/^\$/p" |
    sed -e 1d -e 's/^ *[0-9a-f]*:\t//' -e 's/[ \t]*#.*//' -e "s/[0-9a-f]* <$1\(+0x[0-9a-f]*\)>/\1/" -e 's/call *[0-9a-f]* /call /' |
    awk '
      { sub(/ +/, " ") }
      /^cmp / { split($2, operand, ","); swap = operand[1] > operand[2]; if (swap) $2 = operand[2] "," operand[1] }
      swap && /^j[gl]e? / { sub(/^jg/, "j?"); sub(/^jl/, "jg"); sub(/^j\?/, "jl"); swap = 0 }
      { print }'
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in "$2" "$3"; do
  code "$name" >"$folder/$name"
  [ "$(wc -l <"$folder/$name")" -gt 20 ] || { echo "there is no code of $name"; exit 1; }
done
diff -u "$folder/$2" "$folder/$3" || { echo "FAILED: $2 and $3 are not the same code"; exit 1; }
echo "$2 and $3 are the same $(wc -l <"$folder/$2") instructions"
