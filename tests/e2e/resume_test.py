"""A sweep that is cut short goes on where it stood: nothing is measured twice, nothing is lost, and the report says so."""
import contextlib
import json
import os
import signal
import subprocess
import unittest

from support import BIN, HANG, Case, codes, environment, eventually, mpirun, mpirun_each, ranks_of, run, tool, validated

USAGE, ENVIRONMENT, INTERRUPTED = 2, 3, 5


def sweep(points):
    """Options of a sweep over that many points, each of a few seconds."""
    return ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--threads", 1,
            "--accumulate", ",".join(map(str, range(1, points + 1))), "--steps", 3]


class Resume(Case):
    @property
    def records(self):
        return self.out / "records.jsonl"

    def lines(self):
        return self.records.read_text().splitlines()

    def cut_short(self, points, finished, number=signal.SIGKILL, command=(), option="--out"):
        """A sweep that a signal ends in the point after `finished`. Returns the lines of the finished ones."""
        process = self.start(*sweep(points), option, self.out, command=command)
        self.wait_for_records(process, finished)
        ranks = ranks_of(process) if command else [process.pid]
        os.kill(ranks[0], number)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode != 0, True)
        lines = self.lines()
        self.assertEqual(len(lines), finished)
        return lines

    def resumed(self, *args, out=None, **kwargs):
        return run("--resume", out or self.out, *args, **kwargs)

    def edit_start(self, change):
        """Changes what the folder says of the launch before."""
        path = self.out / "run.json"
        start = json.loads(path.read_text())
        change(start)
        path.write_text(json.dumps(start))

    def assert_refused(self, process, code, *words):
        self.assert_ran(process, code)
        ours = [line for line in process.stderr.splitlines() if line.startswith("trainwatt-train: error[")]
        self.assertEqual(len(ours), 1, process.stderr)
        for word in words:
            self.assertIn(word, ours[0])

    def assert_resumed(self, before, points, parts):
        """The lines from before stand as they were, the report has all points and says who measured which."""
        lines = self.lines()
        self.assertEqual(lines[:len(before)], before, "what was finished is kept byte for byte")
        self.assertEqual(len(lines), points)
        report = self.report()
        self.assertEqual([json.loads(line) for line in lines], report["records"])
        self.assertEqual(len({record["id"] for record in report["records"]}), points, "no point twice")
        self.assertEqual([len(part["points"]) for part in report["parts"]], parts)
        self.assertEqual([id for part in report["parts"] for id in part["points"]],
                         [record["id"] for record in report["records"]])
        self.assert_ran(tool("validate", self.out / "report.json"))
        shown = tool("show", self.out / "report.json")
        self.assert_ran(shown)
        self.assertIn(f"part 1 of {len(parts)}: {parts[0]} point", shown.stdout)
        return report

    def test_a_step_is_not_exported_into_the_folder_of_a_run(self):
        self.folder.mkdir(exist_ok=True)
        (self.folder / "run.json").write_text("{}")
        process = run("--model", "gpt2-tiny", "--export-step", self.folder)
        self.assert_one_line_error(process, USAGE, "error[file-exists]: --export-step", "choose another folder")
        self.assertNotIn("--resume", process.stderr)

    def test_after_a_kill_no_point_is_lost_or_run_again(self):
        before = self.cut_short(5, 3)
        self.assertFalse((self.out / "report.json").exists())
        with open(self.records, "a") as file:
            file.write(before[0][:200])  # as a kill in mid-write leaves it
        process = self.resumed()
        self.assert_ran(process)
        self.assertIn("3 of 5 points", process.stderr)
        for line in before:
            self.assertNotIn(json.loads(line)["id"] + ": setting up", process.stderr)
        report = self.assert_resumed(before, 5, [3, 2])
        self.assertEqual(report["parts"][0]["context"]["finished_at"], "", "nobody knows when it was killed")
        self.assertEqual(report["parts"][1]["forced_over"], [])

    def test_a_point_that_ends_every_job_fails_and_the_sweep_goes_on(self):
        account = self.out / "in-flight.jsonl"

        def begun():
            """How often the second point was."""
            with contextlib.suppress(FileNotFoundError):
                return account.read_text().count("/acc2/")
            return 0
        # A longer window: each is killed in its second point.
        points = sweep(3)[:-2] + ["--window", 1, "--trials", 1]
        for launch in (1, 2):
            process = self.start(*points, "--resume", self.out)
            self.assertTrue(eventually(lambda: begun() == launch or process.poll() is not None))
            self.assertIsNone(process.poll())
            process.kill()
            process.communicate(timeout=HANG)
        before = self.lines()
        self.assertEqual(len(before), 1)
        self.assert_ran(self.resumed())
        report = self.assert_resumed(before, 3, [1, 0, 2])
        self.assertEqual([record["verdict"]["status"] for record in report["records"]], ["valid", "failed", "valid"])
        self.assertEqual(report["records"][1]["verdict"]["reasons"][0][:45], "ended the job twice: no rank reported a cause")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["records.jsonl", "report.json", "run.json"])

    def test_ranks_resume_together(self):
        before = self.cut_short(3, 1, command=mpirun(2))
        process = run(*sweep(3), "--resume", self.out, ranks=2)  # with its options, as a job that is queued again
        self.assert_ran(process)
        self.assert_resumed(before, 3, [1, 2])

    def test_a_signal_and_the_same_line_again(self):
        """One line serves: it starts the run, goes on with it, and says when it is complete."""
        before = self.cut_short(2, 1, signal.SIGUSR1, option="--resume")
        self.assertEqual(self.report()["parts"], None)
        self.assert_ran(tool("validate", self.out / "report.json"))
        process = run(*sweep(2), "--resume", self.out)
        self.assert_ran(process)
        report = self.assert_resumed(before, 2, [1, 1])
        self.assertTrue(report["parts"][0]["context"]["warnings"][-1].startswith("interrupted by a signal"))
        self.assertNotEqual(report["parts"][0]["context"]["finished_at"], "")
        files = {path.name: path.read_bytes() for path in self.out.iterdir()}
        self.assertEqual(sorted(files), ["records.jsonl", "report.json", "run.json"])
        for args in (sweep(2), []):
            complete = self.resumed(*args)
            self.assert_ran(complete)
            self.assertIn("complete", complete.stderr)
            self.assertIn(str(self.out / "report.json"), complete.stdout)
            self.assertEqual({path.name: path.read_bytes() for path in self.out.iterdir()}, files, "nothing was touched")

    def test_signals_leave_what_can_be_resumed(self):
        process = self.start(*sweep(2), "--out", self.out)
        self.wait_for_records(process)
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED, out + err)
        before = self.lines()
        self.assertEqual(len(before), 1, "a point that was not finished is none")
        self.assertEqual(self.report()["records"], [json.loads(before[0])])
        self.assert_ran(self.resumed())
        self.assert_resumed(before, 2, [1, 1])

    def test_other_runs_are_refused(self):
        before = self.cut_short(2, 1)
        kept = {path.name: path.read_bytes() for path in self.out.iterdir() if path.name != "run.lock"}
        refused = run(*sweep(2)[:-1], 4, "--resume", self.out)
        self.assert_refused(refused, USAGE, "error[not-same-run]", "steps 3, now 4", f"trainwatt-train --resume {self.out}")
        self.assertNotIn("--force-resume", refused.stderr, "which is refused below")
        self.assert_refused(run(*sweep(3), "--resume", self.out), USAGE, "points 2, now 3", "acc3")
        self.assert_refused(run(*sweep(2), "--bucket-mib", 4, "--resume", self.out), USAGE, "--bucket-mib 25, now 4")
        self.assert_refused(self.resumed(ranks=2), USAGE, "ranks 1, now 2", f"trainwatt-train --resume {self.out}")
        forced = run(*sweep(2)[:-1], 4, "--resume", self.out, "--force-resume")
        self.assert_refused(forced, ENVIRONMENT, "error[bad-run]", "records.jsonl", "line 1")
        self.assertEqual({path.name: path.read_bytes() for path in self.out.iterdir()}, kept, "a refusal changes nothing")
        self.edit_start(lambda start: start["program"].update(git_commit="0000000"))
        self.assert_refused(self.resumed(), ENVIRONMENT, "commit 0000000, now ", "--force-resume")
        self.edit_start(lambda start: start["context"]["hosts"][0].update(cpu="another CPU"))
        self.assert_refused(self.resumed(), ENVIRONMENT, "CPU of node 0 another CPU, now ")
        self.edit_start(lambda start: start["context"]["devices"][0].update(uuid="GPU-0"))
        self.assert_refused(self.resumed(), ENVIRONMENT, "device UUID of rank 0 GPU-0, now none")
        self.assert_refused(self.resumed("--force"), ENVIRONMENT, "device UUID of rank 0 GPU-0, now none")
        process = self.resumed("--force-resume")
        self.assert_ran(process)
        report = self.assert_resumed(before, 2, [1, 1])
        forced = report["parts"][1]["forced_over"]
        self.assertEqual(len(forced), 3, forced)
        for words in ("commit 0000000", "CPU of node 0", "device UUID of rank 0"):
            self.assertTrue(any(words in line for line in forced), forced)
        self.assertIn("resumed by --force-resume despite", tool("show", self.out / "report.json").stdout)

    def test_a_record_that_an_earlier_part_lists_is_missed(self):
        self.cut_short(3, 1)
        process = self.start(*sweep(3), "--resume", self.out)
        self.wait_for_records(process, 2)
        os.kill(process.pid, signal.SIGUSR1)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED)
        (self.out / "report.json").unlink()
        lost = json.loads(self.lines()[0])["id"]
        self.records.write_text("".join(line + "\n" for line in self.lines()[1:]))
        self.edit_start(lambda start: start["program"].update(git_commit="0000000"))
        self.assert_refused(self.resumed("--force-resume"), ENVIRONMENT,
                            "error[bad-run]", lost)

    def test_threads_are_the_machine_too(self):
        args = ["--model", "gpt2-tiny", "--accumulate", "1,2", "--steps", 3]
        process = self.start(*args, "--out", self.out, OMP_NUM_THREADS=1)
        self.wait_for_records(process)
        process.kill()
        process.communicate()
        self.assert_refused(self.resumed(OMP_NUM_THREADS=2), ENVIRONMENT, "threads of rank 0 1, now 2")

    def test_what_is_no_run_is_refused(self):
        self.assert_one_line_error(self.resumed(), USAGE, str(self.out), "error[no-run]")
        self.out.mkdir()
        self.assert_refused(self.resumed(), USAGE, "error[no-run]")
        (self.out / "thesis.tex").write_text("precious")
        for args in ((), sweep(1)):
            self.assert_refused(self.resumed(*args), USAGE, "error[no-run]", "run.json")
        self.assertEqual([path.name for path in self.out.iterdir()], ["thesis.tex"])
        (self.out / "run.json").write_text("{}")
        self.assert_refused(self.resumed(), ENVIRONMENT, "error[bad-run]", "run.json", "schema_version")
        self.assert_refused(self.resumed(out=self.out / "thesis.tex"), USAGE, "error[bad-folder]", "thesis.tex")
        self.assert_refused(self.resumed("--out", self.folder / "other"), USAGE, "error[options-conflict]", "--out", "--resume")
        self.assert_refused(self.resumed("--threads", 1), USAGE, "error[option-needs]", "--model")

    def test_an_empty_folder_is_a_place_to_start(self):
        self.out.mkdir()
        (self.out / "run.lock").write_text("")  # of a run that was killed before it had written anything
        self.assert_ran(run(*sweep(1), "--resume", self.out))
        self.assertEqual(self.report()["parts"], None)

    def test_damage_is_named_with_its_line(self):
        before = self.cut_short(3, 2)
        wrong, foreign = json.loads(before[1]), json.loads(before[1])
        wrong["summary"]["samples_per_s"]["value"] *= 2
        foreign["launch"] = "0" * 16  # from the folder of another run of the same plan
        for text, words in ((before[0][:100] + "\n" + before[1] + "\n", ("line 1",)),
                            (before[0] + "\n\0\0\0\n" + before[1] + "\n", ("line 2",)),
                            (before[0] + "\n" + json.dumps(wrong) + "\n", ("line 2", "the samples give")),
                            (before[0] + "\n" + json.dumps(foreign) + "\n", ("line 2", "/launch")),
                            (before[0] + "\n" + before[0] + "\n", ("line 2", "twice"))):
            self.records.write_text(text)
            self.assert_refused(self.resumed(), ENVIRONMENT, "error[bad-run]", str(self.records), *words)
            self.assertEqual(self.records.read_text(), text, "and is left for its owner to look at")

    def test_one_process_writes_at_a_time(self):
        process = self.start("--model", "gpt2-tiny", "--window", 600, "--out", self.out)
        self.assertTrue(eventually(lambda: (self.out / "run.json").exists() or process.poll() is not None))
        self.assert_refused(self.resumed(), ENVIRONMENT, "error[run-locked]", f"process {process.pid} on ")
        self.assert_refused(run(*sweep(1), "--out", self.out), USAGE, "error[file-exists]", "--resume")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertTrue((self.out / "run.lock").exists(), "the kill left it")
        process = self.start("--resume", self.out)
        self.assertTrue(eventually(lambda: (self.out / "run.lock").read_text().startswith(f"{process.pid} ")
                                   or process.poll() is not None))
        self.assertIsNone(process.poll(), "a lock whose holder is gone keeps nobody out")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED)
        self.assertFalse((self.out / "run.lock").exists())
        self.assertEqual([part["points"] for part in self.report()["parts"]], [[], []], "in its first point, both times")

    def test_a_signal_in_the_first_point_leaves_what_can_be_resumed(self):
        args = ["--model", "gpt2-tiny", "--window", 2, "--trials", 1, "--threads", 1]
        process = self.start(*args, "--out", self.out)
        self.assertTrue(eventually(lambda: (self.out / "run.json").exists() or process.poll() is not None))
        os.kill(process.pid, signal.SIGUSR1)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED, out + err)
        self.assertIn(f"--resume {self.out}", err)
        report = self.report()
        self.assertEqual(report["records"], [])
        self.assertTrue(report["context"]["warnings"][-1].startswith("interrupted by a signal"), report["context"]["warnings"])
        found = validated(self.out / "report.json")
        self.assertEqual((found["exit_code"], codes(found["notes"])), (0, ["points_missing"]))
        self.assertIn("No points were run", tool("show", self.out / "report.json").stdout)
        self.assert_ran(self.resumed())
        self.assert_resumed([], 1, [0, 1])

    def ranks_of_two_machines(self, first, *args):
        """Two ranks of which the second has another C library than the first; `first`: the other way round."""
        preload = ["env", f"LD_PRELOAD={os.environ['TRAINWATT_OTHER_LIBC']}"]
        program = [str(BIN / "trainwatt-train"), *map(str, args)]
        ranks = [program, [*preload, *program]]
        return mpirun_each(*(reversed(ranks) if first else ranks))

    def test_only_the_first_rank_compares_with_its_machine(self):
        """Nodes may differ from each other from the start: that is no change, and no rank may find one by itself."""
        args = [*sweep(2), "--resume", self.out]
        process = subprocess.Popen(self.ranks_of_two_machines(False, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment(), start_new_session=True)
        self.addCleanup(self.end, process)
        self.wait_for_records(process)
        self.kill_together(process, ranks_of(process))
        process.communicate(timeout=HANG)
        before = self.lines()
        self.assertEqual(len(before), 1)
        changed = subprocess.run(self.ranks_of_two_machines(True, *args), capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_refused(changed, ENVIRONMENT, "glibc ", ", now 9.99")
        self.assert_ran(subprocess.run(self.ranks_of_two_machines(False, *args), capture_output=True, text=True, timeout=HANG,
                                       env=environment()))
        self.assert_resumed(before, 2, [1, 1])

    def test_other_nodes_are_named_and_flagged(self):
        self.cut_short(2, 1)
        here = []

        def rename(start):
            here.append(start["context"]["hosts"][0]["name"])
            for entry in start["context"]["hosts"] + start["context"]["devices"] + start["context"]["meters"]:
                entry["host" if "host" in entry else "name"] = "another"
        self.edit_start(rename)
        self.records.write_text(self.records.read_text().replace(json.dumps(here[0]), '"another"'))
        before = self.lines()
        self.assert_ran(self.resumed())
        report = self.assert_resumed(before, 2, [1, 1])
        self.assertNotIn("other_hosts", report["records"][0]["verdict"]["flags"])
        self.assertIn("other_hosts", report["records"][1]["verdict"]["flags"])
        self.assertTrue(any("other nodes than before" in line for line in report["context"]["warnings"]))
        self.assertIn("1 point, on another, started", tool("show", self.out / "report.json", "--width", 120).stdout)

    def test_a_complete_report_of_another_version_is_left_alone(self):
        self.assert_ran(run(*sweep(1), "--out", self.out))
        report = self.out / "report.json"
        report.write_text(report.read_text().replace('"few_trials"', '"a_flag_of_that_version"'))
        self.assert_refused(self.resumed(), ENVIRONMENT, "error[bad-report]", "report.json")
        self.edit_start(lambda start: start["program"].update(git_commit="0000000"))
        text = report.read_text()
        complete = self.resumed()
        self.assert_ran(complete)
        self.assertIn("complete", complete.stderr)
        self.assertEqual(report.read_text(), text)


if __name__ == "__main__":
    unittest.main()
