#!/bin/sh
# alone.sh GOAL OBJECT PROGRAM: checks that a topic is small enough to be compiled alone, and passes so. The seconds of g++ at -O0
# follow the bytes of machine code in the object: 4 for 218,000 of them, 13 for 958,000. GOAL is the most of them.
set -eu
bytes=$(size -A "$2" | awk '/^[.]text/ { sum += $2 } END { print sum }')
echo "$(basename "$2"): $bytes bytes of machine code of at most $1"
[ "$bytes" -le "$1" ] || { echo "FAILED: split the topic by promise, or instantiate less"; exit 1; }
"$3"
