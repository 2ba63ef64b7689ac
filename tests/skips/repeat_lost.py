#!/usr/bin/env python3
"""repeat_lost.py BUILD JUNIT: runs once more each failed test of CTest's results in which mpirun reported a rank as lost though it had
ended, and puts the new result in the place of the old one. Open MPI 4.0 and 4.1 do that once in some thousand launches ("process rank 0
with PID 0 … exiting improperly", https://github.com/open-mpi/ompi/issues/7833). Prints the names of these tests."""
import pathlib
import re
import subprocess
import sys

build, results = sys.argv[1], pathlib.Path(sys.argv[2])
LOST = re.compile(r"has exited due to process rank \d+ with PID 0 on")
CASE = re.compile(r'<testcase name="([^"]*)".*?</testcase>', re.DOTALL)

text = results.read_text(errors="replace") if results.exists() else ""
lost = [case[1] for case in CASE.finditer(text) if "<failure" in case[0] and LOST.search(case[0])]
if lost:
    print(f"run again, since Open MPI reported a rank as lost that had ended (open-mpi/ompi#7833): {', '.join(lost)}", flush=True)
    again = results.with_name(results.stem + "-again.xml.part")
    subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--output-junit", again.absolute(),
                    "--tests-regex", "^(" + "|".join(re.escape(name) for name in lost) + ")$"], check=False)
    new = {case[1]: case[0] for case in CASE.finditer(again.read_text(errors="replace"))} if again.exists() else {}
    results.write_text(CASE.sub(lambda case: new.get(case[1], case[0]) if case[1] in lost else case[0], text))
    again.unlink(missing_ok=True)
