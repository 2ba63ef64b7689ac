"""`trainwatt meter` over counters that are set to another value, stop, or are updated once a second.

The windows last a few seconds, or TRAINWATT_TEST_METER_SECONDS where that is more; then what the meter printed is shown, too."""
import contextlib
import os
import subprocess
import time
import unittest

from fake_node import FakeNode
from support import BIN, HANG, Case, environment, eventually, tool

WATTS = 150
WINDOW = float(os.environ.get("TRAINWATT_TEST_METER_SECONDS", 0))


def wait(least, share):
    """`least` seconds, or this share of a longer window."""
    time.sleep(max(least, share * WINDOW))


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
            stdout, stderr = process.communicate(timeout=HANG)
        if WINDOW:
            print(stdout, stderr, sep="\n", flush=True)
        self.assertEqual(process.returncode, 0, stderr)
        self.assert_ran(tool("validate", self.out / "report.json"))

    def package(self):
        """The record, its row of the package, and whether that has joules whose interval excludes the truth."""
        [record] = self.report()["records"]
        [trial] = record["trials"]
        [row] = [row for row in trial["energy"] if row["domain"] == "rapl:package-0"]
        lies = row["energy_j"] is not None and abs(row["energy_j"] - WATTS * trial["window_s"]) > row["uncertainty_j"]
        if WINDOW:
            print(f"{trial['window_s']:.3f} s: {row['energy_j']} J ± {row['uncertainty_j']} J ({row['reason'] or 'no reason'}); "
                  f"drawn: {WATTS * trial['window_s']:.2f} J", flush=True)
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
            wait(1, 0.5)
            node.set_by_uj = -500_000_000  # more than it counts between two readings, however late they come
            self.assertTrue(eventually(lambda: node.set_by_uj == 0))
            wait(1, 0.5)
        self.assert_refused("reset")

    def test_a_counter_that_freezes_has_no_joules(self):
        with self.metered() as node:
            wait(1, 0.5)
            node.stopped.set()
            wait(4, 0.5)
        self.assert_refused("stalled")

    def test_a_counter_that_pauses_has_no_joules(self):
        with self.metered() as node:
            wait(1, 0.4)
            node.stopped.set()
            wait(4, 0.2)
            node.stopped.clear()
            wait(1, 0.4)
        self.assert_refused("stalled")

    def test_a_counter_that_is_updated_once_a_second_has_joules_that_hold_the_truth(self):
        with self.metered(period=1):
            wait(5, 1)
        record, row, lies = self.package()
        self.assertIsNotNone(row["energy_j"], row)
        self.assertFalse(lies, row)
        self.assertGreater(row["update_period_s"], 0.5)


if __name__ == "__main__":
    unittest.main()
