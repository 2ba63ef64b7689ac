#!/usr/bin/env python3
"""check_names.py ROOT: logic compares enumerations, not their names.

The names are those of every `name_list<…>` of results/ and of results/record/flags.def. No source of results/ or bench/
compares with one of them as a literal, or asks for its beginning or, of a figure, its end: a name is read by named<…>() and
written by to_string().
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
LITERAL = re.compile(r'"([^"\n]*)"')
OTHER_WORDS = {"reason", "device", "kind"}  # in bench/: of power/ and models/, which do not know the names of results/


def sources(room, *endings):
    return sorted(path for path in (root / room).rglob("*") if path.suffix in endings)


figures = set()
devices = set()  # bench/ has these from models/, too
names = set(re.findall(r'TRAINWATT_FLAG\(\w+, "(\w+)"', (root / "results/record/flags.def").read_text(encoding="utf-8")))
for header in sources("results", ".hpp"):
    for kind, listed in re.findall(r"name_list<(\w+)>\s*=\s*\{(.*?)\}", header.read_text(encoding="utf-8"), re.S):
        (devices if kind == "DeviceKind" else names).update(filter(None, LITERAL.findall(listed)))
        if kind == "FigureKind":
            figures.update(LITERAL.findall(listed))
if len(names) < 50:
    sys.exit(f"check_names.py: finds only {len(names)} names, and cannot tell: {sorted(names)}")
COMPARED = re.compile(r'(\w*)\)? *[=!]= *"([^"\n]*)"|"([^"\n]*)" *[=!]=|(?:starts|ends)_with\("([^"\n]*)"')
problems = []
for path in sources("results", ".cpp", ".hpp") + sources("bench", ".cpp", ".hpp"):
    text = COMMENT.sub("", path.read_text(encoding="utf-8"))
    for found in COMPARED.finditer(text):
        beside, right, left, part = found.groups()
        literal = right or left
        in_bench = path.relative_to(root).parts[0] == "bench"
        is_name = literal in (names if in_bench else names | devices) and not (in_bench and beside in OTHER_WORDS)
        is_part = part and (part in names or any(name.startswith(part) or name.endswith(part) for name in figures))
        if is_name or is_part:
            problems.append(f"{path.relative_to(root)}: compares with the name \"{literal or part}\"")
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
