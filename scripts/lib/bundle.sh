# shellcheck shell=bash disable=SC2034,SC2154  # variables cross files: they are set here and used by the caller
# The libraries of a tarball: which go along, their licences, and what they need of a machine. Sourced by scripts/package.

# Sets kind for a library's name: system (of the C library, drivers), mpi, gcc (libstdc++), or bundled.
kind_of() {
  case $1 in
    ld-linux* | ld64* | linux-vdso* | libc.so.* | libm.so.* | libmvec.so.* | libpthread.so.* | librt.so.* | libdl.so.* | libutil.so.* | \
      libresolv.so.* | libanl.so.* | libnsl.so.1 | libnss_* | libcuda.so.* | libnvidia-* | libnccl.so.*) kind=system ;;
    libmpi.so.* | libmpi_* | libmpich* | libpmpi* | libopen-rte.so.* | libopen-pal.so.* | libfabric.so.* | libuc[pst].so.*) kind=mpi ;;
    libstdc++.so.* | libgcc_s.so.*) kind=gcc ;;
    *) kind=bundled ;;
  esac
}
needed_by() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# collect_libraries PROGRAM…: sets bundled and gcc (name → file), and mpi (the name of the MPI library). MPI's own libraries are not
# looked into: they are the machine's.
collect_libraries() {
  declare -gA bundled=() gcc=()
  mpi=''
  local -A found=()
  local library arrow file queue=("$@") lost=()
  while read -r library arrow file _; do
    if [ "$arrow" = '=>' ]; then found[$library]=$file; fi
  done < <(for file in "$@"; do ldd "$file"; done)
  while [ ${#queue[@]} -gt 0 ]; do
    file=${queue[0]} queue=("${queue[@]:1}")
    for library in $(needed_by "$file"); do
      kind_of "$library"
      case $kind in
        mpi) mpi=$library ;;
        gcc) gcc[$library]=${found[$library]:-} ;;
        bundled)
          [ -z "${bundled[$library]:-}" ] || continue
          if [ ! -f "${found[$library]:-}" ]; then
            lost+=("$library")
            continue
          fi
          bundled[$library]=$(realpath "${found[$library]}")
          queue+=("${bundled[$library]}")
          ;;
      esac
    done
  done
  [ ${#lost[@]} = 0 ] || die 3 library-missing "the loader does not find ${lost[*]}; load the modules that the build used"
}

# copy_libraries FOLDER: the bundled ones, each of which finds the others beside it, and libstdc++ in a folder of its own, because
# the machine's own must be used where it is newer.
copy_libraries() {
  local library
  mkdir -p "$1/libstdc++"
  for library in "${!bundled[@]}"; do
    install -m 755 "${bundled[$library]}" "$1/$library"
    strip --strip-unneeded "$1/$library"
    # shellcheck disable=SC2016  # the loader expands it
    patchelf --set-rpath '$ORIGIN' "$1/$library"
  done
  for library in "${!gcc[@]}"; do install -m 755 "$(realpath "${gcc[$library]}")" "$1/libstdc++/$library"; done
}

# package_with FILE: "PACKAGE VERSION" of the package that FILE is of; fails where none has it.
package_with() {
  local owner='' file
  if command -v dpkg-query >/dev/null; then
    for file in "$1" "${1#/usr}"; do # a package may have the file by its name before /lib became a link
      owner=$(dpkg-query -S "$file" 2>/dev/null | sed -n '1s/: .*//p') || true
      [ -n "$owner" ] || continue
      # shellcheck disable=SC2016  # dpkg-query expands it
      dpkg-query -W -f '${binary:Package} ${Version}\n' "$owner" | sed 's/:[a-z0-9]* / /'
      return
    done
  fi
  rpm -qf --qf '%{NAME} %{VERSION}-%{RELEASE}\n' "$1" 2>/dev/null
}
# licence_files PACKAGE: its licence texts.
licence_files() {
  if [ -f "/usr/share/doc/$1/copyright" ]; then
    echo "/usr/share/doc/$1/copyright"
  else
    rpm -q --licensefiles "$1" 2>/dev/null
  fi
}

no_licence() { say "$(basename "$0"): warning[licence-missing]: no licence text of $1 was found; add it before you pass the tarball on" >&2; }

# copy_licences FOLDER: the licences of the bundled libraries and of the headers that are compiled in; sets packed_table, a row for
# each library.
copy_licences() {
  local library package owner owned file count rows=()
  for library in "${!bundled[@]}" "${!gcc[@]}" CLI11 nlohmann_json valijson Chart.js; do
    file=${bundled[$library]:-${gcc[$library]:-}}
    if [ -n "$file" ]; then
      owned=$(package_with "$(realpath "$file")") || owned=''
    else
      owned="$(package_of "$library") compiled in"
    fi
    read -r package owner <<<"$owned" || true
    count=0
    while IFS= read -r file; do
      install -D -m 644 "$file" "$1/$package/${file##*/}" && count=$((count + 1))
    done < <([ -z "$package" ] || licence_files "$package" || true)
    [ "$count" -gt 0 ] || no_licence "$library"
    rows+=("| $library | ${package:-unknown} | ${owner:-unknown} |")
  done
  # Debian's texts name long licences by their files.
  while IFS= read -r file; do
    [ ! -f "$file" ] || install -D -m 644 "$file" "$1/common-licenses/${file##*/}"
  done < <(grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$1" | sort -u)
  file=$(of_build CMAKE_CUDA_COMPILER)
  if [ -n "$file" ]; then
    file=$(dirname "$(dirname "$file")")/EULA.txt
    if [ -f "$file" ]; then
      install -D -m 644 "$file" "$1/cuda-runtime/EULA.txt"
    else
      no_licence "the CUDA runtime"
    fi
    rows+=("| CUDA runtime | CUDA toolkit | compiled in |")
  fi
  packed_table=$(printf '%s\n' "${rows[@]}" | sort)
}

# newest_needed FAMILY FILE…: the newest symbol version of the family (GLIBC, GLIBCXX, CXXABI) that these files need.
newest_needed() { objdump -T "${@:2}" | grep -F '*UND*' | grep -oE "\($1_[0-9.]+\)" | tr -d '()' | sort -uV | tail -n 1; }
# which_need VERSION FILE…: the names of those that need this symbol version.
which_need() {
  local file names=''
  for file in "${@:2}"; do
    if objdump -T "$file" | grep -F '*UND*' | grep -F "($1)" >/dev/null; then names+="${names:+, }${file##*/}"; fi
  done
  say "$names"
}

name_of_mpi() {
  case $1 in
    libmpi.so.40) echo "Open MPI 4 or 5 ($1)" ;;
    libmpi.so.12) echo "MPICH 3.1 or later, or one with its interface, such as Intel MPI ($1)" ;;
    libmpich.so.12) echo "MPICH as Debian and Ubuntu have it ($1)" ;;
    *) echo "the one that has $1" ;;
  esac
}

# readme: README.md of the tarball.
readme() {
  local line
  while IFS= read -r line; do
    case $line in
      @LIBRARIES@) printf '%s\n' "$packed_table" ;;
      *@MPI@*) [ -z "$mpi" ] || printf '%s\n' "${line//@MPI@/$(name_of_mpi "$mpi")}" ;;
      *)
        line=${line//@VERSION@/$version} line=${line//@ARCH@/$(uname -m)} line=${line//@GLIBC@/${glibc#GLIBC_}} line=${line//@GLIBC_FOR@/$glibc_for}
        printf '%s\n' "${line//@CXX@/$stdcxx and $cxxabi}"
        ;;
    esac
  done <"$root/scripts/packaging/tarball.md"
}
