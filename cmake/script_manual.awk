# awk -v name=NAME -v version=VERSION -f script_manual.awk SCRIPT: a manual page of section 1 from the comment at the head of a script,
# which its --help prints: what it does, indented lines of how it is called, paragraphs, and "Exit codes:".
function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  gsub(/scripts\/[a-z]+/, roff_name, text)
  return text ~ /^[.']/ ? "\\&" text : text
}
BEGIN {
  roff_name = name
  gsub(/-/, "\\\\-", roff_name)
}
NR == 1 { next }
!/^#/ { exit }
{
  sub(/^# ?/, "")
  if (NR == 2) {
    first = $0
    sub(/\. .*/, "", first)
    sub(/^[A-Z]/, tolower(substr(first, 1, 1)), first)
    printf ".TH %s 1 \"\" \"trainwatt %s\" \"User Commands\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", roff_name, version, roff_name, roff(first)
  }
  if (sub(/^Exit codes: /, "")) print ".SH EXIT STATUS"
  is_code = /^  /
  if (is_code && !was_code) print ".PP\n.nf"
  if (!is_code && was_code) print ".fi"
  if ($0 == "") print ".PP"
  else print roff($0)
  was_code = is_code
}
END { if (was_code) print ".fi" }
