"""Runs the built programs as a user would, and reads what they leave behind."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("TRAINWATT_BIN", "build/bin")).resolve()


def environment(**extra):
    env = dict(os.environ, **{k: str(v) for k, v in extra.items()})
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def mpirun(ranks):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]


def run(*args, ranks=None, timeout=55, **env):
    """trainwatt-train ARGS, under mpirun where `ranks` is given. Returns the finished process with text output."""
    command = (mpirun(ranks) if ranks else []) + [str(BIN / "trainwatt-train"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(**env))


def tool(*args):
    return subprocess.run([str(BIN / "trainwatt"), *map(str, args)], capture_output=True, text=True, timeout=30)


class Case(unittest.TestCase):
    """A test with a folder of its own; `out` does not exist yet."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"

    def report(self, out=None):
        return json.loads(((out or self.out) / "report.json").read_text())

    def assert_ran(self, process, code=0):
        self.assertEqual(process.returncode, code, f"\nstdout:\n{process.stdout}\nstderr:\n{process.stderr}")

    def assert_one_line_error(self, process, code, *words):
        """One line of ours on stderr, with these words, and this exit code."""
        self.assert_ran(process, code)
        ours = [line for line in process.stderr.splitlines() if line.startswith("trainwatt-train: error:")]
        self.assertEqual(len(ours), 1, process.stderr)
        for word in words:
            self.assertIn(word, ours[0])
        self.assertFalse(self.out.exists(), "a refused run leaves nothing behind")
