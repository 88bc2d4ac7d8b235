#!/bin/sh
# compare.sh PLAIN LOOSE: both programs print the same lines, and as many as they should. PLAIN is compiled by the standard's
# rules, LOOSE under -Ofast.
plain=$("$1") && loose=$("$2") || { echo "a program has failed"; exit 1; }
[ "$(echo "$plain" | wc -l)" = 14 ] || { echo "not 14 lines:"; echo "$plain"; exit 1; }
[ "$plain" = "$loose" ] || { echo "plainly:"; echo "$plain"; echo "under -Ofast:"; echo "$loose"; exit 1; }
[ "$(echo "$plain" | grep -c taken)" = 1 ] || { echo "something is taken that is to be refused:"; echo "$plain"; exit 1; }
