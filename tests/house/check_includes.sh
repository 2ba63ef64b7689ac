#!/usr/bin/env bash
# check_includes.sh ROOT: every include "…" is relative to the root and obeys the matrix of rooms in
# CONTRIBUTING.md; each library's own headers stay in the one place that may use them; a source of a room opens the room's
# namespaces; what calls functions of <algorithm> includes it, because not every libstdc++ brings them along by other headers.
set -euo pipefail
root=$(cd "$1" && pwd)
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shellcheck disable=SC2016  # awk's
problems=$(list_files | grep -E '^(bench|models|comm|power|results|tests)/.*\.(cpp|hpp|cu|cuh|inc)$' |
  grep -v '^tests/house/' | (cd "$root" && xargs -r awk '
  BEGIN {
    names = "all_of|any_of|binary_search|copy_if|copy_n|count|count_if|equal_range|find|find_if|find_if_not|for_each|generate|includes"
    names = names "|is_sorted|lower_bound|max_element|min_element|minmax_element|mismatch|none_of|nth_element|partition|remove_if"
    names = names "|replace|reverse|rotate|search|set_difference|set_intersection|set_union|shuffle|sort|stable_sort|transform|unique|upper_bound"
    algorithms = "std::(clamp|(ranges::)?(" names ")|ranges::(copy|equal|fill|fill_n|max|min|minmax|move))\\("
  }
  function room(path) {  # the unit that the matrix speaks of
    if (path ~ /^models\/(catalog\/|families\/families\.def|families\/[^\/]*\/description)/) return "models/catalog"
    if (path ~ /^models\/compute\//) return "models/compute"
    sub(/\/.*/, "", path)
    return path
  }
  function allowed(from, to) {
    if (from == to || from == "tests" || from == "bench") return to != "tests" || from == "tests"
    if (from == "models") return to ~ /^models/
    if (from == "comm") return to == "models/compute"
    return 0  # models/catalog, models/compute, power and results include no other room
  }
  function family(path) { return match(path, /^models\/families\/[^\/]*\//) ? substr(path, 1, RLENGTH) : "" }
  # Folders of a room, the lowest first: each includes those before it. "." is the room itself, above its folders.
  function floor_of(path, base, folders,   all, count, i) {
    if (index(path, base "/") != 1) return 0
    sub("^" base "/", "", path)
    count = split(folders, all, " ")
    for (i = 1; i <= count; ++i) if (index(path, all[i] "/") == 1 || (all[i] == "." && path !~ /\//)) return i
    return 0
  }
  function is_upwards(from, to, base, folders,   low) {
    low = floor_of(from, base, folders)
    return low && low < floor_of(to, base, folders)
  }
  function top_of(path) { sub(/\/.*/, "", path); return path }
  function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
  # Whether `to` is reached from `from` over folders that include each other.
  function reaches(from, to, seen,   next_folder, edge) {
    if (from == to) return 1
    seen[from] = 1
    for (edge in edges) {
      split(edge, part, " ")
      if (part[1] != from) continue
      next_folder = part[2]
      if (!(next_folder in seen) && reaches(next_folder, to, seen)) return 1
    }
    return 0
  }
  function problem(what) { printf "%s:%d: %s\n", FILENAME, FNR, what }
  function end_file() {
    if (calls != "" && !has_algorithm) printf "%s:%d: %s needs #include <algorithm>\n", file, calls_at, calls
    calls = ""; has_algorithm = 0; file = FILENAME
  }
  FNR == 1 { end_file() }
  /^#include <algorithm>/ { has_algorithm = 1 }
  calls == "" && !/^ *\/\// && match($0, algorithms) { calls = substr($0, RSTART, RLENGTH - 1); calls_at = FNR }
  # tw::ROOM and what is below it. Of another room a block may declare types, and nothing else.
  FNR == 1 { other = "" }
  other != "" && !/^((class|struct) [A-Za-z0-9_]+;[ \t]*(\/\/.*)?|}.*)?$/ {
    printf "%s:%d: opens %s; what is in %s/ belongs to tw::%s\n", FILENAME, at, other, top, top
    other = ""
  }
  /^}/ { other = "" }
  /^[ \t]*(inline )?namespace tw[ :{]/ {
    top = FILENAME; sub(/\/.*/, "", top)
    opened = $0; sub(/^.*namespace /, "", opened); sub(/[ {].*/, "", opened)
    if (top != "tests" && index(opened "::", "tw::" top "::") != 1) { other = opened; at = FNR }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\""); target = part[2]
    if (room(target) !~ /^tests/ && top_of(target) == top_of(FILENAME) && folder_of(target) != folder_of(FILENAME))
      edges[folder_of(FILENAME) " " folder_of(target)] = FILENAME ":" FNR
    if (target !~ /^(bench|models|comm|power|results|tests)\//) {
      problem("\"" target "\" does not begin with a room; includes are relative to the root, libraries stand in <>")
    } else if (!allowed(room(FILENAME), room(target))) {
      problem(room(FILENAME) " must not include \"" target "\"")
    } else if (is_upwards(FILENAME, target, "results", "record devices analysis selection validation cost compare terminal export html .") ||
               is_upwards(FILENAME, target, "models", "catalog compute data network layers optimizers export families ledger .") ||
               is_upwards(FILENAME, target, "power", "meter telemetry knob sources .") ||
               is_upwards(FILENAME, target, "bench/train", "job node point sweep .") ||
               is_upwards(FILENAME, target, "bench/plan", "options .") ||
               is_upwards(FILENAME, target, "bench/tool", "inputs meter .")) {
      problem("\"" target "\" is of a folder above this one (CONTRIBUTING.md, rooms)")
    } else if (family(target) != "" && family(target) != family(FILENAME) && FILENAME !~ /^tests\//) {
      problem("\"" target "\" belongs to its family; ask the network, as models/catalog/description.hpp describes it")
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, part, /[<>]/); target = part[2]
    if (target ~ /^(mpi|mpi-ext)\.h$/ && FILENAME !~ /^(comm|tests\/comm)\//) problem("<" target "> belongs to comm")
    if (target ~ /^(dnnl|oneapi\/dnnl)/ && FILENAME !~ /^models\/compute\/cpu\//) problem("<" target "> belongs to models/compute/cpu")
    if (target ~ /^(cuda|cublas|cudnn)/ && FILENAME !~ /^(models\/compute\/cuda|tests\/compute_cuda|tests\/support\/(simt|cublaslt))\//) problem("<" target "> belongs to models/compute/cuda")
    if (target ~ /^boost\// && FILENAME !~ /^tests\/support\/simt\//) problem("<" target "> belongs to tests/support/simt")
    if (target ~ /^nccl/ && FILENAME !~ /^(comm|tests\/comm)\//) problem("<" target "> belongs to comm")
    if (target ~ /^powercap/ && FILENAME !~ /^(power|tests\/power)\//) problem("<" target "> belongs to power")
    if (target ~ /^archive/ && FILENAME !~ /^(bench\/tool|tests\/fuzz)\//) problem("<" target "> belongs to bench/tool")
    if (target ~ /^(nlohmann|valijson)\// && target !~ /json_fwd/ && FILENAME ~ /\.hpp$/) problem("<" target "> costs seconds a unit and stays out of headers")
  }
  END {
    end_file()
    for (one in edges) {
      split(one, ends, " "); delete seen
      if (reaches(ends[2], ends[1], seen)) printf "%s: %s and %s include each other, which is a circle of folders\n", edges[one], ends[1], ends[2]
    }
  }'))
finish "$problems"
