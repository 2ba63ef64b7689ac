"""What a plan says before anything runs, how it refuses, and how wide its tables are."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from support import BIN, HANG, Case, environment, run, said_codes, tool

USAGE = 2


class Plan(Case):
    def config(self, text):
        path = self.folder / "plan.json"
        path.write_text(text)
        return path

    def planned(self, text, *args):
        return tool("plan", "--config", self.config(text), *args)

    def on_a_terminal(self, columns, *args):
        """The lines that `trainwatt ARGS` prints on a terminal so wide."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen([str(BIN / "trainwatt"), *map(str, args)], stdout=its, stderr=its,
                                   env=environment(NO_COLOR=1))
        os.close(its)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        os.close(ours)
        self.assertEqual(process.wait(timeout=HANG), 0, text)
        return text.decode().replace("\r\n", "\n").splitlines()

    def test_more_points_than_anybody_runs_are_refused_before_they_are_made(self):
        process = self.planned('{"model": "gpt2-tiny", "gpu_clock": "1000:1999:1", "cpu_frequency": "1000:1999:1",'
                               ' "gpu_power_limit": "1:1000:1", "cpu_power_limit": "1:1000:1"}')
        self.assertEqual(process.returncode, USAGE, process.stderr[-500:])
        self.assertEqual(said_codes(process.stderr), ["too-many-points"])
        self.assertIn("plan.json: ", process.stderr)
        self.assertIn("10^12", process.stderr)

    def test_equal_refusals_are_one_line(self):
        process = self.planned('{"model": "gpt2-tiny", "gpu_memory_clock": "1000:1999:1"}')
        self.assert_ran(process)
        self.assertLess(process.stdout.count("\n"), 30)
        self.assertEqual(process.stdout.count("gpu_memory_clock_mhz: "), 1)
        self.assertIn("1000 points", process.stdout)

    def test_a_long_word_is_cut(self):
        process = self.planned(json.dumps({"model": "gpt2-tiny", "k" * 100_000: 1}))
        self.assertEqual(process.returncode, USAGE)
        self.assertEqual(said_codes(process.stderr), ["bad-config"])
        self.assertIn("/" + "k" * 64 + "…", process.stderr)
        self.assertLess(len(process.stderr), 1000)

    def test_a_number_too_large_is_quoted(self):
        process = tool("plan", "--model", "gpt2-tiny", "--accumulate", "99999999999999999999")
        self.assertEqual(process.returncode, USAGE)
        self.assertEqual(said_codes(process.stderr), ["bad-value"])
        self.assertIn("--accumulate 99999999999999999999: ", process.stderr)

    def test_what_does_not_divide_is_left_out_of_a_timed_run(self):
        process = run("--model", "gpt2-tiny", "--seq-len", 16, "--global-batch", 16, "--micro-batch", "3,5,4", "--threads", 1,
                      "--steps", 1, "--warmup", 1, "--out", self.out)
        self.assert_ran(process)
        self.assertEqual(said_codes(process.stderr, "warning").count("left-out"), 2)
        self.assertIn("--global-batch 16", process.stderr)
        report = self.report()
        self.assertEqual([record["workload"]["micro_batch"] for record in report["records"]], [4])
        self.assertEqual(len([one for one in report["context"]["warnings"] if one.startswith("left out: ")]), 2)
        self.assert_ran(tool("validate", self.out / "report.json"))

    def test_a_dry_run_says_how_long_targets_are_likely_to_take_and_at_most(self):
        process = run("--model", "gpt2-tiny", "--target", "default", "--threads", 1, "--dry-run")
        self.assert_ran(process)
        time = next(line for line in process.stdout.splitlines() if line.startswith("  time "))
        self.assertRegex(time, r"about .*node-hours on 1 node; at most ")
        planned = re.sub(r"\s+", " ", tool("plan", "--model", "gpt2-tiny", "--target", "default").stdout)
        self.assertIn("about 2833 steps, at most 10000", planned, "5 seeds")
        self.assertIn("trainwatt-train --dry-run with the same options measures it", planned)

    def test_why_a_time_is_not_known_is_said(self):
        options = ["--model", "gpt2-tiny", "--ranks", "1,2", "--steps", 2, "--warmup", 1]
        planned = json.loads(tool("plan", *options, "--json").stdout)
        self.assertEqual((planned["points_of_unknown_time"], planned["seconds"]), (2, None))
        self.assertIn("only the device shows how long a step takes", planned["time_reason"])
        process = run(*options, "--threads", 1, "--dry-run", ranks=2)
        self.assert_ran(process)
        self.assertRegex(re.sub(r"\s+", " ", process.stdout), r"; and 1 point of unknown duration .*: none of their steps were timed: "
                         "they take fewer ranks than this launch")

    def test_tables_are_as_wide_as_the_terminal(self):
        self.assert_ran(run("--model", "gpt2-tiny", "--seq-len", 16, "--accumulate", "1,2", "--threads", 1, "--steps", 2,
                            "--warmup", 1, "--out", self.out))
        widest = {}
        for columns in (40, 60, 100, 200):
            lines = self.on_a_terminal(columns, "show", self.out / "report.json")
            table = lines[next(i for i, line in enumerate(lines) if line.startswith("  point")):]
            table = table[:table.index("")]
            widest[columns] = max(map(len, lines))
            self.assertLessEqual(max(map(len, table)), columns, "\n".join(table))
            self.assertIn("np1", "".join(table))
        self.assertGreater(widest[200], 120)
        self.assertLessEqual(max(map(len, self.on_a_terminal(40, "plan", "--model", "gpt2-tiny"))), 44, "but for single words")


if __name__ == "__main__":
    unittest.main()
