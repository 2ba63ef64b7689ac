#!/usr/bin/env python3
"""check_definitions.py ROOT: what a header declares is defined in the header's own folder.

Functions, members of classes and constants at namespace scope, by qualified name. Overloads are one name. Not looked at:
anonymous namespaces, static functions, and what a list (.def) declares, since it is defined where each entry is.
"""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
# A header, and the folder that implements it behind a library. In that folder the header would make a circle of folders.
SEAMS = {
    ("comm/job.hpp", "comm/mpi"),  # comm/ asks for a job, comm/mpi/ includes comm/
    ("models/compute/cuda/context.hpp", "models/compute/cuda/dnn"),  # the device asks for plans, which take its context
}
LITERAL = r'R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\''
NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|" + LITERAL, re.S | re.M)
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"\b(?:struct|class|union)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::(?!:)[^{}()]*)?$")
FUNCTION = re.compile(r"((?:\w+::)*(?:~?\w+|operator\s*[^\s\w(]+|operator\s*\(\)))\s*\(")
CONSTANT = re.compile(r"extern\s+[\w:<>*&\s]+?\b(\w+)$")
VALUE = re.compile(r"(?!using|static)[\w:<>*&\s]+?\b(\w+)\s*=")


def statements(path):
    """Each statement of a named namespace or a class in one: its scope, its text, and the mark that ends it."""
    text = NOT_CODE.sub("", path.read_text(encoding="utf-8"))
    scopes, last = [], 0
    for mark in re.finditer(r"[{};]", text):
        before, last = text[last : mark.start()].strip(), mark.end()
        if mark.group() == "}":
            scopes[-1:] = []
            continue
        if None not in scopes:
            yield "::".join(scopes), before, mark.group()
        if mark.group() == "{":
            named = NAMESPACE.search(before) or TYPE.search(before)
            scopes.append(named.group(1) or None if named else None)  # None: anonymous, or the body of a function


def name_of(text):
    """The function that a statement declares or defines; None if it is something else."""
    text = re.sub(r"\[\[.*?\]\]|\b(?:alignas|decltype|noexcept|__\w+__)\s*\(.*?\)", "", text)
    found = FUNCTION.search(text)
    if not found or re.match(r"(?:using|typedef|friend|static|static_assert|return)\b", text) or "=" in text[: found.start()]:
        return None
    return re.sub(r"\s", "", found.group(1))


declared, defined = collections.defaultdict(set), set()
for room in ("bench", "models", "comm", "power", "results"):
    for path in sorted((root / room).rglob("*")):
        is_header = path.suffix in (".hpp", ".cuh")
        if not is_header and not path.name.endswith((".cpp", ".cu", ".cpp.in")):
            continue
        for scope, text, mark in statements(path):
            constant = (CONSTANT if is_header else VALUE).match(text) if mark == ";" else None
            name = constant.group(1) if constant else name_of(text)
            if name and is_header and mark == ";":
                declared[scope + "::" + name].add(path.relative_to(root))
            elif name and not is_header and (mark == "{" or constant):
                defined.add((scope + "::" + name, path.relative_to(root)))
of_headers = [(name, source, declared[name]) for name, source in sorted(defined) if name in declared]
if not of_headers:
    sys.exit(f"no declared functions are defined under {root}: the pattern is wrong")
used, problems = set(), []
for name, source, headers in of_headers:
    if source.parent in {header.parent for header in headers}:
        continue
    seams = {(str(header), str(source.parent)) for header in headers} & SEAMS
    used |= seams
    if not seams:
        problems.append(f"{source}: defines {name}, which {min(headers)} declares")
problems += [f"{header} is implemented by its own folder: remove it from SEAMS" for header, folder in sorted(SEAMS - used)
             if (root / header).exists()]
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
