"""Networks with tables: cut by --table-rows-at-most, shared out over ranks, and refused where they do not fit."""
import json
import subprocess
import unittest

from fake_node import Under
from support import BIN, HANG, Case, environment, run, tool

# 26 tables of at most 100 rows, 1.4 MB.
CUT = ["--model", "dlrm", "--table-rows-at-most", "100", "--micro-batch", "8"]


class Tables(Case):
    def test_a_cut_network_on_two_ranks_is_recorded_and_validated(self):
        process = run(*CUT, "--steps", "2", "--warmup", "1", "--trials", "1", "--threads", "1", "--out", self.out, ranks=2)
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        report = self.report()
        [record] = report["records"]
        workload = record["workload"]
        self.assertEqual(workload["table_rows_at_most"], 100)
        self.assertEqual(workload["parameters"], 2368897 + 128 * sum(min(rows, 100) for rows in self.rows()))
        self.assertIn("dlrm-r100/", record["id"])
        self.assertIn("tables of at most 100 rows", " ".join(tool("show", self.out / "report.json").stdout.split()))
        workload["table_rows_at_most"] = 99  # another network than the plan's
        forged = self.folder / "forged.json"
        forged.write_text(json.dumps(report))
        self.assertNotEqual(tool("validate", forged).returncode, 0)

    def rows(self):
        [dlrm] = [model for model in json.loads(tool("models", "--json").stdout)["models"] if model["name"] == "dlrm"]
        self.assertEqual(len(dlrm["sizes"]["table_rows"]), 26)
        return dlrm["sizes"]["table_rows"]

    def test_tables_that_do_not_fit_end_with_2_and_say_what_helps(self):
        meminfo = self.folder / "meminfo"
        node = Under(files={"/proc/meminfo": meminfo})
        meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n")
        node.or_skip()
        # Beside a point that the device cannot run, in any order.
        for options in ((), ("--precision", "fp8,float32"), ("--precision", "float32,fp8")):
            with self.subTest(options=options):
                process = subprocess.run([*node.command(), str(BIN / "trainwatt-train"), "--device", "cpu", "--model", "dlrm", *options,
                                          "--steps", "1", "--out", str(self.out)],
                                         capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS=2))
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertIn("error[out-of-memory]", process.stderr)
                for words in ("GiB on", "8.0 of 8.0 GiB are available", "--table-rows-at-most", "187767399 rows"):
                    self.assertIn(words, process.stderr)

    def test_impossible_rows_end_with_2(self):
        for options, words in ((["--model", "dlrm", "--table-rows-at-most", "1"], "minimum 2"),
                               (["--model", "gpt2-tiny", "--table-rows-at-most", "100"], "no tables")):
            process = run(*options, "--steps", "1", "--out", self.out)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertIn("--table-rows-at-most", process.stderr)
            self.assertIn(words, process.stderr)
        process = run(*CUT, "--export-step", self.folder / "step", ranks=2)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("run it with one", process.stderr)


if __name__ == "__main__":
    unittest.main()
