"""scripts/gpu-validate without a GPU: it refuses, with what to do; its rehearsal goes through the whole flow."""
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-validate"


class GpuValidate(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "out"

    def validate(self, *args, build=support.BIN.parent):
        return subprocess.run([sys.executable, str(SCRIPT), "--out", str(self.out), "--build", str(build), *args],
                              capture_output=True, text=True, timeout=100, env=support.environment(), check=False)

    def test_a_rehearsal_leaves_a_table_and_an_archive(self):
        done = self.validate("--rehearse", "--only", "facts,tests,memory,steps")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertTrue(summary["rehearsed"])
        self.assertEqual({name: piece["state"] for name, piece in summary["pieces"].items()},
                         {"facts": "ran", "tests": "ran", "memory": "left out", "steps": "ran"})
        self.assertGreater(summary["tests"]["passed"], 0)
        for point in summary["points"]:
            self.assertGreater(point["samples_per_s"], 0, point)
        text = (self.out / "summary.md").read_text()
        self.assertIn("no figure means anything", text)
        self.assertIn("| gpt2-tiny bf16 mb8 |", text)
        with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
            names = archive.getnames()
        for name in ("summary.md", "summary.json", "steps.log", "steps/gpt2-tiny-bf16/report.json"):
            self.assertIn("gpu-validate/" + name, names)
        again = self.validate("--rehearse")
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)

    def test_a_piece_that_fails_costs_its_own_result_alone(self):
        build = self.out.parent / "build"
        (build / "bin").mkdir(parents=True)
        for name in ("trainwatt", "trainwatt-train"):
            (build / "bin" / name).symlink_to(support.BIN / name)
        done = self.validate("--rehearse", "--only", "ops,steps", build=build)
        self.assertEqual(done.returncode, 1, done.stderr)
        pieces = json.loads((self.out / "summary.json").read_text())["pieces"]
        self.assertEqual(pieces["ops"]["state"], "FAILED")
        self.assertIn("no trainwatt-ops", pieces["ops"]["text"])
        self.assertEqual(pieces["steps"]["state"], "ran")

    def test_no_time_is_told(self):
        done = self.validate("--rehearse", "--only", "facts,steps", "--budget", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no time was left", done.stdout)

    def test_without_a_gpu_it_says_so(self):
        if "GPU" in support.run("--device", "auto", "--model", "gpt2-tiny", "--dry-run").stderr:
            self.skipTest("there is a GPU")
        done = self.validate()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("the cuda device is not usable here", done.stderr)
        self.assertIn("--rehearse", done.stderr)

    def test_wrong_options(self):
        for args, word in ((["--only", "steps,tset"], "unknown piece 'tset'"), (["--budget", "-1"], "above 0")):
            done = self.validate(*args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
        done = self.validate("--rehearse", build=self.out.parent)
        self.assertEqual(done.returncode, 3)
        self.assertIn("no trainwatt in", done.stderr)


if __name__ == "__main__":
    unittest.main()
