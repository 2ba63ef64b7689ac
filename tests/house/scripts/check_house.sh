#!/usr/bin/env bash
# check_house.sh ROOT: the house checks, and what else scripts/test relies on, find what is wrong. Each case runs the real check on a
# tree that is made for it, with stand-ins on PATH.
set -euo pipefail
root=$(cd "$1" && pwd)
here=$root/tests/house
# shellcheck source=tests/house/scripts/cases.sh
. "$here/scripts/cases.sh"

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
  'power/wrong_algorithm.cpp:4: std::ranges::sort needs #include <algorithm>' \
  'results/wrong_json.hpp:2: <nlohmann/json.hpp> costs'; do
  expect 1 "$wrong" $includes
done
if grep -q right.cpp "$work/output"; then echo "check_includes.sh blames right.cpp"; failures=$((failures + 1)); fi
expect 1 'tw::Twice is defined in comm/one.hpp and power/two.hpp' python3 "$here/check_types.py" "$here/fixtures/types"
for wrong in 'defines tw::power::lost, which power/header.hpp declares' 'defines tw::power::Meter::read, which' \
  'defines tw::power::limit, which'; do
  expect 1 "power/other/source.cpp: $wrong" python3 "$here/check_definitions.py" "$here/fixtures/definitions"
done
if grep -qE 'kept|inside|overload' "$work/output"; then echo "check_definitions.py blames what is right"; failures=$((failures + 1)); fi
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

# ---- an option that nothing reads ----
mkdir -p "$work/options/bench/train"
cp -r "$root/bench/plan" "$work/options/bench/"
cp -r "$root/bench/train/." "$work/options/bench/train/"
sed -i 's/^struct RunSettings {/&\n  double lost_share = 0;/' "$work/options/bench/plan/options/request.hpp"
expect 1 'RunSettings::lost_share is set by an option, and nothing else reads it' python3 "$here/check_options.py" "$work/options"

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
expect_wrong_recipe scripts/packaging/spack/spack_repo/trainwatt/packages/trainwatt/package.py '/depends_on("fmt/d' 'package.py: fmt is missing'
expect_wrong_recipe scripts/packaging/spack/spack_repo/trainwatt/packages/trainwatt/package.py 's/TRAINWATT_CPU/TRAINWATT_CPUS/' 'TRAINWATT_CPUS is no option'
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
touch "$work/tree/tests/e2e/test_"{1..16}.{py,sh} "$work/tree/tests/e2e/forgotten_test.cpp"
mkdir -p "$work/tree/tests/power/sources"
touch "$work/tree/tests/power/sources/"{collected,nvml_left}_test.cpp
printf '%s\n' 'file(GLOB tests */*_test.cpp)' 'list(FILTER tests EXCLUDE REGEX "/nvml[a-z_]*_test\\.cpp$")' >"$work/tree/tests/power/CMakeLists.txt"
for wrong in 'surprise: not in' 'power/long.cpp: over 500 lines' 'power/path.cpp:1:' 'power/launch.cu:1:' \
  'power/wide.cpp:2: longer than 120 columns' 'tests/e2e: has 33 sources' 'tests/e2e/forgotten_test.cpp: no CMakeLists.txt' \
  'tests/power/sources/nvml_left_test.cpp: no CMakeLists.txt' \
  'scripts/other: names the package libfmt-dev' 'scripts/other: calls apt'; do
  expect 1 "$wrong" "$here/check_tree.sh" "$work/tree"
done
if grep -q collected_test "$work/output"; then echo "check_tree.sh blames a test that is collected"; failures=$((failures + 1)); fi
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
(cd "$root" && cp --parents bench/README.md scripts/packaging/README.md "$work/tree/")
expect 1 'results/new.cpp: the code never_found is not in a table of results/README.md' python3 "$here/check_codes.py" "$work/tree"
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

# ---- a test in which Open MPI lost a rank that had ended runs once more; no other failure does ----
lost='mpirun has exited due to process rank 0 with PID 0 on'
# result NAME STATUS OUTPUT: a case as CTest writes it.
result() {
  printf '\t<testcase name="%s" classname="%s" time="1" status="%s">\n' "$1" "$1" "$2"
  if [ "$2" = fail ]; then printf '\t\t<failure message=""/>\n'; fi
  printf '\t\t<properties/>\n\t\t<system-out>%s</system-out>\n\t</testcase>\n' "$3"
}
{
  head -n 4 "$here/fixtures/results/failed.xml"
  result a.lost fail "$lost"
  result a.wrong fail '3 is not 4'
  result a.good run "$lost"
  echo '</testsuite>'
} >"$work/lost.xml"
result a.lost run well >"$work/again.xml"
# shellcheck disable=SC2016  # the stand-in expands it
stand_in ctest 'while [ "$1" != --output-junit ]; do shift; done; cp "${0%/bin/*}/again.xml" "$2"; echo "ran $4"'
expect 0 '(open-mpi/ompi#7833): a.lost' python3 "$root/tests/skips/repeat_lost.py" "$work" "$work/lost.xml"
expect 1 '2 passed, 1 failed, 0 skipped' report /dev/null "$work/lost.xml"
rm "$work/bin/ctest"

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
