"""scripts/gpu-validate --pack over stand-ins for the programs: what it leaves, whatever happens, and how it is compressed."""
import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
import unittest
import unittest.mock

import support
from gpu_validate_script import SCRIPT, Script, load


class Pack(Script):
    def programs(self, build, tests=None):
        """Stand-ins for all that is packed."""
        plan = load().plan
        names = [f"bin/{name}" for name in ("trainwatt", "trainwatt-train", "trainwatt-ops")]
        for name in names + [f"tests/{name}" for name in (plan.ASKS | plan.GPU_TESTS if tests is None else tests)]:
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            (build / name).write_text("#!/bin/bash\necho '[       OK ] A.one'\n")
            (build / name).chmod(0o755)

    def command(self, build, packed):
        return [sys.executable, str(SCRIPT), "--pack", str(packed), "--build", str(build)]

    def test_a_pack_that_is_too_large_is_not_left(self):
        module = load()
        build, packed = self.out.parent / "build", self.out.parent / "pack.tar.xz"
        self.programs(build)
        with unittest.mock.patch.object(module.plan, "PACK_LIMIT_MIB", 0.0001), self.assertRaises(SystemExit) as ended, \
                contextlib.redirect_stderr(io.StringIO()) as said:
            module.pack(str(build), str(packed))
        self.assertEqual(ended.exception.code, 1)
        self.assertIn("must have less than 0.0001 MiB: build Release for one architecture, with -DCMAKE_CUDA_ARCHITECTURES=90", said.getvalue())
        self.assertEqual(os.listdir(build.parent), ["build"])
        with unittest.mock.patch.object(module.plan, "PACK_LIMIT_MIB", 0.0001), self.assertRaises(SystemExit), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            module.pack(str(build), str(packed.with_suffix(".gz")))
        self.assertIn("must have less than 0.0001 MiB: end the name with .tar.xz, which compresses more, and build", said.getvalue())

    def test_a_pack_runs_elsewhere(self):
        build = self.out.parent / "build"
        self.programs(build, tests=())
        packed = self.out.parent / "packed.tar.xz"

        def pack():
            return subprocess.run(self.command(build, packed), capture_output=True, text=True, timeout=support.HANG, check=False)

        self.assertIn("no tests/", pack().stderr)
        self.assertFalse(packed.exists())
        self.programs(build)
        done = pack()
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(packed) as archive:
            archive.extractall(self.out.parent)
        there = self.out.parent / "gpu-validate"
        self.assertTrue((there / "scripts" / "oracle" / "torch_check.py").exists())
        (there / "build" / "bin" / "trainwatt").unlink()  # is not needed
        done = subprocess.run([sys.executable, str(there / "scripts" / "gpu-validate"), "--out", str(self.out), "--rehearse", "--only",
                               "facts,tests"], capture_output=True, text=True, timeout=support.HANG, env=support.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 passed", done.stdout)

    def test_the_name_says_how_it_is_compressed(self):
        build = self.out.parent / "build"
        self.programs(build)
        for name, mode in (("a.tar.gz", "r:gz"), ("a.tgz", "r:gz"), ("a.tar.xz", "r:xz"), ("a.txz", "r:xz")):
            packed = self.out.parent / name
            done = subprocess.run(self.command(build, packed), capture_output=True, text=True, timeout=support.HANG, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with tarfile.open(packed, mode) as archive:
                self.assertIn("gpu-validate/scripts/gpu-validate", archive.getnames(), name)
        for name in ("a.zip", "a.tar", "a.tar.bz2", "xz"):
            done = subprocess.run(self.command(build, self.out.parent / name), capture_output=True, text=True, timeout=support.HANG, check=False)
            self.assertEqual(done.returncode, 2, name)
            self.assertRegex(done.stderr, rf"^gpu-validate: error\[bad-value\]: --pack takes a name that ends .*: \.tar\.xz, .*; not '.*{name}'")
            self.assertFalse((self.out.parent / name).exists())
        done = subprocess.run(self.command(build, self.out.parent / "none" / "a.tgz"), capture_output=True, text=True, timeout=support.HANG, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"^gpu-validate: error\[output-not-writable\]: cannot write .*: No such file or directory;")

    def test_a_pack_that_is_ended_leaves_nothing_under_its_name(self):
        build, packed = self.out.parent / "build", self.out.parent / "pack.tar.xz"
        self.programs(build)
        slow = build / "tests" / list(load().plan.GPU_TESTS)[-1]
        slow.unlink()
        os.mkfifo(slow)  # whoever reads it waits
        partial = packed.with_name(packed.name + ".part")
        for number, left in ((signal.SIGTERM, ["build"]), (signal.SIGKILL, ["build", partial.name])):
            process = subprocess.Popen(self.command(build, packed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + support.HANG
            while os.listdir(build.parent) == ["build"] and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            self.assertNotEqual(process.wait(support.HANG), 0)
            self.assertEqual(sorted(os.listdir(build.parent)), left, number.name)


if __name__ == "__main__":
    unittest.main()
