#!/usr/bin/env python3
"""check_codes.py ROOT: every code of an error or warning in bench/, comm/, models/families/, scripts/repeat and scripts/slurm is in the
table of bench/README.md, and every code of that table is used; those of cmake/ and the other scripts are in the table of
scripts/packaging/README.md. Every error of a script has a code. Codes of `validate` are in a table of results/README.md."""
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
    rf"\bLayersFault\(\s*{code}",
    rf"\bunknown\(\s*{code}",  # of its reader
    rf'RunVarianceFault\{{{code}',
    rf"\bOptionError\(\s*{code}",
    rf"\}},\s*{code}\)",  # behind a function that reads a file
    rf"\bfail\([^;]*,\s*{code}\);",
    r"error\[([a-z-]+)\]: ",
]
flag = r"\{(?:results::)?Flag::([a-z_]+),"  # of a warning that is a flag of the report, too


def sources():
    for folder in ("bench", "comm", "models/families", "results/compare"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            yield path, path.read_text(encoding="utf-8")
    path = root / "results/analysis/context_warnings.cpp"
    if path.is_file():  # the check's own tests have a part of the tree
        yield path, path.read_text(encoding="utf-8")


# In scripts: die STATUS CODE TEXT and complain CODE TEXT (scripts/lib/common.sh), fail(STATUS, "CODE", TEXT) (scripts/lib/errors.py),
# or written out.
script_patterns = [r'\bdie (?:\d|"\$\w+") ([a-z0-9-]+) ', r"\bcomplain ([a-z0-9-]+) ", r'\bfail\(\d, "([a-z0-9-]+)", ',
                   r"(?:error|warning)\[([a-z0-9-]+)\]: "]
without_code = [r'\bdie (?:\d|"\$\w+") ["$\'].*', r'\bfail\(\d, f?"(?![a-z0-9-]+",).*', r"\b(?:SystemExit|sys\.exit)\(f?[\"'].*"]
problems, used_by_scripts, used_by_builds = [], {}, {}
for path in sorted([*root.glob("cmake/*.cmake"), *root.glob("models/compute/*/CMakeLists.txt"), root / "results/CMakeLists.txt", *(root / "scripts").rglob("*")]):
    if path.is_file() and path.suffix not in (".md", ".json", ".pyc"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        into = used_by_scripts if name == "scripts/repeat" or name.startswith("scripts/slurm/") else used_by_builds
        for pattern in script_patterns:
            for found in re.findall(pattern, text):
                into.setdefault(found, name)
        problems += [f"{name}: an error without a code: {found}" for pattern in without_code for found in re.findall(pattern, text)]

used, literals = dict(used_by_scripts), set()
for path, text in sources():
    name = path.relative_to(root).as_posix()
    literals.update(re.findall(code, text))
    if not name.startswith("results/") or "RunVarianceFault" in text or "OptionError" in text:
        for pattern in patterns:
            for found in re.finditer(pattern, text):
                used.setdefault(found.group(1), name)
    if path.name == "context_warnings.cpp":
        for found in re.finditer(flag, text):
            used.setdefault(found.group(1).replace("_", "-"), name)


def codes_of(page):
    table = (root / page).read_text(encoding="utf-8").split("## Codes of errors and warnings", 1)[-1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {found for row in rows for found in re.findall(r"`([a-z0-9-]+)`", row)}


listed = codes_of("bench/README.md")
problems += [f"{where}: the code {one} is not in the table of bench/README.md" for one, where in sorted(used.items())
            if one not in listed]
problems += [f"bench/README.md: no error or warning has the code {one}" for one in sorted(listed - set(used) - literals)]
if not listed:
    problems.append("bench/README.md: has no table of codes")

installation = "scripts/packaging/README.md"
if used_by_builds:
    there = codes_of(installation)
    problems += [f"{where}: the code {one} is not in the table of {installation}" for one, where in sorted(used_by_builds.items())
                 if one not in there]
    problems += [f"{installation}: no error or warning has the code {one}" for one in sorted(there - set(used_by_builds))]
# Faults and notes of `validate`.
code = r'"([a-z]+(?:_[a-z]+)*)"'
fault = re.compile(rf'(?:\bbroken|found\.note)\( ?(?:[a-z_]+, )?{code},|(?:(?:violations|warnings|faults|notes)\.push_back\(|\bFault|return {{|'
                   rf'violations =) ?{{+ ?{code}, ?(?:"|[a-z_]+[,.(]|[a-z]+ \+)')
found_by = {}
for path in sorted([*(root / "results").rglob("*.cpp"), *(root / "bench").rglob("*.cpp")]):
    text = " ".join(path.read_text(encoding="utf-8").split())  # a call may have its first argument on the next line
    if re.search(r"Findings&|Fault\b|violations", text):
        for found in fault.finditer(text):
            found_by.setdefault(found.group(1) or found.group(2), path.relative_to(root).as_posix())
if (root / "results").is_dir():
    if len(found_by) < 60:
        problems.append(f"check_codes.py: finds only these codes of validate, so its pattern is wrong: {sorted(found_by)}")
    rows = [line.split("|")[1] for line in (root / "results/README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    problems += [f"{where}: the code {one} is not in a table of results/README.md" for one, where in sorted(found_by.items())
                 if not any(f"`{one}`" in row for row in rows)]
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
