"""What a run leaves behind."""
import json
import os
import subprocess
import unittest

from support import BIN, HANG, Case, environment, run, tool


class Report(Case):
    def test_valid_complete_and_shown(self):
        process = run("--model", "gpt2-tiny,resnet-tiny", "--accumulate", "1,2", "--steps", 30, "--warmup", 2, "--out", self.out, ranks=2)
        self.assert_ran(process)
        self.assertIn(str(self.out / "report.json"), process.stdout)
        report = self.report()
        self.assertEqual(len(report["records"]), 4)
        for record in report["records"]:
            self.assertEqual(record["verdict"]["status"], "valid", record["verdict"])
            self.assertEqual(len(record["trials"][0]["step_time_s"]), 30)
            summary = record["summary"]
            self.assertGreater(summary["samples_per_s"]["value"], 0)
            self.assertGreater(summary["of_ceiling"], 0.0)
            self.assertLess(summary["of_ceiling"], 1.0, "no step is faster than its own products alone")
            for phase in ("data", "forward", "backward", "communication", "optimizer"):
                self.assertIn(phase, record["trials"][0]["phase_s"])
            self.assertGreater(summary["peak_resident_bytes_per_rank"], 1 << 20)
        self.assertGreaterEqual(len(report["context"]["devices"]), 2)
        self.assertGreaterEqual(len(report["context"]["meters"]), 1, "a missing meter is an entry with its reason")
        self.assert_ran(tool("validate", self.out / "report.json"))
        shown = tool("show", self.out / "report.json")
        self.assert_ran(shown)
        self.assertIn("gpt2-tiny", shown.stdout)

    def test_a_busy_machine_is_said_before_the_first_point(self):
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() // 8 + 1)]
        try:
            process = run("--model", "gpt2-tiny", "--steps", 1, "--out", self.out, ranks=2)
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.assert_ran(process)
        said = [line for line in self.report()["context"]["warnings"] if ": other programs use " in line]
        self.assertEqual(len(said), 1, self.report()["context"]["warnings"])
        self.assertRegex(said[0], r": other programs use [1-9]\d* % of the CPU")
        self.assertLess(process.stderr.index("warning[busy-node]: " + said[0]), process.stderr.index("[1/1]"))

    def test_records_are_on_disk_point_by_point(self):
        self.assert_ran(run("--model", "gpt2-tiny", "--accumulate", "1,2", "--steps", 3, "--out", self.out))
        lines = [json.loads(line) for line in (self.out / "records.jsonl").read_text().splitlines()]
        self.assertEqual([line["id"] for line in lines], [record["id"] for record in self.report()["records"]])

    def test_a_tampered_report_is_found(self):
        self.assert_ran(run("--model", "gpt2-tiny", "--steps", 3, "--out", self.out))
        report = self.report()
        report["records"][0]["summary"]["samples_per_s"]["value"] *= 2
        (self.out / "report.json").write_text(json.dumps(report))
        process = tool("validate", self.out / "report.json")
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("samples_per_s", process.stdout + process.stderr)

    def test_losses_fall(self):
        for model in ("gpt2-tiny", "resnet-tiny"):
            out = self.folder / model
            self.assert_ran(run("--model", model, "--steps", 40, "--warmup", 0, "--out", out))
            self.assertLess(self.report(out)["records"][0]["summary"]["loss_slope_per_step"], 0)

    def test_a_cpu_without_bf16(self):
        """Its points are `unsupported` and fail neither the plan nor the exit code."""
        process = run("--model", "gpt2-tiny", "--precision", "float32,bf16", "--steps", 3, "--out", self.out, ONEDNN_MAX_CPU_ISA="AVX2")
        self.assert_ran(process)
        by_precision = {record["workload"]["precision"]: record for record in self.report()["records"]}
        self.assertEqual(by_precision["float32"]["verdict"]["status"], "valid")
        self.assertEqual(by_precision["bf16"]["verdict"]["status"], "unsupported")
        self.assertTrue(by_precision["bf16"]["verdict"]["reasons"][0])
        self.assert_ran(tool("validate", self.out / "report.json"))


if __name__ == "__main__":
    unittest.main()
