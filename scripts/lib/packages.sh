# shellcheck shell=bash disable=SC2034,SC2154  # variables set here are used by the caller
# The packages of each distribution (named only here) and their installation. Sourced after common.sh.

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
# compare.py; of packages and manual pages; and pip to download oneDNN 3. Only CI installs them, on disposable machines: some
# are daemons that would start at boot, and the browser and scipy are large.
ci_packages=(slurm-wlm munge iproute2 prometheus chromium libbenchmark-tools python3-scipy dpkg-dev groff-base python3-pip)

# Sets manager (apt, dnf, zypper; empty: unknown), system (its name, for people) and tried (yes: these lists were installed and
# built with on that distribution).
know_distribution() {
  local facts=()
  # In a subshell: the file sets NAME, VERSION and others, too.
  mapfile -t facts < <(
    file=${TRAINWATT_OS_RELEASE:-/etc/os-release} ID='' ID_LIKE='' VERSION_ID='' PRETTY_NAME=''
    # shellcheck disable=SC1090  # a file of variables, found at run time
    if [ -r "$file" ]; then . "$file"; fi
    printf '%s\n' "$ID" "$ID_LIKE" "$VERSION_ID" "$PRETTY_NAME"
  )
  local id=${facts[0]:-} like=${facts[1]:-} version=${facts[2]:-}
  system=${facts[3]:-this system} manager='' tried=no
  case " $id $like " in
    *' debian '* | *' ubuntu '*) manager=apt ;;
    *' rhel '* | *' fedora '*) manager=dnf ;;
    *' suse '* | *' sles '*) manager=zypper ;;
  esac
  case $id:$version in debian:12) tried=yes ;; esac
}
know_distribution
case $manager in
  dnf) # RHEL, Rocky and Alma 9, with the repositories EPEL and CRB
    program_packages=(
      gcc-c++ gcc-toolset-13-gcc-c++ cmake ninja-build pkgconf-pkg-config openmpi-devel onednn-devel hwloc-devel
      kernel-tools-libs-devel cli11-devel fmt-devel json-devel valijson-devel google-benchmark-devel libxlsxwriter-devel
      libarchive-devel
    )
    test_packages=(gtest-devel boost-devel bubblewrap python3 python3-jsonschema python3-openpyxl ShellCheck openssh-clients)
    ;;
  zypper) # SLES 15 with Package Hub, openSUSE Leap 15
    program_packages=(
      gcc13-c++ cmake ninja pkgconf openmpi4-devel onednn-devel hwloc-devel libcpupower-devel cli11-devel fmt-devel
      nlohmann_json-devel valijson-devel benchmark-devel libxlsxwriter-devel libarchive-devel
    )
    test_packages=(gtest libboost_context-devel bubblewrap python3 python3-jsonschema python3-openpyxl ShellCheck openssh-clients)
    ;;
esac

is_installed() {
  case $manager in
    apt) [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
    *) rpm -q "$1" >/dev/null 2>&1 ;;
  esac
}

# The commands that install these packages, one a line, as an administrator types them.
install_commands() {
  case $manager in
    apt)
      say "apt-get update"
      say "apt-get install --no-install-recommends $*"
      ;;
    dnf)
      say "dnf install epel-release dnf-plugins-core" # the latter has config-manager
      say "dnf config-manager --set-enabled crb"
      say "dnf install $*"
      ;;
    zypper) say "zypper install --no-recommends $*" ;;
  esac
}

# ensure_packages NAME…: installs missing packages; without permission, lists them and exits with 3.
ensure_packages() {
  local name missing=() as_root=() log command
  if [ -z "$manager" ]; then
    say "$system has no package list here: packages are not checked or installed. The Debian 12 packages are: $*"
    return 0
  fi
  [ "$tried" = yes ] || say "$system: the package list is untried here."
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
        say "  $(install_commands "${missing[@]}" | sed ':a;N;$!ba;s/\n/ \&\& /g')"
        say "or use --no-install if a module system provides them."
      } >&2
      exit 3
    fi
  else
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  fi
  say "Installing ${missing[*]}"
  log=$(mktemp)
  while IFS= read -r command; do
    # shellcheck disable=SC2086  # words of a command
    "${as_root[@]}" ${command/ install/ install -y} </dev/null >>"$log" 2>&1 && continue
    tail -n 20 "$log" >&2
    die 3 "error[packages-missing]: '$command' failed; the complete output is in $log"
  done < <(install_commands "${missing[@]}")
  rm -f "$log"
}

# need_versions: exits with 3 where cmake or the compiler is too old, and says where newer ones come from.
need_versions() {
  local found
  found=$(cmake --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p')
  at_least 3.25 "$found" || die 3 "error[program-too-old]: cmake $found is too old (3.25 or later): load a module, or use PyPI's in a \
virtual environment (python3 -m venv venv && venv/bin/pip install cmake && PATH=\$PWD/venv/bin:\$PATH)"
  local compiler=${CXX:-c++}
  case $("$compiler" --version 2>/dev/null) in *clang*) return 0 ;; esac
  found=$("$compiler" -dumpfullversion 2>/dev/null || true)
  [ -z "$found" ] || at_least 12 "$found" || die 3 "error[program-too-old]: $compiler is g++ $found, too old (12 or later): $(newer_compiler)"
}
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
newer_compiler() {
  case $manager in
    apt) say "install g++-12 and set CXX=g++-12" ;;
    dnf) say "install gcc-toolset-13 and run: source /opt/rh/gcc-toolset-13/enable" ;;
    zypper) say "install gcc13-c++ and set CXX=g++-13 CC=gcc-13" ;;
    *) say "load a module with a newer one, and set CXX" ;;
  esac
}
