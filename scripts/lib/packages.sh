# shellcheck shell=bash disable=SC2034,SC2154  # variables set here are used by the caller
# The Debian packages (named only here) and their installation. Sourced after common.sh.

# To build and run the programs.
program_packages=(
  g++ cmake ninja-build pkgconf
  libopenmpi-dev openmpi-bin
  libdnnl-dev libhwloc-dev libpowercap-dev libcpupower-dev
  libcli11-dev libfmt-dev nlohmann-json3-dev libvalijson-dev libbenchmark-dev
  libxlsxwriter-dev libarchive-dev libjs-chart.js
)
# Additionally, to build and run the tests: bubblewrap gives the real libpowercap a fake tree, Python runs whole programs,
# Boost's fibers are the threads of CUDA kernels on the CPU, openpyxl reads the workbook, ssh-keygen signs bundles.
test_packages=(libgtest-dev libboost-context-dev bubblewrap python3 python3-jsonschema python3-openpyxl shellcheck openssh-client)
# For the tests under Slurm, of the metrics (promtool is in prometheus), of the HTML page, and with Google Benchmark's
# compare.py, and pip to download oneDNN 3. Only CI installs them, on disposable machines: some are daemons that would start at boot, and the browser and
# scipy are large.
ci_packages=(slurm-wlm munge iproute2 prometheus chromium libbenchmark-tools python3-scipy python3-pip)

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# ensure_packages NAME…: installs missing packages; without permission, lists them and exits with 3.
ensure_packages() {
  local name missing=() as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "dpkg not found: packages are not checked or installed. The Debian 12 packages are: $*"
    return 0
  fi
  for name in "$@"; do is_installed "$name" || missing+=("$name"); done
  if [ ${#missing[@]} = 0 ]; then
    say "All $# packages are installed."
    return 0
  fi
  if ! is_root; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
    else
      {
        say "$(basename "$0"): error[packages-missing]: no permission to install packages. Ask an administrator to run"
        say "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
        say "or use --no-install if a module system provides them."
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
    die 3 "apt-get could not install ${missing[*]}; the complete output is in $log"
  fi
  rm -f "$log"
}
