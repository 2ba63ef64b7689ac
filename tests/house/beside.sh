# shellcheck shell=bash disable=SC2154  # $build, $jobs and $whole are the caller's
# A second build beside that of everything, for scripts/test. Sourced with $build, $jobs, $whole (the first) set.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
of_whole() { sed -n "s/^$1:[^=]*=//p" "$whole/CMakeCache.txt"; }

# configure_beside FLAGS OPTION…: configures $build as $whole is, with FLAGS added to the compiler's. What $whole has compiled
# by the same command without reading a header of the name of one in absent/ is taken from there, and linked here.
configure_beside() {
  local name flags=$1 settings=()
  for name in CMAKE_BUILD_TYPE CMAKE_COMPILE_WARNING_AS_ERROR CMAKE_CXX_COMPILER TRAINWATT_SANITIZE; do
    settings+=("-D$name=$(of_whole $name)")
  done
  cmake -S "$root" -B "$build" -G Ninja -DTRAINWATT_TESTS=ON "${settings[@]}" "${@:2}" \
    "-DCMAKE_CXX_FLAGS=$(of_whole CMAKE_CXX_FLAGS) $flags" "-DCMAKE_CXX_COMPILER_LAUNCHER=$here/take_object.sh;$whole" \
    >"$build.log" 2>&1 || {
    tail -n 20 "$build.log" >&2
    exit 1
  }
  rm -rf "$build/same"
  python3 "$here/same_objects.py" "$whole" "$build" "$here/absent"
}
