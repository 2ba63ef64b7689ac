"""A search over clocks, over the stand-in driver: whose power falls with its clock while the CPU trains as fast as before, so
that the lowest clock is the best."""
import json
import unittest

from support import Case, FakeGpus, only_root, run, tool

SEARCH = ["--model", "resnet-tiny", "--threads", 1, "--window", 0.3, "--trials", 3, "--gpu-clock", "600:1980:345", "--search", "energy",
          "--max-slowdown", "90%"]


class Search(Case):
    def setUp(self):
        only_root()
        super().setUp()
        (self.folder / "nvml").mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.gpus = FakeGpus(self.folder / "nvml", 1)
        self.env = {**self.gpus.environment, "TRAINWATT_RUN_DIR": self.folder / "run" / "trainwatt"}

    def test_the_best_setting_is_claimed_with_evidence_and_a_run_cut_short_goes_on(self):
        process = run(*SEARCH, "--out", self.out, timeout=100, **self.env)
        self.assert_ran(process)
        self.assertIn("were not looked at", process.stdout)
        self.assertEqual(self.gpus.all("lock_mhz"), [0])
        report = self.report()
        (outcome,) = report["search"]
        self.assertTrue(outcome["best"].endswith("/gpu_clock=600/again"), outcome)
        self.assertEqual((outcome["merit"], outcome["scope"], outcome["points"]), ("energy", "device", 5))
        self.assertLess(outcome["merit_ratio"]["value"], 0.9)
        self.assertEqual(len(report["records"]), outcome["measured"] + 3)
        self.assert_ran(tool("validate", self.out / "report.json"))
        shown = tool("show", self.out / "report.json").stdout
        self.assertIn("Pareto front", shown)
        self.assertIn("gpu_clock=600: device energy a sample -", shown)

        forged = json.loads((self.out / "report.json").read_text())
        forged["search"][0]["merit_ratio"]["value"] = 0.1
        (self.folder / "forged.json").write_text(json.dumps(forged))
        self.assertEqual(tool("validate", self.folder / "forged.json").returncode, 1)

        # As after a kill: some points are on disk, and no report.
        lines = (self.out / "records.jsonl").read_text().splitlines(keepends=True)
        (self.out / "records.jsonl").write_text("".join(lines[:-2]))
        (self.out / "report.json").unlink()
        self.assert_ran(run("--resume", self.out, timeout=100, **self.env))
        resumed = self.report()
        self.assertEqual(resumed["records"][:-2], report["records"][:-2], "none is measured twice")
        self.assertEqual(len(resumed["records"]), len(report["records"]))
        self.assertEqual(resumed["search"][0]["best"], outcome["best"])
        self.assert_ran(tool("validate", self.out / "report.json"))

    def test_without_a_meter_nothing_is_measured(self):
        process = run(*SEARCH, "--out", self.out)
        self.assertEqual(process.returncode, 3)
        self.assertIn("--search needs joules, and no meter answers", process.stderr)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
