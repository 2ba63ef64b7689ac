# shellcheck shell=bash disable=SC2034,SC2154  # variables cross files: they are set here and used by the caller
# What the house checks share. Sourced with $root set to the tree to be checked.

# The files of the tree, relative to it: those that git tracks where this is a checkout that git may read (a file that a
# user put there is his own), else all but what .gitignore names.
list_files() {
  git -C "$root" ls-files --cached 2>/dev/null |
    while IFS= read -r file; do [ ! -f "$root/$file" ] || printf '%s\n' "$file"; done | grep . ||
    (cd "$root" && find . -type f -not -path './.git' -not -path './.git/*' -not -path './build*/*' -not -path './out/*' \
      -not -path './.venv*/*' -not -path '*/__pycache__/*' | sed 's|^\./||')
}

# finish PROBLEMS: prints them and ends with 1, or with 0 where there are none.
finish() {
  [ -n "$1" ] || exit 0
  printf '%s\n' "$1"
  exit 1
}
