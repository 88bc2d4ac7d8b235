#!/bin/sh
# count.sh COMPILER INCLUDE [FLAG...]: what trainers cost their compiler, in counts that repeat. Of the headers alone: the
# instructions of g++'s front end beside those for Eigen/Core. Of hello_step: the instructions of all of a compilation at -O0. Of
# trainers: the bytes of machine code at -O2, which is what an optimiser's time goes to, header-only and for a program that links
# parallax::compiled_mpi. Fails where one is above its goal. FLAGs say where Eigen and MPI are. Beside an older revision,
# benchmarks/compile_time/run counts the instructions of each, and times them.
set -eu
compiler=$1 include=$2
shift 2
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

code() {  # trainer source goal flags...
  name=$1 source=$2 goal=$3
  shift 3
  "$compiler" -std=c++20 -O2 -I "$include" "$@" -c "$source" -o "$folder/object.o"
  bytes=$(size -A "$folder/object.o" | awk '/^[.]text/ { sum += $2 } END { print sum }')
  printf '%-24s %8d bytes of at most %d\n' "$name" "$bytes" "$goal"
  [ "$bytes" -le "$goal" ] || { echo "FAILED: $name is above its goal"; failed=1; }
}
trainers() {  # form, a goal for each trainer, flags...
  form=$1 hello=$2 mpi=$3 driver=$4
  shift 4
  code "hello_step, $form" "$here/../../../examples/hello_step.cpp" "$hello" "$@"
  code "MPI trainer, $form" "$here/mpi_trainer.cpp" "$mpi" "$@"
  code "driver, $form" "$here/driver.cpp" "$driver" "$@"
}
front_end() {  # header flags...: how many millions of instructions it costs
  echo "#include <$1>" >"$folder/header.cpp"
  shift
  echo $(($("$here/instructions" "$compiler" -std=c++20 -I "$include" "$@" -fsyntax-only "$folder/header.cpp") / 1000000))
}
headers() {  # goal, in hundredths of Eigen/Core's, flags...
  goal=$1
  shift
  ours=$(front_end parallax/parallax.hpp "$@")
  eigen=$(front_end Eigen/Core "$@")
  echo "front end, millions: ours $ours, Eigen/Core $eigen"
  [ "$((ours * 100))" -le "$((eigen * goal))" ] || { echo "FAILED: our headers are above $goal % of it"; failed=1; }
}
whole() {  # trainer source level goal, in millions, flags...
  name="$1 $3" source=$2 level=$3 goal=$4
  shift 4
  millions=$(($("$here/instructions" "$compiler" -std=c++20 -I "$include" "$@" "$level" "$source") / 1000000))
  printf '%-24s %8d million instructions of at most %d\n' "$name" "$millions" "$goal"
  [ "$millions" -le "$goal" ] || { echo "FAILED: $name is above its goal"; failed=1; }
}

if ! "$compiler" --version | grep -q 'Free Software Foundation'; then
  echo "not counted: the instructions of another compiler"
elif ! command -v qemu-x86_64 >/dev/null; then
  echo "not counted: instructions, there is no qemu-x86_64; only where CI is not set may it be missing"
  [ "${CI-}" != true ] || failed=1
else
  # At 5a60b9a our headers took as much as Eigen/Core, and hello_step 25,508 million instructions at -O0; at 973608d 0.70 of it, and
  # 18,540. Rules made once a step, rows at rest, slots that follow values from outside, children, arithmetic that differs between
  # ranks, and errors without memory have taken the rest.
  headers 76 "$@"
  whole hello_step "$here/../../../examples/hello_step.cpp" -O0 19100 "$@"
fi
# Before the engine's bodies stood below its classes hello_step had 341,000 bytes, before what makes errors was cold 254,000, and with
# std::vector in place of List 240,000 (and the headers 742 thousandths of Eigen/Core). What ranks read in place costs
# a trainer 1,000 to 2,600 bytes, for it may run on threads; and one that links the library 4,500, as g++ takes more inline. All of that
# which is named above costs a trainer 4,000 to 4,700. The clock of rank 0 in agreements, by which traces are put, costs 150; threads that end early, 700 to 1,000.
trainers header-only 231600 267200 290400 "$@"
trainers compiled 76700 78700 136900 -DPARALLAX_COMPILED -DPARALLAX_COMPILED_MPI "$@"
exit $failed
