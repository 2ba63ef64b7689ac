# Reads CTest's JUnit files; prints skips with their reason (those that are listed counted for each program), what failed,
# what was slow, and as the last line "N passed, N failed, N skipped". A passed test that skipped some of its cases
# (run_cases.py) counts as passed, and its skips need the list as well.
# Exit 1 where a test failed, a skip is not in the list, or a file holds no test.
#   awk -v list=tests/skips/ci.txt -v environment=ci -f report.awk FILE.xml…
# A line of the list: NAME | REASON, both regular expressions; # begins a comment.

function decoded(text) {
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  return text
}
function attribute(line, name,    rest) {
  if (!match(line, " " name "=\"[^\"]*\"")) return ""
  rest = substr(line, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
  return decoded(rest)
}
function listed(name, reason,    i) {
  for (i = 1; i <= entries; ++i) if (name ~ entry_name[i] && reason ~ entry_reason[i]) return 1
  return 0
}
function skip(part,    i, group) {
  if (!reasons) reason[++reasons] = status == "disabled" ? "disabled" : "no reason given"
  for (i = 1; i <= reasons; ++i) {
    if (!listed(name, reason[i])) {
      ++unlisted; printf "skipped, NOT LISTED for %s  %s: %s%s\n", environment, name, reason[i], part; continue
    }
    group = name; sub(/\..*/, "", group); group = group ": " reason[i] part  # one line for each program and reason
    if (!(group in times)) order[++groups] = group
    ++times[group]
  }
}
function finish() {
  ++tests
  if (status == "run") {
    ++passed
    if (reasons) skip(" (cases of a test that passed)")
  } else if (status == "fail") {
    fail(why == "" ? "failed" : why)
  } else if (status == "disabled" || skip_message ~ /^SKIP_/) {
    ++skipped
    skip("")
  } else {
    fail("did not run: " skip_message)  # missing program, failed fixture: CTest calls these skipped too
  }
  if (seconds > 60) printf "slow     %s: %.0f s\n", name, seconds
}
# Below it, what the test printed: from its first failed expectation on, or else its last lines.
function fail(what,    i) {
  ++failed; printf "FAILED   %s: %s\n", name, what
  for (i = why == "" ? said - 7 : 1; i <= said && (why == "" || i <= 12); ++i) if (i > 0) printf "         | %s\n", saying[i]
}

BEGIN {
  while ((getline line < list) > 0) {
    sub(/^#.*/, "", line)
    if (line !~ /[^ ]/) continue
    if (split(line, part, / \| /) != 2) { printf "%s: not 'NAME | REASON': %s\n", list, line; ++failed; continue }
    ++entries; entry_name[entries] = part[1]; entry_reason[entries] = part[2]
  }
  for (i = 1; i < ARGC; ++i) {
    files[ARGV[i]] = 0
    if ((getline line < ARGV[i]) < 0) { printf "FAILED   no results in %s: CTest did not get that far\n", ARGV[i]; ++failed; ARGV[i] = "" }
    else close(ARGV[i])
  }
}
/^\t<testcase / {
  name = attribute($0, "name"); status = attribute($0, "status"); seconds = attribute($0, "time") + 0
  why = ""; said = 0; reasons = 0; skip_message = ""; next_is_reason = 0; inside = 1; ++files[FILENAME]; next
}
/^\t<\/testcase>/ { if (inside) finish(); inside = 0; next }
!inside { next }
/^\t\t<skipped message=/ { skip_message = attribute($0, "message"); next }
{
  text = $0; sub(/^\t\t<system-out>/, "", text)
  if (next_is_reason) { reason[++reasons] = decoded(text); next_is_reason = 0 }
  else if (text ~ /: Skipped$/) next_is_reason = 1              # GoogleTest: the reason is the next line
  else if (text ~ /^skip: /) reason[++reasons] = decoded(substr(text, 7))  # scripts and run_cases.py
  else if (status == "fail" && why == "" && text ~ /: Failure$/) { why = decoded(text); said = 0 }
  else if (status == "fail") { sub(/<\/system-out>$/, "", text); if (text ~ /[^ \t]/) saying[++said] = decoded(text) }
}
END {
  for (i = 1; i <= groups; ++i) printf "skipped  %d × %s\n", times[order[i]], order[i]
  for (file in files) if (files[file] == 0) { printf "FAILED   %s holds no test\n", file; ++failed }
  if (unlisted) printf "%d skips are not accepted in '%s'; make the tests run there, or list them with their reason in %s\n", unlisted, environment, list
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit failed || unlisted || !tests
}
