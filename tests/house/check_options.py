#!/usr/bin/env python3
"""check_options.py ROOT: each field that an option of a run or of a launch sets is read outside the sources that parse, print and
hash options. An option without an effect is otherwise accepted, hashed and ignored. Fields are found by name alone."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
options = root / "bench/plan/options"
PLUMBING = {*options.glob("*"), root / "bench/plan/canonical.cpp", *(root / "bench/train/job").glob("options.*")}
STRUCTS = {"bench/plan/options/request.hpp": ["Measurement", "TargetRequest", "SearchRequest", "RunSettings"],
           "bench/train/job/options.hpp": ["Options"]}
# What acts where options are read: from it follows another field.
RESOLVED = {"layers_path"}  # RunSettings::layers has what the file holds

read = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "bench").rglob("*.[ch]pp")) if path not in PLUMBING)
problems = []
for header, names in STRUCTS.items():
    text = re.sub(r"//[^\n]*", "", (root / header).read_text(encoding="utf-8"))
    for name in names:
        body = re.search(rf"struct {name}\b[^;{{]*\{{(.*?)\n\}};", text, re.S)
        declarations = re.sub(r"<[^;]*>", "", body[1]).split(";") if body else []
        fields = [match[1] for one in declarations for part in one.split(",") if (match := re.search(r"(\w+)\s*(?:=[^=]*)?$", part))]
        if not fields:
            problems.append(f"{header}: no fields of {name} found")
        problems += [f"{header}: {name}::{field} is set by an option, and nothing else reads it" for field in fields
                     if field not in RESOLVED and not re.search(rf"(?:\.|->|::){field}\b", read)]
print("\n".join(problems), end="\n" if problems else "")
sys.exit(1 if problems else 0)
