# shellcheck shell=bash disable=SC2034,SC2154  # variables set here are used by the caller
# The packages of each distribution (named only here) and their installation. Sourced after common.sh.

# To build and run the programs: tools, and each library behind the name that the build has for it.
tool_packages=(g++ cmake ninja-build pkgconf openmpi-bin)
library_packages=(
  MPI:libopenmpi-dev OpenMP:g++ OneDNN:libdnnl-dev hwloc:libhwloc-dev powercap:libpowercap-dev
  CLI11:libcli11-dev fmt:libfmt-dev nlohmann_json:nlohmann-json3-dev valijson:libvalijson-dev benchmark:libbenchmark-dev
  XlsxWriter:libxlsxwriter-dev LibArchive:libarchive-dev Chart.js:libjs-chart.js
)
# Additionally, to build and run the tests, likewise: bubblewrap gives the real libpowercap a fake tree, Python runs whole programs,
# Boost's fibers are the threads of CUDA kernels on the CPU, openpyxl reads the workbook, ssh-keygen signs bundles.
test_libraries=(GTest:libgtest-dev)
test_packages=(libboost-context-dev bubblewrap python3 python3-jsonschema python3-openpyxl shellcheck openssh-client)
# To pack with cpack -G DEB and scripts/package.
pack_packages=(dpkg-dev file patchelf)
# For the tests under Slurm, of the metrics (promtool is in prometheus), of the HTML page, and with Google Benchmark's
# compare.py; of packages, the tarball, manual pages and completion; and pip to download oneDNN 3. Only CI installs them, on disposable
# machines: some are daemons that would start at boot, and the browser and scipy are large.
ci_packages=(slurm-wlm munge iproute2 prometheus chromium libbenchmark-tools python3-scipy "${pack_packages[@]}" groff-base zsh fish python3-pip)

# Sets manager (apt, dnf, zypper; empty: unknown), system (its name, for people), distribution and release (as in os-release),
# toolset (yes: a newer g++ is in gcc-toolset-13), listed (no: these lists are not that release's) and tried (yes: they were
# installed and built with there).
know_distribution() {
  local facts=()
  # In a subshell: the file sets NAME, VERSION and others, too.
  mapfile -t facts < <(
    file=${TRAINWATT_OS_RELEASE:-/etc/os-release} ID='' ID_LIKE='' VERSION_ID='' PRETTY_NAME=''
    # shellcheck disable=SC1090  # a file of variables, found at run time
    if [ -r "$file" ]; then . "$file" 2>/dev/null || true; fi # a broken line ends the reading
    printf '%s\n' "$ID" "$ID_LIKE" "$VERSION_ID" "$PRETTY_NAME"
  )
  local id=${facts[0]:-} like=${facts[1]:-} version=${facts[2]:-}
  distribution=$id release=$version
  system=${facts[3]:-this system} manager='' toolset=no listed=yes tried=no
  case " $id $like " in
    *' debian '* | *' ubuntu '*) manager=apt ;;
    *' rhel '* | *' fedora '*) manager=dnf ;;
    *' suse '* | *' sles '*) manager=zypper ;;
  esac
  case $manager:$id:" $like ":${version%%.*} in
    dnf:amzn:* | zypper:sle*:*:12) listed=no ;;
    dnf:*rhel*:[0-8] | dnf:centos:*:[0-8] | dnf:ol:*:[0-8]) listed=no toolset=yes ;; # of before EPEL 9: other packages
    dnf:*rhel*:9 | dnf:centos:*:9 | dnf:ol:*:9) toolset=yes ;;
    dnf:*rhel* | dnf:centos:* | dnf:ol:*) ;;
    dnf:*) distribution=fedora ;; # and what is made of it
    :*) listed=no ;;
  esac
  case $id:$version in debian:12 | debian:13) tried=yes ;; esac
}
know_distribution
case $manager:$listed in
  dnf:yes) # RHEL, Rocky, Alma and Oracle 9, with the repositories EPEL and CRB; Fedora, whose own g++ is new
    tool_packages=(gcc-c++ cmake ninja-build pkgconf-pkg-config)
    if [ "$toolset" = yes ]; then tool_packages=(gcc-c++ gcc-toolset-13-gcc-c++ cmake ninja-build pkgconf-pkg-config); fi
    library_packages=(
      MPI:openmpi-devel OpenMP:gcc-c++ OneDNN:onednn-devel hwloc:hwloc-devel CLI11:cli11-devel
      fmt:fmt-devel nlohmann_json:json-devel valijson:valijson-devel benchmark:google-benchmark-devel
      XlsxWriter:libxlsxwriter-devel LibArchive:libarchive-devel
    )
    test_libraries=(GTest:gtest-devel)
    test_packages=(boost-devel bubblewrap python3 python3-jsonschema python3-openpyxl ShellCheck openssh-clients)
    ;;
  zypper:yes) # SLES 15 with Package Hub, openSUSE Leap 15
    tool_packages=(gcc13-c++ cmake ninja pkgconf)
    library_packages=(
      MPI:openmpi4-devel OpenMP:gcc13-c++ OneDNN:onednn-devel hwloc:hwloc-devel CLI11:cli11-devel
      fmt:fmt-devel nlohmann_json:nlohmann_json-devel valijson:valijson-devel benchmark:benchmark-devel
      XlsxWriter:libxlsxwriter-devel LibArchive:libarchive-devel
    )
    test_libraries=(GTest:gtest)
    test_packages=(libboost_context-devel bubblewrap python3 python3-jsonschema python3-openpyxl ShellCheck openssh-clients)
    ;;
esac
program_packages=("${tool_packages[@]}")
for library in "${library_packages[@]}"; do
  case " ${program_packages[*]} " in *" ${library#*:} "*) ;; *) program_packages+=("${library#*:}") ;; esac
done

for library in "${test_libraries[@]}"; do test_packages+=("${library#*:}"); done

# package_of LIBRARY: the package that has it here, by the build's name for it; nothing where none is known.
package_of() {
  local library
  for library in "${library_packages[@]}" "${test_libraries[@]}"; do
    if [ "${library%%:*}" = "$1" ]; then say "${library#*:}"; fi
  done
}
# where_from LIBRARY…: "SYSTEM: the commands that install them"; nothing where no package is known. On a system without a list the
# names of Debian's packages. cmake calls it.
where_from() {
  local library package packages=()
  for library in "$@"; do
    package=$(package_of "$library")
    [ -n "$package" ] || continue
    case " ${packages[*]} " in *" $package "*) ;; *) packages+=("$package") ;; esac
  done
  if [ "$listed" = no ]; then
    say "Debian 12: ${packages[*]}"
  elif [ ${#packages[@]} -gt 0 ]; then
    say "$system: $(install_line "${packages[@]}")"
  fi
}

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
      local major=${release%%.*}
      case $distribution in
        fedora) ;; # has all of them in its own repositories
        rhel)
          say "subscription-manager repos --enable codeready-builder-for-rhel-$major-$(uname -m)-rpms"
          say "dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-$major.noarch.rpm"
          ;;
        ol)
          say "dnf install oracle-epel-release-el$major dnf-plugins-core" # the latter has config-manager
          say "dnf config-manager --set-enabled ol${major}_codeready_builder"
          ;;
        *)
          say "dnf install epel-release dnf-plugins-core" # the latter has config-manager
          say "dnf config-manager --set-enabled crb"
          ;;
      esac
      say "dnf install $*"
      ;;
    zypper)
      [[ $distribution != sle* ]] || say "SUSEConnect --product PackageHub/$release/$(uname -m)"
      say "zypper install --no-recommends $*"
      ;;
  esac
}
install_line() { install_commands "$@" | sed ':a;N;$!ba;s/\n/ \&\& /g'; }

# ensure_packages NAME…: installs missing packages; without permission, lists them and exits with 3.
ensure_packages() {
  local name missing=() as_root=() log command
  if [ "$listed" = no ]; then
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
      die 3 packages-missing "no permission to install packages. Ask an administrator to run
  $(install_line "${missing[@]}")
or use --no-install if a module system provides them."
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
    die 3 packages-missing "'$command' failed; the complete output is in $log"
  done < <(install_commands "${missing[@]}")
  rm -f "$log"
}

# on_path PROGRAM: "; HINT" where this distribution's package has PROGRAM, but not on PATH, or by another name.
on_path() {
  case $manager:$1 in
    dnf:mpirun) say "; with openmpi-devel, 'module load mpi/openmpi-$(uname -m)' puts mpirun on PATH (in a new shell if there is no module command)" ;;
    zypper:mpirun) say "; with openmpi4-devel, 'source /usr/lib64/mpi/gcc/openmpi4/bin/mpivars.sh' puts mpirun on PATH" ;;
    zypper:*'C++ compiler'*) say "; with gcc13-c++, set CXX=g++-13 CC=gcc-13" ;;
  esac
}

# need_versions: exits with 3 where cmake or the compiler is too old, and says where newer ones come from.
need_versions() {
  local found
  found=$(cmake --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p') || true
  [ -n "$found" ] || die 3 program-fails "'$(command -v cmake) --version' prints no version: load a module with a cmake that \
runs, or repair it"
  at_least 3.25 "$found" || die 3 program-too-old "cmake $found is too old (3.25 or later): load a module, or use PyPI's in a \
virtual environment (python3 -m venv venv && venv/bin/pip install cmake && PATH=\$PWD/venv/bin:\$PATH), or Spack's"
  local compiler=${CXX:-c++}
  found=$("$compiler" --version 2>/dev/null | sed -n '1s/.*clang version \([0-9.]*\).*/\1/p') || true
  if [ -n "$found" ]; then
    at_least 16 "$found" || die 3 program-too-old "$compiler is clang $found, too old (16 or later): load a module or install a \
package with a newer one, and set CXX and CC, or use g++ 12 or later"
    return 0
  fi
  found=$("$compiler" -dumpfullversion 2>/dev/null || true)
  [ -z "$found" ] || at_least 12 "$found" || die 3 program-too-old "$compiler is g++ $found, too old (12 or later): $(newer_compiler)"
}
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
newer_compiler() {
  case $manager:$toolset in
    apt:*) say "install g++-12 and set CXX=g++-12 CC=gcc-12" ;;
    dnf:yes) say "install gcc-toolset-13 and run: source /opt/rh/gcc-toolset-13/enable" ;;
    zypper:*) say "install the package gcc13-c++, which adds g++-13 beside it, and set CXX=g++-13 CC=gcc-13" ;;
    *) say "load a module with a newer one, or install one by Spack (spack install gcc@13), and set CXX" ;;
  esac
}
