#!/usr/bin/env bash
# check_scripts.sh ROOT: what the two commands and the house checks answer when something is wrong (scripts/check_packages.sh:
# when packages are missing). Each case runs the real script with stand-ins on PATH; nothing is installed or built.
set -euo pipefail
root=$(cd "$1" && pwd)
here=$root/tests/house
# shellcheck source=tests/house/scripts/cases.sh
. "$here/scripts/cases.sh"
stand_in id 'echo 0'

# ---- the folder of the programs: that of a prefix only where they are in it ----
mkdir -p "$work/prefix/bin" "$work/prefix/share/trainwatt"
for wanted in share/trainwatt/build/bin bin; do
  # shellcheck disable=SC2016  # the inner shell expands it
  expect 0 "$work/prefix/$wanted" env -C "$root" root="$work/prefix/share/trainwatt" bash -euc '. scripts/lib/common.sh; programs_folder'
  printf '#!/bin/sh\n' >"$work/prefix/bin/trainwatt"
  chmod +x "$work/prefix/bin/trainwatt"
done

# ---- without what builds: said before cmake is called ----
mkdir "$work/few"
for program in bash sh env nproc sed dirname basename mkdir rm date cat; do ln -s "$(type -P $program)" "$work/few/$program"; done
for command in quickstart test; do
  few=(env PATH="$work/few" "$root/scripts/$command" --no-install --build "$work/build")
  expect 3 'error[program-missing]: not on PATH: cmake, ninja, a C++ compiler (g++), mpirun;' "${few[@]}"
  if grep -q configure.log "$work/output"; then echo "$command names a log that is not there"; failures=$((failures + 1)); fi
done
ln -s "$(type -P true)" "$work/few/g++"
expect 3 'error[program-missing]: not on PATH: cmake, ninja, mpirun;' env PATH="$work/few" \
  "$root/scripts/quickstart" --no-install --build "$work/build"

# ---- warnings are errors in CI, and nowhere else ----
stand_in cmake "[ \"\$1\" != --version ] || { echo 'cmake version 3.25.1'; exit 0; }; echo \"\$*\" >$work/configured; exit 1"
stand_in ninja 'exit 0'
stand_in mpirun 'exit 0'
for environment in ci bare; do
  expect 3 'error[configure-failed]: ' env TRAINWATT_TEST_ENVIRONMENT=$environment "$root/scripts/test" --no-install \
    --build "$work/$environment"
  status=0
  grep -q -e '-DTRAINWATT_TESTS=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON' "$work/configured" || status=1
  if [ "$environment:$status" != ci:0 ] && [ "$environment:$status" != bare:1 ]; then
    echo "scripts/test in the environment $environment: warnings must be errors in ci alone; cmake got: $(cat "$work/configured")"
    failures=$((failures + 1))
  fi
done
rm "$work/bin/cmake" "$work/bin/ninja" "$work/bin/mpirun"

# ---- options ----
for command in quickstart test; do
  expect 0 '--build DIR' "$root/scripts/$command" --help
  expect 2 "$command: error[unknown-option]: unknown option '--biuld'" "$root/scripts/$command" --biuld x
  expect 2 'error[unknown-option]: ' "$root/scripts/$command" word
  expect 2 'error[bad-value]: --jobs takes a number' "$root/scripts/$command" --jobs many
  expect 2 'error[bad-value]: --build needs a value' "$root/scripts/$command" --build
  expect 3 'error[output-not-writable]: ' "$root/scripts/$command" --build /proc/none
done
expect 2 'error[unknown-name]: ' env TRAINWATT_TEST_ENVIRONMENT=nowhere "$root/scripts/test" --build "$work/build"
for command in package check-oracle check-distributions bench-cpu gpu-validate oracle/make-golden; do
  expect 2 "${command##*/}: error[unknown-option]: " "$root/scripts/$command" --nonsense
  expect 0 "scripts/$command " "$root/scripts/$command" --help
done
expect 2 'error[option-needs]: ' "$root/scripts/package"
expect 2 'error[option-needs]: ' "$root/scripts/check-distributions"
expect 2 'error[unknown-name]: ' "$root/scripts/check-oracle" --model gpt2-tiny,gpt3
expect 3 'error[build-missing]: ' "$root/scripts/check-oracle" --build "$work/none" --model gpt2-tiny --json
expect 3 'error[program-missing]: ' "$root/scripts/oracle/make-golden" --build "$work/none"
expect 2 'error[bad-value]: argument --blocks' "$root/scripts/bench-cpu" --blocks many
expect 2 'error[unknown-name]: ' "$root/scripts/bench-cpu" --only gpt3
expect 3 'error[build-missing]: ' "$root/scripts/bench-cpu" --build "$work/none"

# ---- the scripts for Slurm, outside of it; tests/e2e/slurm_test.py has those inside ----
for name in train sweep; do
  script=$root/scripts/slurm/$name.sbatch
  expect 2 "$name.sbatch: error[not-a-slurm-job]: " env -u SLURM_JOB_ID "$script"
  # What it does, an example that can be called, options and variables; nothing is started, not in a job's shell either.
  for said in 'as a Slurm job' "$script --" '--repeat N ' TRAINWATT_LAUNCHER SLURM_MPI_TYPE TRAINWATT_BIN TRAINWATT_ROOT; do
    expect 0 "$said" env -u SLURM_JOB_ID "$script" --help
    expect 0 "$said" env SLURM_JOB_ID=1 "$script" --help
  done
  if grep -qE '^#|SBATCH|launch once' "$work/output"; then
    echo "$name.sbatch --help prints more than its help"
    failures=$((failures + 1))
  fi
done
expect 2 'error[unknown-command]: ' "$root/scripts/slurm/launch" twice
expect 3 'error[not-a-slurm-job]: SLURM_JOB_ID ' env -u SLURM_JOB_ID "$root/scripts/slurm/launch" once --model gpt2-tiny
# shellcheck disable=SC2016  # the stand-ins expand these
{
  stand_in mpirun '[ "$1" != --version ] || exit 0; shift 2; exec "$@"'
  stand_in trainwatt-train 'echo "asked for $*"'
  stand_in scontrol 'exit 0'
}
in_job=(env SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1 SLURM_CPUS_ON_NODE=1
  TRAINWATT_BIN="$work/bin" TRAINWATT_LAUNCHER=mpirun "$root/scripts/slurm/launch")
stand_in trainwatt 'exit 1'
expect 0 'asked for --suite quick --dry-run' "${in_job[@]}" once --suite quick --out "$work/none" --dry-run
# A run that is stopped after a point: requeued if it exits with 5, not if its settings could not be restored.
for code in 3 5; do
  stand_in trainwatt-train "trap '' USR1; mkdir -p $work/run$code; echo {} >$work/run$code/records.jsonl
kill -USR1 \$PPID; sleep 0.2; exit $code"
  said='is requeued'
  if [ $code = 3 ]; then said='launch 1 on n'; fi
  expect $code "$said" "${in_job[@]}" requeue --out "$work/run$code"
  if [ $code = 3 ] && grep -q 'is requeued' "$work/output"; then
    echo "launch requeues a job that exited with 3"
    failures=$((failures + 1))
  fi
done
# A launch without a point, after others with points, is requeued once; the next one without a point ends the job.
stand_in trainwatt-train "trap '' USR1; kill -USR1 \$PPID; sleep 0.2; exit 5"
stand_in scontrol "echo \"\$*\" >>$work/asked; exit 0"
expect 5 'is requeued' "${in_job[@]}" requeue --resume "$work/run5"
expect 0 'requeue 1' cat "$work/asked"
expect 5 'error[interrupted]: this launch finished no point' "${in_job[@]}" requeue --resume "$work/run5"
expect 2 'error[options-conflict]: ' "${in_job[@]}" once --out "$work/one" --resume="$work/other"
expect 2 'error[bad-value]: ' "${in_job[@]}" once --out
expect 2 'error[unknown-name]: ' env "${in_job[@]:1:6}" TRAINWATT_LAUNCHER=rsh "$root/scripts/slurm/launch" once
stand_in scontrol 'exit 1'
stand_in trainwatt-train "trap '' USR1; echo {} >>$work/run5/records.jsonl; kill -USR1 \$PPID; sleep 0.2; exit 5"
expect 5 'error[not-requeued]: ' "${in_job[@]}" requeue --resume "$work/run5"
stand_in scontrol "echo \"\$*\" >>$work/asked; exit 0"
rm "$work/asked"
# Of an array only the element itself, which has a folder of its own.
mkdir -p "$work/single" && touch "$work/single/run.json"
mkdir -p "$work/array/3" && echo '{}' >"$work/array/3/records.jsonl"
in_array=(env SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3 "${in_job[@]:1}")
expect 5 'job 7_3 is requeued' "${in_array[@]}" requeue --resume "$work/array"
expect 0 'requeue 7_3' cat "$work/asked"
expect 2 'error[bad-folder]: ' "${in_array[@]}" requeue --out "$work/single"
stand_in trainwatt "echo \"\$*\" >$work/asked"
TRAINWATT_BIN=$work/bin "$root/scripts/slurm/epilog.sh"
expect 0 'restore --all' cat "$work/asked"
# The installed epilog finds the program of its own prefix; one that finds none says so in the system log.
mkdir -p "$work/site/bin" "$work/site/share/trainwatt/scripts/slurm"
cp "$root/scripts/slurm/epilog.sh" "$work/site/share/trainwatt/scripts/slurm"
# shellcheck disable=SC2016  # the program expands it
printf '#!/bin/sh\necho "$0 $*" >%s\n' "$work/asked" >"$work/site/bin/trainwatt"
chmod +x "$work/site/bin/trainwatt"
ln -s "$work/site/share/trainwatt/scripts/slurm/epilog.sh" "$work/linked-epilog"
for epilog in "$work/site/share/trainwatt/scripts/slurm/epilog.sh" "$work/linked-epilog"; do
  rm -f "$work/asked"
  env -u TRAINWATT_BIN "$epilog"
  expect 0 "$work/site/bin/trainwatt restore --all" cat "$work/asked"
done
# shellcheck disable=SC2317  # the epilog calls it
logger() { echo "logged: $*"; }
export -f logger
expect 0 "there is no trainwatt in $work/nowhere; set TRAINWATT_BIN in" env TRAINWATT_BIN="$work/nowhere" "$root/scripts/slurm/epilog.sh"
unset -f logger

# ---- check-distributions: the tarball of each release runs on the others, or its C library is said to be too old; its Debian
# packages are installed; the reports are compared ----
mkdir -p "$work/checkout/tests/house"
cp -r "$root/scripts" "$work/checkout/"
stand_in git 'echo 0123abc' # a bare machine has none
# shellcheck disable=SC2016  # the stand-in expands it
printf '%s\n' '#!/bin/bash' 'suite=$2 folder=$3' 'echo "$suite ${folder##*/} ${*: -1}" >>"$0.calls"' 'mkdir -p "$folder/root"' \
  'case $suite:$* in' \
  '  *scripts/quickstart) mkdir -p "$folder/root/trainwatt/out/quick-1"; echo "$suite" >"$folder/root/trainwatt/out/quick-1/report.json" ;;' \
  '  *scripts/package*) mkdir -p "$folder/root/packed"; touch "$folder/root/packed/t.tar.gz" ;;' \
  '  *cpack*) echo "$suite" >"$folder/root/packed/t.deb" ;;' \
  '  *ensure_packages\ /packed/*) grep -qx "$suite" "$folder/root/packed/t.deb" || exit 1 ;;' \
  '  *compare*) ! grep -qx "$suite" "$folder"/root/of-debian1[23].json || exit 1 ;;' \
  "  bookworm:*debian13) echo \"libc.so.6: version 'GLIBC_2.38' not found\"; exit 1 ;;" \
  '  trixie:*scripts/test*) [ ! -e "$0.fails" ] || exit 1 ;;' 'esac' 'echo "done | all"' >"$work/checkout/tests/house/bare_root.sh"
chmod +x "$work/checkout/tests/house/bare_root.sh"
check=("$work/checkout/scripts/check-distributions" --work "$work/roots" debian12 debian13)
expect 0 '| debian13 | tarball of debian12 | 0 |' "${check[@]}"
expect 0 '| debian12 | tarball of debian13 | 1 |' "${check[@]}"
expect 0 'not possible: the C library of debian12' "${check[@]}"
expect 0 '| debian13 | Debian packages | 0 |' "${check[@]}"
expect 0 '| debian12 | comparison with debian13 | 0 |' "${check[@]}"
expect 0 '| done \| all |' "${check[@]}"
expect 0 ', commit 0123abc, ' "${check[@]}"
for called in 'trixie debian13-bare debian12' 'trixie debian13 debian12=/of-debian12.json'; do
  expect 0 "$called" cat "$work/checkout/tests/house/bare_root.sh.calls"
done
touch "$work/checkout/tests/house/bare_root.sh.fails"
expect 1 '| debian13 | scripts/test | 1 |' "${check[@]}"
expect 2 'error[unknown-name]: ' "${check[0]}" debian11
rm "$work/bin/git"

# ---- the house checks find what is wrong ----
includes="$here/check_includes.sh $here/fixtures/includes"
# shellcheck disable=SC2086  # two words
for wrong in 'power/wrong_room.hpp:2: power must not include "results/record/record.hpp"' \
  'models/compute/wrong_network.hpp:2: models/compute must not include "models/network/network.hpp"' \
  'models/compute/wrong_network.hpp:3: <mpi.h> belongs to comm' \
  'comm/wrong_relative.cpp:2: "communicator.hpp" does not begin with a room' \
  'models/families/one/description.hpp:2: models/catalog must not include "models/network/network.hpp"' \
  'models/wrong_family.cpp:2: "models/families/one/description.hpp" belongs to its family' \
  'power/wrong_namespace.hpp:2: opens tw; what is in power/ belongs to tw::power' \
  'power/wrong_namespace.hpp:8: opens tw::models; what is in power/ belongs to tw::power' \
  'results/record/wrong_floor.hpp:2: "results/compare/comparison.hpp" is of a folder above this one' \
  'include each other, which is a circle of folders' \
  'results/wrong_json.hpp:2: <nlohmann/json.hpp> costs'; do
  expect 1 "$wrong" $includes
done
if grep -q right.cpp "$work/output"; then echo "check_includes.sh blames right.cpp"; failures=$((failures + 1)); fi
expect 1 'tw::Twice is defined in comm/one.hpp and power/two.hpp' python3 "$here/check_types.py" "$here/fixtures/types"
mkdir -p "$work/codes/bench"
printf 'throw UsageError("never-listed", "text");\n' >"$work/codes/bench/one.cpp"
printf '## Codes of errors and warnings\n| \x60never-thrown\x60 | a code |\n' >"$work/codes/bench/README.md"
expect 1 'bench/one.cpp: the code never-listed is not in the table' python3 "$here/check_codes.py" "$work/codes"
expect 1 'no error or warning has the code never-thrown' python3 "$here/check_codes.py" "$work/codes"
mkdir -p "$work/codes/cmake" "$work/codes/scripts/packaging"
printf 'message(WARNING "warning[never-listed-either]: text")\n' >"$work/codes/cmake/One.cmake"
printf '## Codes of errors and warnings\n| \x60never-said\x60 | a code |\n' >"$work/codes/scripts/packaging/README.md"
expect 1 'cmake/One.cmake: the code never-listed-either is not in the table' python3 "$here/check_codes.py" "$work/codes"
expect 1 'scripts/packaging/README.md: no error or warning has the code never-said' python3 "$here/check_codes.py" "$work/codes"
# shellcheck disable=SC2016  # the script expands it
printf '%s\n' 'die 3 never-died "text"' 'die 3 "text"' 'die "$status" "text"' >"$work/codes/scripts/one"
printf '%s\n' 'fail(2, "never-failed", f"text {it}")' 'fail(2, f"text")' 'sys.exit("text")' >"$work/codes/scripts/two"
# shellcheck disable=SC2016  # as it is written there
for wrong in 'scripts/one: the code never-died is not in' 'scripts/two: the code never-failed is not in' \
  'scripts/one: an error without a code: die 3 "text"' 'scripts/one: an error without a code: die "$status" "text"' \
  'scripts/two: an error without a code: fail(2, f"text")' 'scripts/two: an error without a code: sys.exit("text")'; do
  expect 1 "$wrong" python3 "$here/check_codes.py" "$work/codes"
done
if grep -q 'without a code.*never' "$work/output"; then echo "check_codes.py does not see a code"; failures=$((failures + 1)); fi

# Recipes of other versions, with other libraries or options than the build has.
mkdir "$work/recipes"
(cd "$root" && cp -r --parents CMakeLists.txt results/CMakeLists.txt models/compute/cpu/CMakeLists.txt scripts "$work/recipes/")
recipes=("$here/check_recipes.py" "$work/recipes")
expect_wrong_recipe() { # FILE SED-SCRIPT TEXT
  cp "$work/recipes/$1" "$work/kept"
  sed -i "$2" "$work/recipes/$1"
  expect 1 "$3" "${recipes[@]}"
  mv "$work/kept" "$work/recipes/$1"
}
"${recipes[@]}" || failures=$((failures + 1))
expect_wrong_recipe CMakeLists.txt 's/trainwatt VERSION [0-9.]*/trainwatt VERSION 9.8.7/' 'the version is not 9.8.7'
expect_wrong_recipe models/compute/cpu/CMakeLists.txt 's/OneDNN 2.6/OneDNN 3.1/' 'the cpu device 3.1 to 3'
expect_wrong_recipe scripts/lib/packages.sh 's/  MPI:/  Newcomer:libnewcomer-dev MPI:/' 'Newcomer of scripts/lib/packages.sh has no name'
expect_wrong_recipe scripts/packaging/spack/packages/trainwatt/package.py '/depends_on("fmt/d' 'package.py: fmt is missing'
expect_wrong_recipe scripts/packaging/spack/packages/trainwatt/package.py 's/TRAINWATT_CPU/TRAINWATT_CPUS/' 'TRAINWATT_CPUS is no option'
expect_wrong_recipe scripts/packaging/easybuild/trainwatt-0.1.0-gompi-2025b.eb "/('hwloc'/d" 'hwloc is missing'
expect_wrong_recipe scripts/packaging/easybuild/trainwatt-0.1.0-gompi-2025b.eb "s/'3.7.3'/'3.9'/" 'needs oneDNN 3.9, oneDNN-3.7.3-GCC-14.3.0.eb is another version'
expect_wrong_recipe scripts/packaging/apptainer/trainwatt.def 's/ensure_packages .*/true/' 'does not install the packages'
expect_wrong_recipe scripts/packaging/README.md 's/carry\/debs" git /carry\/debs" /' 'git is called without a network'

mkdir -p "$work/tree/scripts/lib" "$work/tree/surprise" "$work/tree/power"
cp "$root/scripts/lib/packages.sh" "$work/tree/scripts/lib/"
touch "$work/tree/surprise/file"
printf '// line\n%.0s' {1..501} >"$work/tree/power/long.cpp"
printf '// see /wo%s/someone/notes\n' rk >"$work/tree/power/path.cpp"
printf 'void go() { kernel<<<1, 32>>>(); }\n' >"$work/tree/power/launch.cu"
printf '// µ%0116d\n// µ%0117d\n' 0 0 >"$work/tree/power/wide.cpp" # 120 and 121 columns
printf 'apt-get install libfmt-dev\n' >"$work/tree/scripts/other"
mkdir -p "$work/tree/tests/e2e"
touch "$work/tree/tests/e2e/test_"{1..16}.{py,sh}
for wrong in 'surprise: not in' 'power/long.cpp: over 500 lines' 'power/path.cpp:1:' 'power/launch.cu:1:' \
  'power/wide.cpp:2: longer than 120 columns' 'tests/e2e: has 32 sources' \
  'scripts/other: names the package libfmt-dev' 'scripts/other: calls apt'; do
  expect 1 "$wrong" "$here/check_tree.sh" "$work/tree"
done
# A file that git does not track is its user's.
if command -v git >/dev/null; then
  mkdir -p "$work/user/scripts/lib"
  cp "$root/scripts/lib/packages.sh" "$work/user/scripts/lib/"
  git -C "$work/user" init -q
  git -C "$work/user" add scripts
  echo '# see /wo''rk/notes' >"$work/user/train.py"
  "$here/check_tree.sh" "$work/user" >"$work/output" 2>&1 || true
  if grep -q train.py "$work/output"; then echo "check_tree.sh blames what git does not track"; failures=$((failures + 1)); fi
  git -C "$work/user" add train.py
  expect 1 'train.py: not in' "$here/check_tree.sh" "$work/user"
fi
printf '#pragma once\nstd::string lost();\n' >"$work/tree/power/alone.hpp"
echo '[]' >"$work/compile_commands.json"
mkdir -p "$work/tree/results" "$work/tree/bench/inventory"
(cd "$root" && cp --parents results/*/*.cpp bench/inventory/*.cpp "$work/tree/")
cp "$root/results/README.md" "$work/tree/results/"
printf '%s\n' 'void g(Findings& found) {' '  found.broken(' '      "never_found", at, what);' '}' \
  >"$work/tree/results/new.cpp"
expect 1 'results/README.md: no row for the code never_found' "$here/check_validate_codes.sh" "$work/tree"
mkdir -p "$work/names"
(cd "$root" && cp --parents results/*/*.[ch]pp bench/inventory/*.cpp results/record/flags.def "$work/names/")
"$here/check_names.py" "$work/names" || failures=$((failures + 1))
for wrong in 'status == "valid"' '"busy_host" == flag' 'name.starts_with("cost")' 'state.starts_with("broken")' 'v != "single_run"'; do
  printf 'bool f() { return %s; }\n' "$wrong" >"$work/names/results/compared.cpp"
  expect 1 'results/compared.cpp: compares with the name' "$here/check_names.py" "$work/names"
done
headers=("$here/check_headers.sh" "$work/tree" "$work" "${CXX:-c++}")
expect 1 'alone.hpp' "${headers[@]}"
# What a build has shown is believed as long as its object is newer than the header, and stands first in the source.
printf '// why\n#include "power/alone.hpp"\n' >"$work/tree/power/alone.cpp"
printf '{\n  "directory": "%s",\n  "command": "c++ -o alone.cpp.o -c %s",\n' "$work" "$work/tree/power/alone.cpp" >"$work/compile_commands.json"
touch -d '1 hour ago' "$work/tree/power/alone.hpp" "$work/tree/power/alone.cpp"
touch "$work/alone.cpp.o"
expect 0 '1 headers compile alone: 1 first in a source of the build, 0 here' "${headers[@]}"
touch -d '1 hour' "$work/tree/power/alone.hpp"
expect 1 'alone.hpp' "${headers[@]}"
touch -d '1 hour ago' "$work/tree/power/alone.hpp"
printf '#include <string>\n#include "power/alone.hpp"\n' >"$work/tree/power/alone.cpp"
touch -d '1 hour' "$work/alone.cpp.o"
expect 1 'alone.hpp' "${headers[@]}"

mkdir -p "$work/kernels/models/compute/cuda/kernels" "$work/launched"
printf '%s\n' 'TW_KERNEL(seen_kernel, 256, 1, 0)' 'TW_KERNEL(unseen_kernel, 256, 4, 0)' >"$work/kernels/models/compute/cuda/kernels/occupancy.def"
printf '%s\n' '__global__ void __launch_bounds__(256)' 'seen_kernel(int*) {}' '__global__ void unseen_kernel() {}' \
  '__global__ auto odd_kernel() -> void {}' >"$work/kernels/models/compute/cuda/some.cu"
echo 'void no_kernel();' >"$work/kernels/models/compute/cuda/none.cuh"
printf '%s\n' 'ran tw::models::cuda::seen_kernel<float>' 'idle tw::models::cuda::seen_kernel<int>' >"$work/launched/1"
touch -d '1 hour ago' "$work/program"
kernels="$root/tests/compute_cuda/simt/check_kernels.sh $work/kernels $work/launched $work/program"
# shellcheck disable=SC2086  # words
for wrong in 'some.cu: no test launches unseen_kernel' 'no test launches seen_kernel<int>' 'some.cu: a __global__ function is not' \
  'unseen_kernel assumes 4 blocks on an SM, but its __launch_bounds__ does not demand them'; do
  expect 1 "$wrong" $kernels
done
if grep -q 'seen_kernel<float>\|launches seen_kernel on' "$work/output"; then
  echo "check_kernels.sh blames a kernel that was launched"
  failures=$((failures + 1))
fi
printf '%s\n' '__global__ void __launch_bounds__(256, occupancy::seen_kernel.blocks)' 'seen_kernel(int*) {}' \
  >"$work/kernels/models/compute/cuda/some.cu"
echo 'TW_KERNEL(seen_kernel, 256, 4, 0)' >"$work/kernels/models/compute/cuda/kernels/occupancy.def"
echo 'ran tw::models::cuda::seen_kernel<int>' >"$work/launched/2"
# shellcheck disable=SC2086
expect 0 '1 kernels, 2 instances of them: all were launched' $kernels
touch "$work/program"
# shellcheck disable=SC2086
expect 1 'no run was recorded' $kernels

mkdir -p "$work/faults/tests/e2e" "$work/faults/power"
printf '%s\n' '| fault | what |' '|---|---|' '| heat | a |' '| rust | b |' >"$work/faults/power/README.md"
printf '%s\n' 'heat | Some.Test one_test.One.test_it' 'frost | Other.Test' >"$work/faults/tests/faults.txt"
printf 'class One(Case):\n' >"$work/faults/tests/e2e/one_test.py"
printf 'TEST(Other, Test) {}\n' >"$work/faults/tests/other.cpp"
for wrong in 'the fault "rust" has no test' 'no fault "frost"' 'there is no test Some.Test' 'one_test.py has no One.test_it'; do
  expect 1 "$wrong" "$here/check_faults.sh" "$work/faults"
done
if grep -q Other.Test "$work/output"; then echo "check_faults.sh blames a test that is there"; failures=$((failures + 1)); fi

mkdir -p "$work/links/power"
# shellcheck disable=SC2016  # Markdown
printf '%s\n' '# A page: with `code`, and more' '# Twice' '# Twice' '```' '# no heading' '[no link](lost.md)' '```' \
  'See [itself](#a-page-with-code-and-more), [the second](#twice-1), [a room](power#joules), [a site](https://example.org/x#y),' \
  '`[code](lost.md)`, [a](gone.md), [b](power/README.md#watts "title") and [c](#no-heading).' >"$work/links/README.md"
printf '%s\n' '# Joules' '[up](../README.md#twice) [down](../../README.md)' >"$work/links/power/README.md"
for wrong in 'README.md:9: links to gone.md, which is not there' 'README.md:9: power/README.md has no heading #watts' \
  'README.md:9: README.md has no heading #no-heading' 'power/README.md:2: links to ../README.md, which is not there'; do
  expect 1 "$wrong" "$here/check_links.sh" "$work/links"
done
if [ "$(wc -l <"$work/output")" != 4 ]; then
  echo "check_links.sh blames a link that leads somewhere"
  cat "$work/output"
  failures=$((failures + 1))
fi

# ---- oneDNN 3: without a network a skip with the reason; another file than expected is a failure ----
stand_in python3 'echo "no route to host"; exit 1'
expect 77 'skip: oneDNN 3 cannot be downloaded from PyPI: no route to host' "$here/build_with_onednn3.sh" "$work/onednn3" 1 "$work"
stand_in python3 'echo "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES"; exit 1'
expect 1 'DO NOT MATCH' "$here/build_with_onednn3.sh" "$work/onednn3" 1 "$work"
# ---- cuobjdump, in the same way; with it the test's tool lies in the build folder ----
expect 1 'DO NOT MATCH' "$here/take_cuobjdump.sh" "$work/build-of-cuda"
stand_in python3 'echo "no route to host"; exit 1'
expect 77 'skip: cuobjdump cannot be downloaded from PyPI: no route to host' "$here/take_cuobjdump.sh" "$work/build-of-cuda"
mkdir -p "$work/build-of-cuda/cuobjdump"
cp "$here/cuobjdump.txt" "$work/build-of-cuda/cuobjdump/complete"
expect 0 "$work/build-of-cuda/cuobjdump/cuobjdump" "$here/take_cuobjdump.sh" "$work/build-of-cuda"
rm "$work/bin/python3"

# ---- what build_without_hpc.sh and build_with_onednn3.sh take from the build of the whole ----
mkdir -p "$work/whole" "$work/less" "$work/absent"
touch "$work/absent/mpi.h"
log='' whole_commands='' less_commands=''
# object NAME HEADER OPTIONS-OF-WHOLE OPTIONS-OF-THE-OTHER
object() {
  log+="$1.o: #deps 2, deps mtime 1 (VALID)"$'\n'"    $work/$1.cpp"$'\n'"    $work/$2"$'\n\n'
  whole_commands+="{\"command\": \"c++ $3 -o $1.o -c $work/$1.cpp\"},"
  less_commands+="{\"command\": \"c++ $4 -I$work/absent -o $1.o -c $work/$1.cpp\"},"
  touch -d '1 hour ago' "$work/$1.cpp" "$work/$2"
  echo "whole's" >"$work/whole/$1.o"
}
object same plain.h "-O3 -I$work/whole" "-O3 -I$work/less"
object reads_mpi mpi.h -O3 -O3
object other_options plain.h -O3 -O1
object holds_its_folder plain.h "-DTOOL=$work/whole/tool" "-DTOOL=$work/less/tool"
object stale changed.h -O3 -O3
touch -d '1 hour' "$work/changed.h"
object not_logged plain.h -O3 -O3
log=${log/not_logged.o: #deps 2, deps mtime 1 (VALID)/not_logged.o: #deps 2, deps mtime 1 (STALE)}
echo "[${whole_commands%,}]" >"$work/whole/compile_commands.json"
echo "[${less_commands%,}]" >"$work/less/compile_commands.json"
printf '%s' "$log" >"$work/deps"
stand_in ninja "cat '$work/deps'"
expect 0 '1 of 6 objects' python3 "$here/same_objects.py" "$work/whole" "$work/less" "$work/absent"
for name in same reads_mpi other_options holds_its_folder stale not_logged; do
  # shellcheck disable=SC2016  # the inner shell expands it
  env -C "$work/less" "$here/take_object.sh" "$work/whole" sh -c 'echo compiled >"$1"' sh "$name.o" -MF "$name.d" -o "$name.o"
  made=compiled
  if [ "$name" = same ]; then made="whole's"; fi
  expect 0 "$made" cat "$work/less/$name.o"
done
expect 0 "same.o: $work/same.cpp $work/plain.h" cat "$work/less/same.d"

# ---- the report of scripts/test ----
report() { awk -v list="$1" -v environment=fixture -f "$root/tests/skips/report.awk" "${@:2}"; }
printf '%s\n' '# fixture' '^gpu\. | no CUDA device' >"$work/listed"
expect 0 '1 passed, 0 failed, 1 skipped' report "$work/listed" "$here/fixtures/results/skipped.xml"
expect 0 'skipped  1 × gpu: no CUDA device: "none" & nothing' report "$work/listed" "$here/fixtures/results/skipped.xml"
expect 1 'NOT LISTED for fixture  gpu.Device.copies' report /dev/null "$here/fixtures/results/skipped.xml"
expect 1 'NOT LISTED for fixture  gpu.pages: no screen (cases of a test that passed)' \
  report "$work/listed" "$here/fixtures/results/partly.xml"
expect 1 '1 passed, 0 failed, 0 skipped' report "$work/listed" "$here/fixtures/results/partly.xml"
printf '%s\n' '^gpu\.pages$ | no screen' >>"$work/listed"
expect 0 'skipped  1 × gpu: no screen (cases of a test that passed)' report "$work/listed" "$here/fixtures/results/partly.xml"
expect 1 'FAILED   a.Sum.fails' report "$work/listed" "$here/fixtures/results/failed.xml"
expect 1 '         | Expected equality of these values:' report "$work/listed" "$here/fixtures/results/failed.xml"
expect 1 '         |   3 < 4' report "$work/listed" "$here/fixtures/results/failed.xml"
expect 1 'FAILED   lost: did not run: Unable to find executable' report "$work/listed" "$here/fixtures/results/failed.xml"
expect 1 '0 passed, 2 failed, 0 skipped' report "$work/listed" "$here/fixtures/results/failed.xml"
expect 1 'CTest did not get that far' report "$work/listed" "$here/fixtures/results/skipped.xml" "$work/missing.xml"
expect 1 'holds no test' report "$work/listed" /dev/null

# ---- the runner of Python's cases: each skip has its line, and CTest sees a skip only where nothing passed ----
cases() { (cd "$work" && python3 "$root/tests/skips/run_cases.py" "$@"); }
cat >"$work/fixture_cases.py" <<'END'
import unittest
class Mixed(unittest.TestCase):
    def test_passes(self): pass
    def test_part(self):
        with self.subTest("a part"): self.skipTest("no right\n to mount")
class Skipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no browser")
    def test_passes(self): pass
class Failing(Skipped):
    @classmethod
    def setUpClass(cls): pass
    def test_fails(self): self.fail()
    def test_skips(self): self.skipTest("no screen")
class Empty(unittest.TestCase): pass
END
expect 0 'skip: no right to mount' cases fixture_cases.Mixed
expect 77 'skip: no right to mount' cases fixture_cases.Mixed.test_part
expect 77 'skip: no browser' cases fixture_cases.Skipped
expect 0 'skip: no browser' cases fixture_cases.Mixed fixture_cases.Skipped
expect 1 'skip: no screen' cases fixture_cases.Failing
expect 1 'no case ran of fixture_cases.Empty' cases fixture_cases.Empty
expect 1 'fixture_cases' cases fixture_cases.Absent

finish_cases
