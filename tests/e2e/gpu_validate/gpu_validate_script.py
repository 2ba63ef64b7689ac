"""scripts/gpu-validate as a program and as a module, for its tests."""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "gpu-validate"


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_validate", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_validate", loader))
    loader.exec_module(module)
    return module


class Script(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "out"

    def validate(self, *args, build=support.BIN.parent, script=SCRIPT, **env):
        return subprocess.run([sys.executable, str(script), "--out", str(self.out), "--build", str(build), *args],
                              capture_output=True, text=True, timeout=support.HANG, env=support.environment(**env), check=False)

    def options(self, build, **more):
        return argparse.Namespace(**{"out": str(self.out), "build": str(build), "rehearse": False, "budget": 60, "models": "", "only": "", "llmc": "", **more})
