# shellcheck shell=bash disable=SC2034,SC2154  # variables cross files: they are set here and used by the caller
# What the house checks share. Sourced with $root set to the tree to be checked.

# All files of the tree, relative to it: git's where this is a checkout that git may read, else all but build outputs.
list_files() {
  git -C "$root" ls-files --cached --others --exclude-standard 2>/dev/null |
    while IFS= read -r file; do [ ! -f "$root/$file" ] || printf '%s\n' "$file"; done | grep . ||
    (cd "$root" && find . -type f -not -path './.git*/*' -not -path './build*/*' -not -path './out/*' | sed 's|^\./||')
}

# finish PROBLEMS: prints them and ends with 1, or with 0 where there are none.
finish() {
  [ -n "$1" ] || exit 0
  printf '%s\n' "$1"
  exit 1
}
