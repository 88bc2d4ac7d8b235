#!/bin/sh
# lingers.sh program...: runs it, and ends with its status a tenth of a second later. MPICH 4.0.2's mpiexec is ended by SIGPIPE, once in
# a hundred starts, where all processes end while it still starts them.
"$@"
status=$?
sleep 0.1
exit $status
