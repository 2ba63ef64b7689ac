#!/usr/bin/env python3
"""check_types.py ROOT: no qualified name of a type is defined in two headers.

Two layouts of one name in one program break the one-definition rule (C++20, [basic.def.odr]), and no linker says so.
"""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
NAMESPACE = re.compile(r'\bnamespace\s+([\w:]+)\s*$')
TYPE = re.compile(r'\b(?:struct|class|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::(?!:)[^{}]*)?$')

defined = collections.defaultdict(set)
for room in ("bench", "models", "comm", "power", "results"):
    for header in sorted((root / room).rglob("*.hpp")):
        text = NOT_CODE.sub("", header.read_text(encoding="utf-8"))
        scopes, last = [], 0  # (whether it is a namespace, its name)
        for mark in re.finditer(r"[{};]", text):
            before, last = text[last : mark.start()], mark.end()
            if mark.group() == "}":
                scopes[-1:] = []
            elif mark.group() == "{":
                namespace, type_name = NAMESPACE.search(before), TYPE.search(before)
                if namespace:
                    scopes.append((True, namespace.group(1)))
                    continue
                if type_name and "template" not in before and all(is_namespace for is_namespace, _ in scopes):
                    name = "::".join([scope for _, scope in scopes] + [type_name.group(1)])
                    defined[name].add(str(header.relative_to(root)))
                scopes.append((False, ""))
if not defined:
    sys.exit(f"no types found under {root}: the pattern is wrong")
problems = [f"{name} is defined in {' and '.join(sorted(headers))}" for name, headers in sorted(defined.items()) if len(headers) > 1]
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
