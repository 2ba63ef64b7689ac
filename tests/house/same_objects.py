"""same_objects.py WHOLE BUILD ABSENT: which objects of BUILD the build of the whole has made already.

They are those of the same command but for -I ABSENT, that read the same files, none with the name of a file in ABSENT,
and are newer than all of them. For each a dependency file is left as BUILD/same/OBJECT.d, for take_object.sh.
"""
import filecmp
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

whole, build, absent = (pathlib.Path(path).resolve() for path in sys.argv[1:])
forbidden = set(os.listdir(absent))


def commands(folder):
    """The command of each object, with the build folder named as BUILD's: not in what is defined, which the object holds."""
    found = {}
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        words = [word if word.startswith("-D") else word.replace(str(folder), str(build))
                 for word in shlex.split(entry["command"]) if word != f"-I{absent}"]
        found[words[words.index("-o") + 1]] = words
    return found


def files_read():
    """Of each object of WHOLE whose log of that is valid, as Ninja keeps it."""
    found, files = {}, []
    log = subprocess.run(["ninja", "-C", whole, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for line in log.splitlines():
        if heading := re.fullmatch(r"(\S+): #deps \d+, deps mtime \d+ \((\w+)\)", line):
            files = []
            if heading[2] == "VALID":
                found[heading[1]] = files
        elif line.startswith("    "):
            files.append(line[4:])
    return found


def ours(file):
    """FILE as BUILD would read it; None where that is not the same."""
    path = pathlib.Path(os.path.normpath(whole / file))
    if path.name in forbidden:
        return None
    if not path.is_relative_to(whole):
        return path
    here = build / path.relative_to(whole)
    return here if here.is_file() and filecmp.cmp(path, here, shallow=False) else None


wanted, made, read = commands(build), commands(whole), files_read()
taken = 0
for name, command in wanted.items():
    files = [ours(file) for file in read.get(name, [])]
    if made.get(name) != command or not files or None in files:
        continue
    if max(os.stat(whole / file).st_mtime_ns for file in read[name]) > (whole / name).stat().st_mtime_ns:
        continue
    note = build / "same" / f"{name}.d"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{name}: {' '.join(map(str, files))}\n")
    taken += 1
print(f"{taken} of {len(wanted)} objects are those of {whole}")
