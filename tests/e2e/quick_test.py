"""The suite `quick`, with short windows, on a node whose counters run at known powers."""
import statistics
import subprocess
import unittest

from fake_node import FakeNode
from support import BIN, HANG, Case, environment, mpirun, tool

WATTS = {"package-0": 100, "dram": 20, "core": 60}


class Quick(Case):
    def test_each_point_has_flops_per_watt_with_an_uncertainty_and_a_ledger(self):
        with FakeNode(self.folder / "powercap", WATTS) as node:
            node.or_skip()
            command = [*node.command(), *mpirun(2), str(BIN / "trainwatt-train"), "--suite", "quick", "--window", "0.3",
                       "--out", str(self.out)]
            process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        report = self.report()
        records = report["records"]
        self.assertEqual(len(records), 8)
        # The table is in the order of the networks, precisions and accumulation, whatever that of the run was.
        in_table = sorted((record["id"] for record in records), key=lambda id: process.stdout.rfind(f"\n  {id} "))
        places = [(network, ("float32", "bf16").index(precision), accumulate)
                  for network, precision, *_, accumulate, _ in (one.split("/") for one in in_table)]
        self.assertEqual(places, sorted(places), process.stdout)
        valid = [record for record in records if record["verdict"]["status"] != "unsupported"]
        self.assertGreaterEqual(len(valid), 4, "float32 runs everywhere")
        ratios = []
        for record in valid:
            self.assertEqual(record["verdict"]["status"], "valid", record["verdict"])
            self.assertNotIn("no_energy_meter", record["verdict"]["flags"])
            summary = record["summary"]
            for scope in ("package", "dram"):
                efficiency = summary["flops_per_w"][scope]
                self.assertGreater(efficiency["value"], 0)
                self.assertLess(efficiency["low"], efficiency["value"])
                self.assertLess(efficiency["value"], efficiency["high"])
            # By how much the scopes differ is known; both come from the same windows.
            for trial in record["trials"]:
                self.assertGreater(trial["clock_skew_s"], 0)
                ledger = {row["domain"]: row for row in trial["energy"]}
                package, dram, core = (ledger[f"rapl:package-0{part}"] for part in ("", "/dram", "/core"))
                self.assertEqual([row["counted"] for row in (package, dram, core)], [True, True, False])
                self.assertEqual([package["scope"], dram["scope"], core["reason"]], ["package", "dram", "contained"])
                self.assertGreater(package["uncertainty_j"], 0)
                ratios.append(package["energy_j"] / (WATTS["package-0"] * package["window_s"]))
        # A ticker that is late makes one window wrong, on a busy machine; not half of them.
        self.assertAlmostEqual(statistics.median(ratios), 1, delta=0.1)
        meters = [meter["domain"] for meter in report["context"]["meters"] if meter["counted"]]
        self.assertIn("rapl:package-0", meters)
        self.assertEqual({row["when"] for row in report["context"]["idle_power"]}, {"before", "after"})


if __name__ == "__main__":
    unittest.main()
