"""What the programs print on a terminal of 80 columns, and that they work where nothing can be printed."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from support import BIN, HANG, Case, environment, run, said_codes

COLUMNS = 80


class StandardError(Case):
    """Errors and warnings go to standard error, which may be closed, full, or a pipe that nobody reads any more."""

    def ended(self, error, program, *args):
        process = subprocess.run([str(BIN / program), *map(str, args)], stdout=subprocess.DEVNULL, stderr=error, timeout=HANG,
                                 env=environment(), preexec_fn=(lambda: os.close(2)) if error is None else None)
        return process.returncode

    def test_what_cannot_be_printed_ends_no_program(self):
        reader, broken = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, broken)
        full = os.open("/dev/full", os.O_WRONLY)
        self.addCleanup(os.close, full)
        for number, error in enumerate((None, full, broken)):
            with self.subTest(number):
                if error != broken:  # whose writer is ended by SIGPIPE, unless it ignores that
                    self.assertEqual(self.ended(error, "trainwatt", "show", self.folder / "none.json"), 2)
                    self.assertEqual(self.ended(error, "trainwatt-train", "--no-such-option"), 2)
                out = self.folder / f"metered-{number}"
                self.assertEqual(self.ended(error, "trainwatt", "meter", "--out", out, "--", "sh", "-c", "exit 7"), 7)
                self.assertTrue((out / "report.json").exists())

    def test_what_an_option_contains_does_not_reach_the_terminal(self):
        process = subprocess.run([str(BIN / "trainwatt-train"), "--model", "a\x1b[31m\nb"], capture_output=True, text=True,
                                 timeout=HANG, env=environment())
        self.assertEqual((process.returncode, process.stderr.count("\n")), (2, 1), process.stderr)
        self.assertNotIn("\x1b", process.stderr)
        self.assertEqual(said_codes(process.stderr), ["unknown-name"])


class Terminal(Case):
    def shown(self, program, *args, code=0):
        """What a program writes on a terminal, as it writes it."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = subprocess.Popen([str(BIN / program), *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=environment(LANG="C.UTF-8", NO_COLOR=1))
        self.addCleanup(self.end, process)
        os.close(theirs)
        text = b""
        while True:
            try:
                some = os.read(ours, 65536)
            except OSError:  # the last writer has ended
                break
            if not some:
                break
            text += some
        os.close(ours)
        self.assertEqual(process.wait(timeout=HANG), code, text)
        return text.decode().replace("\r\n", "\n")

    def assert_fits(self, text):
        for line in text.split("\n"):
            self.assertLessEqual(len(line), COLUMNS, line)

    def test_help(self):
        for program in ("trainwatt-train", "trainwatt-ops", "trainwatt"):
            self.assert_fits(self.shown(program, "--help"))
        for command in re.findall(r"^  ([a-z]+) ", self.shown("trainwatt", "--help").split("Subcommands:")[1], re.MULTILINE):
            with self.subTest(command):
                self.assert_fits(self.shown("trainwatt", command, "--help"))

    def test_progress_is_one_line_and_the_table_fits(self):
        text = self.shown("trainwatt-train", "--model", "gpt2-tiny", "--micro-batch", 4, "--accumulate", 1, "--window", 2,
                          "--trials", 3, "--recompute", "2", "--out", self.out)
        drawn = re.findall(r"\r\033\[K([^\r\n]+)(?=\r)", text)
        self.assertTrue(any("trial" in line for line in drawn), text)
        for line in drawn:
            self.assertLess(len(line), COLUMNS, line)
        table = text.split("\n  point")[1].split("\n", 2)
        self.assertLessEqual(len("  point" + table[0]), COLUMNS)
        self.assertLessEqual(len(table[1]), COLUMNS)

    def test_help_and_wrong_options_need_no_mpi(self):
        """Of a process that no launcher has started; this MPI cannot start (MPICH ignores the variable)."""
        for words, code in ((["--help"], 0), (["--version"], 0), (["--model", "gpt2-tiny", "--micro-bacth", 4], 2)):
            process = run(*words, OMPI_MCA_pml="none")
            self.assert_ran(process, code)
            self.assertEqual(said_codes(process.stderr), ["unknown-option"] if code else [])
            self.assertNotIn("MPI_Init", process.stdout + process.stderr)

    def test_dry_run_and_probe(self):
        for text in (self.shown("trainwatt-train", "--model", "gpt2-tiny", "--steps", 1, "--dry-run"), self.shown("trainwatt", "probe")):
            wide = [line for line in text.split("\n") if len(line) > COLUMNS and " " in line.strip()[:COLUMNS - 20]]
            self.assertEqual(wide, [])


if __name__ == "__main__":
    unittest.main()
