#!/usr/bin/env python3
"""check_codes.py ROOT: every code of an error or warning in bench/, comm/ and scripts/repeat is in the table of bench/README.md, and every code
of that table is used."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
code = r'"([a-z0-9]+(?:-[a-z0-9]+)*)"'
patterns = [
    rf"\b(?:UsageError|EnvironmentError|with_code|warn)\(\s*{code}",  # the first argument
    rf"\b(?:Stop|return )[({{]\s*exit_[a-z]+,\s*{code},",  # behind the exit code
    rf"\bcode = {code}",
    rf"with_code\([a-z_]+ \? {code}",
    rf'RunVarianceFault\{{{code}',
    rf"\bOptionError\(\s*{code}",
    rf"\}},\s*{code}\)",  # behind a function that reads a file
    rf"\bfail\([^;]*,\s*{code}\);",
    r"error\[([a-z-]+)\]: ",
    r'\bfail (?:\d|"\$status") ([a-z-]+) ',  # of scripts/repeat
]
flag = r"\{(?:results::)?Flag::([a-z_]+),"  # of a warning that is a flag of the report, too


def sources():
    for folder in ("bench", "comm", "results/compare"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            yield path, path.read_text(encoding="utf-8")
    for path in root.glob("scripts/repeat"):
        yield path, path.read_text(encoding="utf-8")


used, literals = {}, set()
for path, text in sources():
    name = path.relative_to(root).as_posix()
    literals.update(re.findall(code, text))
    if not name.startswith("results/") or "RunVarianceFault" in text or "OptionError" in text:
        for pattern in patterns:
            for found in re.finditer(pattern, text):
                used.setdefault(found.group(1), name)
    if path.name == "preflight.cpp":
        for found in re.finditer(flag, text):
            used.setdefault(found.group(1).replace("_", "-"), name)
table = (root / "bench/README.md").read_text(encoding="utf-8").split("## Codes of errors and warnings", 1)[-1].split("\n## ", 1)[0]
listed = set()
for line in table.splitlines():
    if line.startswith("| `"):
        listed.update(re.findall(r"`([a-z0-9-]+)`", line.split("|")[1]))

problems = [f"{where}: the code {one} is not in the table of bench/README.md" for one, where in sorted(used.items())
            if one not in listed]
problems += [f"bench/README.md: no error or warning has the code {one}" for one in sorted(listed - set(used) - literals)]
if not listed:
    problems.append("bench/README.md: has no table of codes")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
