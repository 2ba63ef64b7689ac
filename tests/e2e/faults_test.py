"""The fault table of power/README.md, over the stand-in driver: what a user sees, what is kept, and that clocks are as found."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import unittest

from fake_node import Under
from support import (BIN, HANG, Case, FakeGpus, SiteTool, children_of, environment, eventually, mpirun, mpirun_each, only_root, ranks_of, run, said_codes,
                     tool)

# Points of about a second; only the first is to be finished.
SWEEP = ["--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", "1305,990", "--window", 1, "--trials", 1]


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
        out, err = process.communicate(timeout=HANG)
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

    def test_sighup(self):
        """The terminal was closed."""
        self.ended_by(signal.SIGHUP)

    def test_sighup_under_nohup(self):
        """Also where a library has taken the signal before main(), as UCX does."""
        process = self.start_sweep(command=["env", f"LD_PRELOAD={os.environ['TRAINWATT_TAKES_SIGNALS']}", "nohup"])
        os.kill(process.pid, signal.SIGHUP)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(len(self.report()["records"]), 2)

    def test_a_killed_run_is_put_back_by_its_guardian(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            with self.subTest(number):
                self.out = self.folder / f"out{number}"
                process = self.start_sweep()
                os.kill(process.pid, number)
                process.communicate(timeout=HANG)
                self.assert_put_back()
                self.assert_first_point_is_kept()

    def test_a_crash_whose_handler_never_ends_is_put_back(self):
        """The handler of UCX; the process ends by the signal all the same."""
        process = self.start_sweep(command=["env", f"LD_PRELOAD={os.environ['TRAINWATT_TAKES_SIGNALS']}"])
        os.kill(process.pid, signal.SIGSEGV)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, -signal.SIGSEGV)
        self.assert_put_back()
        self.assert_first_point_is_kept()

    def test_the_first_process_of_a_container_ends_by_a_crash(self):
        """A signal that nobody handles does not end it. Its guardian ends with the container; `restore` is left."""
        Under({}, {}).or_skip()
        process = self.start_sweep(command=["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--as-pid-1", "--",
                                            "env", f"LD_PRELOAD={os.environ['TRAINWATT_TAKES_SIGNALS']}"])
        first, = children_of(process.pid)
        os.kill(first, signal.SIGSEGV)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 128 + signal.SIGSEGV)
        self.assert_first_point_is_kept()

    def test_a_job_that_has_lost_a_rank_is_put_back(self):
        """One rank is gone: the launcher ends the others."""
        process = self.start_sweep(command=mpirun(2))
        os.kill(max(ranks_of(process)), signal.SIGKILL)
        process.communicate(timeout=HANG)
        self.assertNotEqual(process.returncode, 0)
        self.assert_put_back()
        self.assert_first_point_is_kept()

    def test_a_rank_that_calls_mpi_abort_is_put_back(self):
        """It fails in a step, where the other cannot be told; once the rank that holds the settings, once the other."""
        failing = ["env", f"LD_PRELOAD={os.environ['TRAINWATT_FAILING_REDUCTION']}"]
        for rank in (0, 1):
            with self.subTest(rank=rank):
                train = [str(BIN / "trainwatt-train"), "--device", "cpu", "--model", "gpt2-tiny", "--threads", "1", "--gpu-clock", "990",
                         "--window", "600", "--trials", "1", "--out", str(self.folder / f"out{rank}")]
                resets = self.gpus.all("resets")[0]
                command = mpirun_each(*([*failing, *train] if one == rank else train for one in (0, 1)))
                process = subprocess.run(command, capture_output=True, text=True, timeout=HANG,
                                         env=environment(**self.env))
                self.assertNotEqual(process.returncode, 0)
                # What the program says before it calls MPI_Abort; mpirun's own words on that do not always arrive whole.
                self.assertRegex(process.stderr, rf"error\[[a-z-]+\]: rank {rank} on ")
                self.assert_put_back()
                self.assertGreater(self.gpus.all("resets")[0], resets, "it was set")

    def test_the_job_ends_while_its_guardian_is_still_at_work(self):
        """What started the job, and whoever reads its output, waits for the ranks alone."""
        site = SiteTool(self.folder / "site", "gpu_clock_mhz", 1980, minimum=210, maximum=1980)
        process = self.start("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 600, "--trials", 1,
                             "--site", site.file, "--out", self.out, command=mpirun(2), **self.env)
        self.assertTrue(eventually(lambda: site.value.read_text() == "990\n"))
        site.hold.touch()
        ranks = ranks_of(process)

        def guardians():
            return [guardian for rank in ranks for guardian in children_of(rank, "trainwatt-train")]

        # A child that has not yet become the site's command has the same name.
        self.assertTrue(eventually(lambda: len(guardians()) == 1), guardians())
        guardian, = guardians()
        self.kill_together(process, ranks)
        process.communicate(timeout=HANG)
        os.kill(guardian, 0)  # lives
        self.assertTrue(self.journal_is_there())
        self.assertEqual(site.value.read_text(), "990\n")
        site.hold.unlink()
        self.assertTrue(eventually(lambda: site.value.read_text() == "1980\n" and not self.journal_is_there()))

    def test_run_and_guardian_killed_is_for_restore(self):
        process = self.start_sweep()
        guardians = children_of(process.pid, "trainwatt-train")
        self.assertEqual(len(guardians), 1)
        self.kill_together(process, [*guardians, process.pid])
        process.communicate(timeout=HANG)
        self.assertEqual(self.gpus.all("lock_mhz"), [990], "nobody is left")
        self.assertTrue(self.journal_is_there())
        self.assert_first_point_is_kept()
        restored = tool("restore", **self.env)
        self.assert_ran(restored)
        self.assertIn("gpu_clock_mhz", restored.stdout)
        self.assert_put_back()

    def leave_settings(self):
        """Of a run that is killed together with its guardian."""
        process = self.start_sweep()
        self.kill_together(process, [*children_of(process.pid, "trainwatt-train"), process.pid])
        process.communicate(timeout=HANG)
        self.assertEqual(self.gpus.all("lock_mhz"), [990], "nobody is left")
        return process

    def warnings_of(self, out):
        return json.loads((out / "report.json").read_text())["context"]["warnings"]

    def assert_one_warning(self, out, begin, *words):
        found = [line for line in self.warnings_of(out) if line.startswith(begin)]
        self.assertEqual(len(found), 1, self.warnings_of(out))
        for word in words:
            self.assertIn(word, found[0])

    def test_run_and_guardian_killed_is_for_the_next_run(self):
        """Whether that sets anything or not: what it measures is not to be measured under what was left."""
        for name, option in (("plain", []), ("found", ["--gpu-clock", "found"]), ("set", ["--gpu-clock", 1305])):
            with self.subTest(name):
                self.out = self.folder / f"killed-{name}"
                dead = self.leave_settings()
                out = self.folder / name
                following = run("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, *option, "--steps", 2, "--out", out, **self.env)
                self.assert_ran(following)
                self.assertIn("settings", said_codes(following.stderr, "warning"))
                self.assert_one_warning(out, "restored: ", "gpu_clock_mhz", f"process {dead.pid} of user")
                self.assert_put_back()

    def test_run_and_guardian_killed_is_for_a_metered_command(self):
        dead = self.leave_settings()
        probed = tool("probe", **self.env)
        self.assert_ran(probed)
        text = " ".join(probed.stdout.split())
        self.assertIn("gpu_clock_mhz 990 of nvml:", text)
        self.assertIn(f"process {dead.pid} of user {os.geteuid()}, which is dead: the next run, or `trainwatt restore`", text)
        [seen] = json.loads(tool("probe", "--json", **self.env).stdout)["settings_in_force"]
        self.assertEqual((seen["pid"], seen["running"]), (dead.pid, False))
        self.assertTrue(self.journal_is_there(), "probe touches nothing")
        self.assertEqual(self.gpus.all("lock_mhz"), [990])
        metered = tool("meter", "--out", self.folder / "metered", "--", "true", **self.env)
        self.assert_ran(metered)
        self.assertIn("settings", said_codes(metered.stderr, "warning"))
        self.assert_one_warning(self.folder / "metered", "restored: ", "gpu_clock_mhz", f"process {dead.pid} of user")
        self.assert_put_back()

    def test_a_journal_that_tells_nothing_is_said(self):
        """What is in force under a damaged journal, or another version's, nobody knows: that is said, not nothing. Nor does
        a lock in other hands, or a text of control characters, keep it from being said."""
        self.leave_settings()
        journal = self.journals / "settings.json"
        good = json.loads(journal.read_text())
        for text, why in (("{", "settings.json is damaged"), ('{"schema_version": 99}', "another version of trainwatt")):
            journal.write_text(text)
            self.assertIn(f"journal unreadable: {journal} ", " ".join(tool("probe", **self.env).stdout.split()))
            [seen] = json.loads(tool("probe", "--json", **self.env).stdout)["settings_in_force"]
            self.assertIn(f"journal unreadable: {journal} ", seen["unreadable"])
            self.assertIn(why, seen["unreadable"])
            self.assertIsNone(seen["values"])
            out = self.folder / f"metered-{len(text)}"
            self.assert_ran(tool("meter", "--out", out, "--", "true", **self.env))
            self.assertTrue([one for one in json.loads((out / "report.json").read_text())["context"]["warnings"] if why in one])
        good["entries"][0]["domain"] = "nvml:\x1b[31m"
        journal.write_text(json.dumps(good))
        with open(self.journals / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            out = self.folder / "locked"
            metered = tool("meter", "--out", out, "--", "true", **self.env)
            self.assert_ran(metered)
            self.assert_one_warning(out, "not restored: ", "which is dead, cannot be restored while another process", "`fuser ")
        restored = tool("restore", **self.env)
        self.assert_ran(restored, 3)
        self.assertNotIn("\x1b", restored.stdout + restored.stderr)
        self.assertIn("nvml:\\x1b[31m", restored.stdout)
        journal.unlink()

    def test_what_the_next_run_cannot_put_back_it_says(self):
        self.leave_settings()
        self.gpus.set("deny_set", 1)
        out = self.folder / "denied"
        following = run("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--steps", 2, "--out", out, **self.env)
        self.assert_ran(following)
        self.assert_one_warning(out, "not restored: ", "gpu_clock_mhz", "`trainwatt restore` tries again")
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        (self.journals / "settings.json").write_text("{")
        out = self.folder / "damaged"
        following = run("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--steps", 2, "--out", out, **self.env)
        self.assert_ran(following)
        self.assert_one_warning(out, "not restored: ", "settings.json is damaged", "then remove it")

    def test_a_journal_that_cannot_be_kept_ends_the_run_before_its_first_point(self):
        args = ["--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", "found,990", "--steps", 2, "--out", self.out]
        refused = run(*args, **{**self.env, "TRAINWATT_RUN_DIR": self.folder / "no" / "such"})
        self.assert_one_line_error(refused, 3, "no/such: the journal of settings cannot be written here: create the parent "
                                   "folder, or set TRAINWATT_RUN_DIR to another folder", "No such file or directory")
        self.journals.mkdir(mode=0o700)
        (self.journals / "settings.json").write_text("{")
        refused = run(*args, **self.env)
        self.assert_one_line_error(refused, 3, "settings.json is damaged")
        self.assertEqual(self.gpus.all("lock_mhz"), [0])

    def test_a_path_that_is_no_utf8(self):
        site = SiteTool(self.folder / "site", "gpu_clock_mhz", 1980, minimum=210, maximum=1980)
        named = os.path.join(os.fsencode(self.folder), b"s\xe9te.json")
        os.rename(site.file, named)
        process = subprocess.run([str(BIN / "trainwatt-train"), "--device", "cpu", "--model", "gpt2-tiny", "--threads", "1", "--gpu-clock", "990",
                                  "--steps", "2", "--site", named, "--out", str(self.out)], capture_output=True, timeout=HANG,
                                 env=environment(**self.env))
        self.assertNotIn(b"json.exception", process.stderr)
        self.assertTrue((self.out / "report.json").exists(), process.stderr)
        self.assertEqual(site.value.read_text(), "1980\n")

    def test_a_site_whose_reset_is_not_there_sets_nothing(self):
        site = SiteTool(self.folder / "site", "gpu_clock_mhz", 1980, minimum=210, maximum=1980)
        site.file.write_text(site.file.read_text().replace('"reset": ["', '"reset": ["/no/such'))
        args = ["--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--steps", 2, "--site", site.file, "--out", self.out]
        refused = run(*args, "--gpu-clock", 990, **self.env)
        self.assert_one_line_error(refused, 2, '/knobs/0: "reset": ', "cannot be run: No such file or directory")
        self.assertEqual(site.value.read_text(), "1980\n")
        probed = " ".join(tool("probe", "--site", site.file, **self.env).stdout.split())
        self.assertIn('"reset": "/no/such', probed)
        self.assert_ran(run(*args, **self.env))  # which turns nothing

    def test_a_run_beside_one_that_holds_settings_says_so(self):
        first = self.start("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 600, "--trials", 1,
                           "--out", self.out, **self.env)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [990]))
        whose = (f"process {first.pid} of user {os.geteuid()}, which still runs", "gpu_clock_mhz 990 of nvml:")
        plain = self.folder / "plain"
        self.assert_ran(run("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--steps", 2, "--out", plain, **self.env))
        self.assert_one_warning(plain, "under settings of another run: ", *whose)
        metered = tool("meter", "--out", self.folder / "metered", "--", "true", **self.env)
        self.assert_ran(metered)
        self.assert_one_warning(self.folder / "metered", "under settings of another run: ", *whose)
        probed = tool("probe", **self.env)
        self.assert_ran(probed)
        for word in whose:
            self.assertIn(word, " ".join(probed.stdout.split()))
        self.assertEqual(self.gpus.all("lock_mhz"), [990])
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=HANG)
        self.assert_put_back()

    def test_a_clock_that_cannot_be_put_back(self):
        process = self.start_sweep()
        self.gpus.set("deny_set", 1)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 3, out + err)
        self.assertIn("settings", said_codes(err, "warning"))
        report = self.report()
        self.assertEqual([record["verdict"]["status"] for record in report["records"]], ["valid", "valid"])
        self.assertTrue(any(line.startswith("not restored: ") for line in report["context"]["warnings"]), report["context"])
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        self.assert_ran(tool("restore", **self.env))
        self.assert_put_back()

    def test_a_run_without_a_valid_point_whose_clock_cannot_be_put_back(self):
        """3, not 4: the node is not as it was found, whatever was measured."""
        process = self.start("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 2, "--trials", 1,
                             "--out", self.out, **self.env)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [990]))
        self.gpus.set("lock_mhz", 1305)  # somebody else's: the point is not_applied
        self.gpus.set("deny_set", 1)
        out, err = process.communicate(timeout=HANG)
        [record] = self.report()["records"]
        self.assertNotEqual(record["verdict"]["status"], "valid")
        self.assertEqual(process.returncode, 3, out + err)
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        self.assert_ran(tool("restore", **self.env))
        self.assert_put_back()

    def test_an_interrupted_run_whose_clock_cannot_be_put_back(self):
        """3, not 5: who queues a run again on 5 would do so with the clock still set."""
        process = self.start_sweep()
        self.gpus.set("deny_set", 1)
        os.kill(process.pid, signal.SIGUSR1)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 3, out + err)
        self.assertIn("not-restored", said_codes(err))
        self.assertTrue(self.journal_is_there())
        self.gpus.set("deny_set", 0)
        self.assert_ran(tool("restore", **self.env))
        self.assert_put_back()

    def test_two_runs_that_want_to_set(self):
        first = self.start_sweep()
        with self.held(first, self.gpus):
            second = run(*SWEEP, "--out", self.folder / "second", **self.env)
        self.assertEqual(second.returncode, 3, second.stderr)
        self.assert_said_by_the_second(second, first)
        out, err = first.communicate(timeout=HANG)
        self.assertEqual(first.returncode, 0, out + err)
        self.assertEqual([record["verdict"]["status"] for record in self.report()["records"]], ["valid", "valid"])
        self.assert_put_back()

    def assert_said_by_the_second(self, second, first):
        """Who holds the settings comes first, then what to do."""
        [error] = [line for line in second.stderr.splitlines() if line.startswith("trainwatt-train: error[settings-held]: ")]
        self.assertRegex(error, f"^trainwatt-train: error\\[settings-held\\]: {self.journals}: settings are held by trainwatt-train, process "
                         f"{first.pid} of user {os.geteuid()}, which still runs \\(gpu_clock_mhz [0-9]+ of nvml:[^ ]*\\); "
                         "wait until it ends, or leave all settings as found$")

    def test_restore_beside_a_run(self):
        process = self.start("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 990, "--window", 2, "--trials", 1,
                             "--out", self.out, **self.env)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [990]))
        with self.held(process, self.gpus):
            refused = tool("restore", **self.env)
            self.assertEqual(refused.returncode, 3)
            self.assertIn(f"process {process.pid} of user", refused.stderr)
            self.assertEqual(said_codes(refused.stderr), ["settings-held"])
            self.assertEqual(self.gpus.all("lock_mhz"), [990])
            overruled = tool("restore", "--all", **self.env)
            self.assert_ran(overruled)
            self.assertEqual(self.gpus.all("lock_mhz"), [0])
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 4, out + err)
        [record] = self.report()["records"]
        self.assertIn("not_applied", record["verdict"]["flags"])
        self.assertIn("not_applied: gpu_clock_mhz 990 of ", record["verdict"]["reasons"][0])
        self.assertFalse(self.journal_is_there())

    def test_a_lock_of_somebody_elses(self):
        self.gpus = FakeGpus(self.folder / "nvml", 1, lock_mhz=990)
        args = ["--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 1305, "--steps", 2, "--out", self.out]
        refused = run(*args, **self.env)
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertEqual(said_codes(refused.stderr), ["clock-locked"])
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
        process.communicate(timeout=HANG)
        self.assertNotEqual(process.returncode, 0)
        self.assert_put_back()
        self.assert_first_point_is_kept()


if __name__ == "__main__":
    unittest.main()
