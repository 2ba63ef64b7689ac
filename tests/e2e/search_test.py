"""A search over power limits of the CPU, whose power follows its limit while it trains as fast as before, so that the
lowest limit is the best; and over clocks of a GPU that does not train."""
import json
import pathlib
import subprocess
import time
import unittest

from fake_node import FakeNode
from support import BIN, HANG, Case, FakeGpus, SiteTool, environment, only_root, run, said_codes, tool

SEARCH = ["--device", "cpu", "--model", "resnet-tiny", "--threads", 1, "--window", 0.3, "--trials", 3, "--search", "energy",
          "--max-slowdown", "99.9%"]
LIMITS = ["--cpu-power-limit", "50:90:10"]
CLOCKS = ["--gpu-clock", "600:1980:345"]


class Work:
    """Seconds that the processors worked for programs with this word in their command line, as the kernel counts them."""

    def __init__(self, word):
        self.word, self.tasks, self.looked, self.done = word.encode(), {}, 0.0, 0.0

    def look(self):
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.word in line.read_bytes():
                    for task in line.parent.glob("task/*/schedstat"):
                        self.tasks.setdefault(task, 0)
            except OSError:  # it has ended
                continue

    def seconds(self):
        if time.monotonic() - self.looked > 0.1:
            self.look()
            self.looked = time.monotonic()
        for task, before in list(self.tasks.items()):
            try:
                now = int(task.read_text().split()[0])
            except (OSError, ValueError, IndexError):
                del self.tasks[task]
                continue
            self.tasks[task], self.done = now, self.done + (now - before) / 1e9
        return self.done


class Search(Case):
    def setUp(self):
        only_root()
        super().setUp()
        for name in ("nvml", "run"):
            (self.folder / name).mkdir(mode=0o700)
        self.gpus = FakeGpus(self.folder / "nvml", 1)
        self.env = {**self.gpus.environment, "TRAINWATT_RUN_DIR": self.folder / "run" / "trainwatt"}
        self.site = SiteTool(self.folder / "site", "cpu_power_limit_w", 100, minimum=10, maximum=200)
        self.last, self.work, self.before = 100.0, Work(str(self.out)), (time.monotonic(), 0.0)

    def watts(self):
        """For the work that is done, by the sixth power of the limit: a step's joules are its limit's, however long others keep it
        from the processors. Beside that a constant 0.04 W, which no limit lowers: an idle node's, and the least of a node that waits
        for its processors. Of the last limit while it is written."""
        text = self.site.value.read_text().strip()
        self.last = float(text) if text else self.last
        (then, done), self.before = self.before, (time.monotonic(), self.work.seconds())
        share = (self.before[1] - done) / max(1e-6, self.before[0] - then)
        return 0.04 + 50 * (self.last / 100) ** 6 * share

    def search(self, node, *args):
        command = [*node.command(), str(BIN / "trainwatt-train"), *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(**self.env))

    def test_the_best_setting_is_claimed_with_evidence_and_a_run_cut_short_goes_on(self):
        node = FakeNode(self.folder / "tree", {"package-0": self.watts})
        node.or_skip()
        with node:
            self.search_and_go_on(node)

    def search_and_go_on(self, node):
        process = self.search(node, *SEARCH, *LIMITS, "--site", self.site.file, "--out", self.out)
        self.assert_ran(process)
        self.assertRegex(process.stdout, r"settings\s+were\s+measured,\s+\d+\s+were\s+not")
        self.assertIn("search: by package energy", process.stderr, "though a GPU answers, too")
        self.assertEqual(self.site.value.read_text(), "100\n")
        report = self.report()
        (outcome,) = report["search"]
        self.assertTrue(outcome["best"].endswith("/cpu_power_limit=50/again"), outcome)
        self.assertEqual((outcome["merit"], outcome["scope"], outcome["points"]), ("energy", "package", 5))
        self.assertLess(outcome["merit_ratio"]["value"], 0.9)
        self.assertEqual(len(report["records"]), outcome["measured"] + 3)
        self.assert_ran(tool("validate", self.out / "report.json"))
        shown = tool("show", self.out / "report.json").stdout
        self.assertIn("Pareto front", shown)
        self.assertIn("cpu_power_limit=50: package energy per sample -", shown)

        forged = json.loads((self.out / "report.json").read_text())
        forged["search"][0]["merit_ratio"]["value"] = 0.1
        (self.folder / "forged.json").write_text(json.dumps(forged))
        self.assertEqual(tool("validate", self.folder / "forged.json").returncode, 1)

        # As after a kill: some points are on disk, and no report.
        lines = (self.out / "records.jsonl").read_text().splitlines(keepends=True)
        (self.out / "records.jsonl").write_text("".join(lines[:-2]))
        (self.out / "report.json").unlink()
        self.assert_ran(self.search(node, "--resume", self.out))
        resumed = self.report()
        self.assertEqual(resumed["records"][:-2], report["records"][:-2], "none is measured twice")
        self.assertEqual(len(resumed["records"]), len(report["records"]))
        self.assertEqual(resumed["search"][0]["best"], outcome["best"])
        self.assert_ran(tool("validate", self.out / "report.json"))

    def test_without_a_meter_nothing_is_measured(self):
        process = run(*SEARCH, *CLOCKS, "--out", self.out)
        self.assertEqual(process.returncode, 3)
        self.assertEqual(said_codes(process.stderr), ["no-energy"])
        self.assertFalse(self.out.exists())

    def test_joules_of_a_gpu_that_does_not_train_are_not_searched(self):
        process = run(*SEARCH, *CLOCKS, "--out", self.out, **self.env)
        self.assertEqual(process.returncode, 3)
        self.assertEqual(said_codes(process.stderr), ["no-energy"])
        self.assertIn("gpu_clock_mhz", process.stderr)
        self.assertFalse((self.out / "records.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
