"""`trainwatt meter` over counters that are set to another value, stop, or are updated once a second."""
import contextlib
import subprocess
import time
import unittest

from fake_node import FakeNode
from support import BIN, HANG, Case, environment, eventually, tool

WATTS = 150


class Counters(Case):
    @contextlib.contextmanager
    def metered(self, period=0.005):
        """A command that runs until the block ends, on a node whose package draws a constant power."""
        with FakeNode(self.folder / "powercap", {"package-0": WATTS}, period=period) as node:
            node.or_skip()
            begun, ended = self.folder / "begun", self.folder / "ended"
            command = [*node.command(), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sh", "-c",
                       f"touch '{begun}'; while [ ! -e '{ended}' ]; do sleep 0.05; done"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment())
            self.addCleanup(self.end, process)
            self.assertTrue(eventually(begun.exists), "the command begins")
            yield node
            ended.touch()
            _, stderr = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 0, stderr)
        self.assert_ran(tool("validate", self.out / "report.json"))

    def package(self):
        """The record, its row of the package, and whether that has joules whose interval excludes the truth."""
        [record] = self.report()["records"]
        [trial] = record["trials"]
        [row] = [row for row in trial["energy"] if row["domain"] == "rapl:package-0"]
        lies = row["energy_j"] is not None and abs(row["energy_j"] - WATTS * trial["window_s"]) > row["uncertainty_j"]
        return record, row, lies

    def assert_refused(self, reason):
        record, row, _ = self.package()
        self.assertIsNone(row["energy_j"])
        self.assertEqual(row["reason"], reason)
        self.assertIsNone(record["summary"]["energy_j"]["package"])
        self.assertIn(reason, record["verdict"]["flags"])
        for other in ("wrapped", "implausible", "no_energy_meter"):
            self.assertNotIn(other, record["verdict"]["flags"])
        self.assertEqual(record["verdict"]["status"], "valid", "its speed")

    def test_a_counter_that_is_set_back_has_no_joules(self):
        with self.metered() as node:
            time.sleep(1)
            node.set_by_uj = -500_000_000  # more than it counts between two readings, however late they come
            self.assertTrue(eventually(lambda: node.set_by_uj == 0))
            time.sleep(1)
        self.assert_refused("reset")

    def test_a_counter_that_freezes_has_no_joules(self):
        with self.metered() as node:
            time.sleep(1)
            node.stopped.set()
            time.sleep(4)
        self.assert_refused("stalled")

    def test_a_counter_that_pauses_has_no_joules(self):
        with self.metered() as node:
            time.sleep(1)
            node.stopped.set()
            time.sleep(4)
            node.stopped.clear()
            time.sleep(1)
        self.assert_refused("stalled")

    def test_a_counter_that_is_updated_once_a_second_has_joules_that_hold_the_truth(self):
        with self.metered(period=1):
            time.sleep(5)
        record, row, lies = self.package()
        self.assertIsNotNone(row["energy_j"], row)
        self.assertFalse(lies, row)
        self.assertGreater(row["update_period_s"], 0.5)


if __name__ == "__main__":
    unittest.main()
