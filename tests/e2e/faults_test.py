"""The fault table of the README, over the stand-in driver: what a user sees, what is kept, and that clocks are as found."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from support import (BIN, Case, FakeGpus, SiteTool, children_of, environment, eventually, mpirun, only_root, ranks_of, run,
                     tool)

# Points of about a second; only the first is to be finished.
SWEEP = ["--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", "1305,990", "--window", 1, "--trials", 1]


class Faults(Case):
    def setUp(self):
        only_root()
        super().setUp()
        (self.folder / "nvml").mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.gpus = FakeGpus(self.folder / "nvml", 1)
        self.journals = self.folder / "run" / "trainwatt"
        self.env = {**self.gpus.environment, "TRAINWATT_RUN_DIR": self.journals}

    def start_sweep(self, command=()):
        """Returns while the second set point is in force."""
        process = self.start(*SWEEP, "--out", self.out, command=command, **self.env)
        self.wait_for_records(process)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [990] or process.poll() is not None))
        self.assertIsNone(process.poll())
        return process

    def assert_put_back(self):
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [0] and not self.journal_is_there()))

    def journal_is_there(self):
        return (self.journals / "settings.json").exists()

    def assert_first_point_is_kept(self):
        lines = (self.out / "records.jsonl").read_text().splitlines()
        self.assertGreaterEqual(len(lines), 1)
        self.assertEqual(tool("validate", self.out / "records.jsonl").returncode, 0)

    def ended_by(self, number):
        process = self.start_sweep()
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 5, out + err)
        self.assertEqual(self.gpus.all("lock_mhz"), [0], "before it has ended")
        self.assertFalse(self.journal_is_there())
        self.assertEqual(len(self.report()["records"]), 1)
        self.assert_ran(tool("validate", self.out / "report.json"))

    def test_sigint(self):
        self.ended_by(signal.SIGINT)

    def test_sigterm(self):
        self.ended_by(signal.SIGTERM)

    def test_sigusr1(self):
        self.ended_by(signal.SIGUSR1)

    def test_a_killed_run_is_put_back_by_its_guardian(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            with self.subTest(number):
                self.out = self.folder / f"out{number}"
                process = self.start_sweep()
                os.kill(process.pid, number)
                process.communicate(timeout=30)
                self.assert_put_back()
                self.assert_first_point_is_kept()

    def test_a_job_that_has_lost_a_rank_is_put_back(self):
        """One rank is gone: the launcher ends the others."""
        process = self.start_sweep(command=mpirun(2))
        os.kill(max(ranks_of(process)), signal.SIGKILL)
        process.communicate(timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assert_put_back()
        self.assert_first_point_is_kept()

    def test_a_rank_that_calls_mpi_abort_is_put_back(self):
        """It fails in a step, where the other cannot be told; once the rank that holds the settings, once the other."""
        failing = ["env", f"LD_PRELOAD={os.environ['TRAINWATT_FAILING_REDUCTION']}"]
        for rank in (0, 1):
            with self.subTest(rank=rank):
                train = [str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--threads", "1", "--gpu-clock", "990",
                         "--window", "50", "--trials", "1", "--out", str(self.folder / f"out{rank}")]
                resets = self.gpus.all("resets")[0]
                command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "1", *(failing if rank == 0 else []),
                           *train, ":", "-np", "1", *(failing if rank == 1 else []), *train]
                process = subprocess.run(command, capture_output=True, text=True, timeout=40,
                                         env=environment(**self.env))
                self.assertNotEqual(process.returncode, 0)
                # What the program says before it calls MPI_Abort; mpirun's own words on that do not always arrive whole.
                self.assertIn(f"error: rank {rank} on ", process.stderr)
                self.assert_put_back()
                self.assertGreater(self.gpus.all("resets")[0], resets, "it was set")

    def test_the_job_ends_while_its_guardian_is_still_at_work(self):
        """What started the job, and whoever reads its output, waits for the ranks alone."""
        site = SiteTool(self.folder / "site", "gpu_clock_mhz", 1980, minimum=210, maximum=1980)
        process = self.start("--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 50, "--trials", 1,
                             "--site", site.file, "--out", self.out, command=mpirun(2), **self.env)
        self.assertTrue(eventually(lambda: site.value.read_text() == "990\n"))
        site.hold.touch()
        ranks = ranks_of(process)
        guardians = [guardian for rank in ranks for guardian in children_of(rank, "trainwatt-train")]
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        process.communicate(timeout=40)
        self.assertEqual(len(guardians), 1)
        os.kill(guardians[0], 0)  # lives
        self.assertTrue(self.journal_is_there())
        self.assertEqual(site.value.read_text(), "990\n")
        site.hold.unlink()
        self.assertTrue(eventually(lambda: site.value.read_text() == "1980\n" and not self.journal_is_there()))

    def test_run_and_guardian_killed_is_for_restore(self):
        process = self.start_sweep()
        guardians = children_of(process.pid, "trainwatt-train")
        self.assertEqual(len(guardians), 1)
        os.kill(guardians[0], signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        self.assertEqual(self.gpus.all("lock_mhz"), [990], "nobody is left")
        self.assertTrue(self.journal_is_there())
        self.assert_first_point_is_kept()
        restored = tool("restore", **self.env)
        self.assert_ran(restored)
        self.assertIn("gpu_clock_mhz", restored.stdout)
        self.assert_put_back()

    def test_run_and_guardian_killed_is_for_the_next_run(self):
        process = self.start_sweep()
        os.kill(children_of(process.pid, "trainwatt-train")[0], signal.SIGKILL)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        after = run("--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", "found", "--steps", 2,
                    "--out", self.folder / "after", **self.env)
        self.assert_ran(after)
        restored = run("--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 1305, "--steps", 2,
                       "--out", self.folder / "next", **self.env)
        self.assert_ran(restored)
        self.assertIn("put back", restored.stderr)
        warnings = json.loads((self.folder / "next/report.json").read_text())["context"]["warnings"]
        self.assertTrue(any(line.startswith("put back: ") and "gpu_clock_mhz" in line for line in warnings), warnings)
        self.assert_put_back()

    def test_a_clock_that_cannot_be_put_back(self):
        process = self.start_sweep()
        self.gpus.set("deny_set", 1)
        out, err = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 3, out + err)
        self.assertIn("not put back: ", err)
        report = self.report()
        self.assertEqual([record["verdict"]["status"] for record in report["records"]], ["valid", "valid"])
        self.assertTrue(any(line.startswith("not put back: ") for line in report["context"]["warnings"]), report["context"])
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        self.assert_ran(tool("restore", **self.env))
        self.assert_put_back()

    def test_an_interrupted_run_whose_clock_cannot_be_put_back(self):
        """3, not 5: who queues a run again on 5 would do so with the clock still set."""
        process = self.start_sweep()
        self.gpus.set("deny_set", 1)
        os.kill(process.pid, signal.SIGUSR1)
        out, err = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 3, out + err)
        self.assertIn("settings could not be put back", err)
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        self.assert_ran(tool("restore", **self.env))
        self.assert_put_back()

    def test_two_runs_that_want_to_set(self):
        first = self.start_sweep()
        second = run(*SWEEP, "--out", self.folder / "second", **self.env)
        self.assertEqual(second.returncode, 3, second.stderr)
        self.assert_said_by_the_second(second, first)
        out, err = first.communicate(timeout=40)
        self.assertEqual(first.returncode, 0, out + err)
        self.assertEqual([record["verdict"]["status"] for record in self.report()["records"]], ["valid", "valid"])
        self.assert_put_back()

    def assert_said_by_the_second(self, second, first):
        """Who holds the settings comes first, then what to do."""
        [error] = [line for line in second.stderr.splitlines() if line.startswith("trainwatt-train: error:")]
        self.assertEqual(error, f"trainwatt-train: error: {self.journals}: settings are held by trainwatt-train, process {first.pid} "
                         f"of user {os.geteuid()}, which still runs; wait for its end, or leave all settings as found")

    def test_restore_beside_a_run(self):
        process = self.start("--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 2, "--trials", 1,
                             "--out", self.out, **self.env)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [990]))
        refused = tool("restore", **self.env)
        self.assertEqual(refused.returncode, 3)
        self.assertIn(f"process {process.pid} of user", refused.stderr)
        self.assertIn("it puts them back at its end", refused.stderr)
        self.assertEqual(self.gpus.all("lock_mhz"), [990])
        overruled = tool("restore", "--all", **self.env)
        self.assert_ran(overruled)
        self.assertIn("which still runs", overruled.stdout)
        self.assertEqual(self.gpus.all("lock_mhz"), [0])
        out, err = process.communicate(timeout=40)
        self.assertEqual(process.returncode, 4, out + err)
        [record] = self.report()["records"]
        self.assertIn("not_applied", record["verdict"]["flags"])
        self.assertIn("not_applied: gpu_clock_mhz 990 of ", record["verdict"]["reasons"][0])
        self.assertFalse(self.journal_is_there())

    def test_a_lock_of_somebody_elses(self):
        self.gpus = FakeGpus(self.folder / "nvml", 1, lock_mhz=990)
        args = ["--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 1305, "--steps", 2, "--out", self.out]
        refused = run(*args, **self.env)
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertIn("990 of 1980 MHz by somebody's clock setting", refused.stderr)
        self.assertEqual(self.gpus.all("lock_mhz"), [990])
        shutil.rmtree(self.out, ignore_errors=True)
        self.assert_ran(run(*args, "--force", **self.env))
        warnings = [line for line in self.report()["context"]["warnings"] if line.startswith("forced: ")]
        self.assertEqual(len(warnings), 1)
        self.assertIn("990 of 1980 MHz", warnings[0])
        self.assertEqual(self.gpus.all("lock_mhz"), [0])

    def test_ctrl_c_of_mpirun(self):
        process = self.start_sweep(command=mpirun(2))
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=40)
        self.assertNotEqual(process.returncode, 0)
        self.assert_put_back()
        self.assert_first_point_is_kept()


if __name__ == "__main__":
    unittest.main()
