# shellcheck shell=bash disable=SC2034,SC2154  # variables cross files: they are set here and used by the caller
# The Debian packages, named here and nowhere else, and how they get onto the machine. Sourced after common.sh.

# To build and run the programs.
program_packages=(
  g++ cmake ninja-build pkgconf
  libopenmpi-dev openmpi-bin
  libdnnl-dev libhwloc-dev libpowercap-dev libcpupower-dev
  libcli11-dev libfmt-dev nlohmann-json3-dev libvalijson-dev libbenchmark-dev
  libxlsxwriter-dev libarchive-dev libjs-chart.js
)
# Besides these, to build and run the tests: bubblewrap shows the real libpowercap a fake tree, Python drives whole programs,
# Boost's fibers are the threads of CUDA kernels on the CPU, openpyxl reads the workbook back,
# ssh-keygen signs bundles.
test_packages=(libgtest-dev libboost-context-dev bubblewrap python3 python3-jsonschema python3-openpyxl shellcheck openssh-client)
# For the tests under Slurm, of the metrics (promtool is in prometheus), of the HTML page, and by Google Benchmark's
# compare.py. Some are daemons, which a machine that boots would start; browser and scipy are large. So only CI, whose
# machines are thrown away, installs them.
ci_packages=(slurm-wlm munge iproute2 prometheus chromium libbenchmark-tools python3-scipy)

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# ensure_packages NAME…: installs what is missing; without the right to, lists it and exits 3. Touches nothing where all
# is there.
ensure_packages() {
  local name missing=() as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "No dpkg here, so nothing is checked or installed; on Debian 12 the packages would be: $*"
    return 0
  fi
  for name in "$@"; do is_installed "$name" || missing+=("$name"); done
  if [ ${#missing[@]} = 0 ]; then
    say "All $# packages are there."
    return 0
  fi
  if ! is_root; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
    else
      {
        say "$(basename "$0"): error[packages-missing]: this user may not install packages. Ask an administrator to run"
        say "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
        say "or, where a module system or another prefix provides them, call again with --no-install."
      } >&2
      exit 3
    fi
  else
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  fi
  say "Installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! "${as_root[@]}" apt-get update >"$log" 2>&1 ||
    ! "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die 3 "apt-get could not install ${missing[*]}; the whole output is in $log"
  fi
  rm -f "$log"
}
