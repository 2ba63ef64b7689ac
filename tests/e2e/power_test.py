"""Metering under a launcher, and settings that a run without a GPU cannot make."""
import json
import subprocess
import unittest

from support import BIN, Case, environment, mpirun, run, tool


class Power(Case):
    def test_one_process_of_a_node_meters_until_all_have_ended(self):
        command = [*mpirun(3), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sh", "-c",
                   "sleep 0.$OMPI_COMM_WORLD_RANK; exit 0"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=50, env=environment())
        self.assert_ran(process)
        reports = list(self.out.rglob("report.json"))
        self.assertEqual(len(reports), 1, process.stderr)
        report = json.loads(reports[0].read_text())
        self.assertGreaterEqual(report["records"][0]["trials"][0]["window_s"], 0.2, "the slowest process's")
        self.assertEqual(tool("validate", reports[0]).returncode, 0)

    def test_a_command_that_fails_under_a_launcher_fails_it(self):
        command = [*mpirun(2), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sh", "-c",
                   "exit $((3 * OMPI_COMM_WORLD_RANK))"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=50, env=environment())
        self.assertEqual(process.returncode, 3, process.stderr)

    def test_a_knob_that_is_not_there_is_said_for_each_point(self):
        process = run("--model", "gpt2-tiny", "--steps", 2, "--gpu-clock", "found,1305", "--out", self.out, ranks=2)
        self.assert_ran(process)
        found, wanted = self.report()["records"]
        self.assertEqual(found["verdict"]["status"], "valid")
        self.assertEqual(wanted["verdict"]["status"], "unsupported")
        self.assertIn("not_applied", wanted["verdict"]["flags"])
        self.assertIn("gpu_clock_mhz 1305", wanted["verdict"]["reasons"][0])
        self.assertEqual(wanted["trials"], [])
        self.assertEqual(tool("validate", self.out / "report.json").returncode, 0)

    def test_an_export_sets_nothing_and_says_so(self):
        process = run("--model", "gpt2-tiny", "--gpu-clock", 1305, "--export-step", self.out)
        self.assert_one_line_error(process, 2, "--export-step", "--gpu-clock")

    def test_set_points_that_are_none(self):
        for value in ("fast", "0", "1:2", "5:1:1", "1:1000000:0.001", "-3"):
            with self.subTest(value=value):
                process = run("--model", "gpt2-tiny", "--steps", 2, f"--gpu-clock={value}", "--out", self.out)
                self.assert_one_line_error(process, 2, "--gpu-clock", value)


if __name__ == "__main__":
    unittest.main()
