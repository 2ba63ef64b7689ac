#!/usr/bin/env bash
# check_links.sh ROOT: every relative link of a Markdown file leads to a file or folder of the tree, every #anchor to a heading
# of it, by GitHub's rule for their names. Code, fenced and inline, holds no links.
set -euo pipefail
root=$(cd "$1" && pwd)
# shellcheck source=tests/house/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
pages=$(list_files | grep -E '\.md$' || true)
[ -n "$pages" ] || finish "no Markdown files found under $root: the list is wrong"
cd "$root"
# First the anchors of all pages, then the links of all pages: FILE:LINE, the page or folder that is meant, the anchor.
# shellcheck disable=SC2016,SC2086  # awk's; names of pages have no blanks
found=$(printf '%s\n' $pages | xargs awk '
  function folder(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }
  function resolve(path, from,    part, count, i, n, kept) {  # "../power/README.md" of "bench" is "power/README.md"
    count = split((from == "" ? "" : from "/") path, part, "/")
    n = 0
    for (i = 1; i <= count; ++i) {
      if (part[i] == "" || part[i] == ".") continue
      if (part[i] == ".." && n > 0 && kept[n] != "..") --n
      else kept[++n] = part[i]
    }
    path = n > 0 ? kept[1] : "."
    for (i = 2; i <= n; ++i) path = path "/" kept[i]
    return path
  }
  FNR == 1 { fenced = 0; delete seen }
  /^ *(```|~~~)/ { fenced = !fenced; next }
  fenced { next }
  /^#+ / {
    slug = $0
    sub(/^#+ +/, "", slug)
    gsub(/\]\([^)]*\)/, "", slug)
    slug = tolower(slug)
    gsub(/[][`!"#$%&\x27()*+,.\/:;<=>?@\\^{|}~]/, "", slug)
    gsub(/ /, "-", slug)
    print "anchor", FILENAME, seen[slug]++ ? slug "-" (seen[slug] - 1) : slug
  }
  {
    line = $0
    gsub(/`[^`]*`/, "`code`", line)
    while (match(line, /\]\([^)]*\)/)) {
      target = substr(line, RSTART + 2, RLENGTH - 3)
      line = substr(line, RSTART + RLENGTH)
      sub(/ .*/, "", target)  # a title
      if (target ~ /^[a-z]+:/) continue
      path = anchor = target
      sub(/#.*/, "", path)
      if (!sub(/^[^#]*#/, "", anchor)) anchor = "-"
      path = path == "" ? FILENAME : resolve(path, folder(FILENAME))
      print "link", FILENAME ":" FNR, path, anchor
    }
  }')
problems=''
problem() { problems+="$1"$'\n'; }
anchors=$(sed -n 's/^anchor //p' <<<"$found")
links=$(sed -n 's/^link //p' <<<"$found")
while read -r place path anchor; do
  [ -n "$place" ] || continue
  if [ ! -e "$path" ]; then
    problem "$place: links to $path, which is not there"
  elif [ "$anchor" != - ]; then
    if [ -d "$path" ]; then path=$path/README.md; fi
    grep -qxF -- "$path $anchor" <<<"$anchors" || problem "$place: $path has no heading #$anchor"
  fi
done <<<"$links"
[ -z "$problems" ] && printf '%s links lead somewhere\n' "$(grep -c . <<<"$links" || true)"
finish "${problems%$'\n'}"
