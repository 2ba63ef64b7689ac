"""Jobs of scripts/slurm on a real Slurm of two nodes: one rank on each, launched by srun and by mpirun."""
import json
import os
import pathlib
import signal
import unittest

import slurm_cluster
from slurm_cluster import Cluster
from support import BIN, Case, FakeGpus, children_of, codes, eventually, tool, validated

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "slurm"
TINY = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--threads", 1]
POINTS = 4
# Points of some seconds: a signal that comes after the first finds the run in one of the next.
SWEEP = [*TINY, "--accumulate", ",".join(map(str, range(1, POINTS + 1))), "--window", 1, "--trials", 1]
TWO_NODES = ["--nodes=2", "--ntasks-per-node=1"]
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def setUpModule():
    slurm_cluster.enter()


class Slurm(Case):
    def configuration(self):
        """Lines for slurm.conf."""
        return ""

    def setUp(self):
        super().setUp()
        # Jobs write into the folder in which they were submitted: another one than that of the scripts.
        self.work = self.folder / "a user's work"
        self.work.mkdir()
        self.out = self.work / "out" / "r1"
        cluster = self.folder / "slurm"
        cluster.mkdir()
        self.cluster = Cluster(cluster, self.configuration())
        self.cluster.environment["TRAINWATT_BIN"] = str(BIN)
        self.enterContext(self.cluster)

    def submit(self, script, *args, options=TWO_NODES, **env):
        return self.cluster.submit(*options, "--output=log", script, *args, cwd=self.work, env=env)

    def log(self):
        log = self.work / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def wait(self, job, *states):
        try:
            return self.cluster.wait(job, *states)
        except AssertionError as error:
            self.fail(f"{error}\n---- the job's log\n{self.log()}")

    def end(self, job, state):
        """Waits for the end, which must be this one. Returns what Slurm says of the job."""
        job = self.wait(job, *ENDED)
        self.assertEqual(job["JobState"], state, self.log())
        return job

    def lines(self):
        records = self.out / "records.jsonl"
        return records.read_text().splitlines() if records.exists() else []

    def signal_after_a_point(self, job):
        """SIGUSR1 to the batch shell alone, as --signal=B:USR1@120 sends it when the time is nearly over."""
        self.assertTrue(eventually(lambda: self.lines() or self.cluster.state(job) in ENDED), self.log())
        self.cluster.run("scancel", "--signal=USR1", "--batch", job)

    def assert_valid(self):
        found = tool("validate", self.out / "report.json")
        self.assert_ran(found)
        return codes(validated(self.out / "report.json")["notes"])


class Train(Slurm):
    def two_nodes(self, launcher):
        job = self.submit(SCRIPTS / "train.sbatch", *TINY, "--steps", 3, "--out", "out/r1", TRAINWATT_LAUNCHER=launcher)
        self.end(job, "COMPLETED")
        self.assertEqual(self.assert_valid(), [])
        report = self.report()
        context = report["context"]
        self.assertEqual(context["launcher"], launcher)
        self.assertEqual([host["name"] for host in context["hosts"]], ["node1", "node2"])
        self.assertEqual([device["host"] for device in context["devices"]], ["node1", "node2"])
        self.assertEqual([record["workload"]["ranks"] for record in report["records"]], [2])
        recorded = context["environment"]
        self.assertEqual(recorded["SLURM_JOB_ID"], str(job))
        self.assertEqual(recorded["SLURM_JOB_NUM_NODES"], "2")
        self.assertIn(f"job {job}, launch 1 on node[1-2]: {launcher} ", self.log())

    def test_srun_over_two_nodes(self):
        self.two_nodes("srun")

    def test_mpirun_over_two_nodes(self):
        self.two_nodes("mpirun")

    def test_a_run_that_is_cut_short_waits_for_its_user(self):
        job = self.submit(SCRIPTS / "train.sbatch", *SWEEP)
        self.out = self.work / "out" / f"trainwatt-{job}"
        self.signal_after_a_point(job)
        ended = self.end(job, "FAILED")
        self.assertEqual((ended["ExitCode"], ended["Restarts"]), ("5:0", "0"))
        self.assertIn(f"submit it again with --resume out/trainwatt-{job}", self.log())
        self.assertIn("points_missing", self.assert_valid())

    def test_what_is_wrong_is_said(self):
        copy = self.work / "copy.sbatch"
        copy.write_text((SCRIPTS / "train.sbatch").read_text())
        taken = self.work / "taken"
        taken.mkdir()
        train, mpirun = SCRIPTS / "train.sbatch", {"TRAINWATT_LAUNCHER": "mpirun"}
        for code, words, script, args, env in (
                (3, ["error[program-missing]: no scripts/slurm/launch", "TRAINWATT_ROOT"], copy, [], {}),
                (3, ["error[program-missing]", "/nowhere", "TRAINWATT_BIN"], train, [], {"TRAINWATT_BIN": "/nowhere"}),
                (3, ["error[launcher-mismatch]", "--mpi=pmi9", "pmix", "TRAINWATT_LAUNCHER=mpirun"], train, [], {"SLURM_MPI_TYPE": "pmi9"}),
                (2, ["error[unknown-name]", "TRAINWATT_LAUNCHER=slurm", "srun or mpirun"], train, [], {"TRAINWATT_LAUNCHER": "slurm"}),
                (2, ["error[options-conflict]", "--out or --resume"], train, ["--out", "a", "--resume=b"], {}),
                (2, ["error[bad-value]", "--out"], train, ["--out"], {}),
                (2, ["error[unknown-option]", "--stepps", "--steps"], train, [*TINY, "--stepps", 3, "--out", "x"], {}),
                (2, ["error[file-exists]"], train, [*TINY, "--steps", 3, "--out", "taken"], mpirun),
        ):
            with self.subTest(words):
                (self.work / "log").unlink(missing_ok=True)
                ended = self.end(self.submit(script, *args, **env), "FAILED")
                self.assertEqual(ended["ExitCode"], f"{code}:0", self.log())
                for word in words:
                    self.assertIn(word, self.log())
        self.assertEqual(sorted(path.name for path in self.work.iterdir()), ["copy.sbatch", "log", "taken"])
        job = self.submit(copy, *TINY, "--steps", 3, "--out", "out/r1", TRAINWATT_ROOT=SCRIPTS.parents[1])
        self.end(job, "COMPLETED")
        self.assert_valid()


class Sweep(Slurm):
    def queued_again(self, launcher):
        job = self.submit(SCRIPTS / "sweep.sbatch", *SWEEP, "--out", "out/r1", TRAINWATT_LAUNCHER=launcher)
        self.signal_after_a_point(job)
        # A second one does no harm; it may come too late, which scancel then says.
        self.cluster.run("scancel", "--signal=USR1", "--batch", job, check=False)
        requeued = self.wait(job, "PENDING", *ENDED)
        self.assertEqual((requeued["JobState"], requeued["Restarts"]), ("PENDING", "1"), self.log())
        before = self.lines()
        self.assertIn(len(before), range(1, POINTS))
        self.assertIn("points_missing", self.assert_valid())
        partial = self.report()
        self.assertEqual([json.loads(line) for line in before], partial["records"])
        self.assertIn(f"interrupted after {len(before)} finished points in this launch: job {job} is requeued",
                      self.log())
        self.cluster.start_now(job)
        self.assertEqual(self.end(job, "COMPLETED")["Restarts"], "1")
        self.assertEqual(self.assert_valid(), [], "no point is missing")
        self.assertEqual(self.lines()[:len(before)], before, "what was finished is kept byte for byte")
        report = self.report()
        self.assertEqual([json.loads(line) for line in self.lines()], report["records"])
        self.assertEqual(len({record["id"] for record in report["records"]}), POINTS)
        for line in before:
            self.assertEqual(self.log().count(json.loads(line)["id"] + ": setting up"), 1, "measured once")
        self.assertEqual([len(part["points"]) for part in report["parts"]], [len(before), POINTS - len(before)])
        contexts = [report["parts"][0]["context"], report["context"]]
        self.assertEqual([context["launcher"] for context in contexts], [launcher] * 2)
        environments = [context["environment"] for context in contexts]
        self.assertEqual([one["SLURM_JOB_ID"] for one in environments], [str(job)] * 2)
        self.assertEqual([one.get("SLURM_RESTART_COUNT") for one in environments], [None, "1"])

    def test_srun_is_queued_again_and_resumes(self):
        self.queued_again("srun")

    def test_mpirun_is_queued_again_and_resumes(self):
        self.queued_again("mpirun")

    def test_a_launch_that_finished_no_point_is_not_queued_again(self):
        job = self.submit(SCRIPTS / "sweep.sbatch", *TINY, "--window", 600, "--out", "out/r1")
        self.assertTrue(eventually((self.out / "run.json").exists), self.log())
        self.cluster.run("scancel", "--signal=USR1", "--batch", job)
        ended = self.end(job, "FAILED")
        self.assertEqual((ended["ExitCode"], ended["Restarts"]), ("5:0", "0"))
        self.assertIn("this launch finished no point", self.log())
        self.assertIn("--resume out/r1", self.log())

    def test_a_cancelled_sweep_is_not_queued_again(self):
        job = self.submit(SCRIPTS / "sweep.sbatch", *SWEEP, "--out", "out/r1")
        self.assertTrue(eventually(self.lines), self.log())
        self.cluster.run("scancel", job)
        self.assertEqual(self.end(job, "CANCELLED")["Restarts"], "0")
        self.assertTrue(eventually(lambda: not slurm_cluster.processes("trainwatt-train")))
        self.assert_ran(tool("validate", self.out / "records.jsonl"))
        self.assertEqual(self.cluster.state(job), "CANCELLED")

    def test_srun_that_launched_nothing_is_not_believed(self):
        (self.work / "srun").write_text('#!/bin/sh\n[ "$1" = --mpi=list ] && echo pmix\nexit 0\n')
        (self.work / "srun").chmod(0o755)
        job = self.submit(SCRIPTS / "sweep.sbatch", *SWEEP, "--out", "out/r1", PATH=f"{self.work}:{os.environ['PATH']}")
        self.assertEqual(self.end(job, "FAILED")["ExitCode"], "3:0")
        self.assertIn("exited with 0, but", self.log())


class EarlySignal(Slurm):
    def test_one_launch_without_a_point_does_not_end_the_sweep(self):
        job = self.submit(SCRIPTS / "sweep.sbatch", *SWEEP[:-3], 3, *SWEEP[-2:], "--out", "out/r1")
        self.signal_after_a_point(job)
        self.cluster.start_now(job)
        before, begun = self.lines(), self.log().count(": setting up")
        self.assertIn(len(before), range(1, POINTS))
        # Slurm may signal up to a minute early: here before the launch has finished a point, in which it is held.
        self.assertTrue(eventually(lambda: self.log().count(": setting up") > begun or self.cluster.state(job) in ENDED)
                        and self.cluster.state(job) not in ENDED, self.log())
        ranks = slurm_cluster.processes("trainwatt-train")
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        self.cluster.run("scancel", "--signal=USR1", "--batch", job)
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        self.cluster.start_now(job)
        self.assertEqual(self.cluster.job(job)["Restarts"], "2", self.log())
        self.assertEqual(self.lines(), before)
        self.assertEqual(self.end(job, "COMPLETED")["Restarts"], "2")
        self.assertEqual(self.assert_valid(), [], "no point is missing")
        self.assertFalse((self.out / "launch-without-point").exists())


class Elements(Slurm):
    """Elements of an array take a node each; the last of them to start has the array's own job id."""
    script = ""

    def array(self, tasks, *args, folder=("--out", "out/r1")):
        """Submits the script as an array of these tasks; the names of its elements."""
        text = self.cluster.run("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=1", f"--array={','.join(map(str, tasks))}",
                                "--output=log", SCRIPTS / self.script, *args, *folder, cwd=self.work).stdout
        return [f"{int(text)}_{task}" for task in tasks]

    def element(self, task):
        return self.work / "out" / "r1" / str(task)

    def lines_of(self, task):
        records = self.element(task) / "records.jsonl"
        return records.read_text().splitlines() if records.exists() else []

    def assert_complete(self, task):
        found = tool("validate", self.element(task) / "report.json")
        self.assert_ran(found)
        return self.report(self.element(task))

    def three_elements(self):
        elements = self.array(range(3), *TINY, "--steps", 3)
        for element in elements:
            self.end(element, "COMPLETED")
        reports = [self.assert_complete(task) for task in range(3)]
        tasks = [report["context"]["environment"]["SLURM_ARRAY_TASK_ID"] for report in reports]
        self.assertEqual(tasks, ["0", "1", "2"])
        self.assertEqual(len({report["context"]["launch"] for report in reports}), 3)
        self.assertEqual(sorted(path.name for path in (self.work / "out" / "r1").iterdir()), ["0", "1", "2"])
        self.assertFalse([name for name in os.listdir(self.work / "out") if name != "r1"])

    def two_that_run(self):
        """The elements of an array of two that have each finished a point, and the task of that whose job id is the array's."""
        elements = self.array(range(2), *SWEEP)
        ids = None

        def both_run():
            nonlocal ids
            ids = [self.cluster.job(element)["JobId"] for element in elements]
            return all(self.lines_of(task) for task in range(2))
        self.assertTrue(eventually(both_run), self.log())
        return elements, ids.index(elements[0].split("_")[0])

    def assert_untouched(self, element, task):
        self.assertEqual(self.end(element, "COMPLETED")["Restarts"], "0")
        report = self.assert_complete(task)
        self.assertIsNone(report["parts"], "one launch")
        self.assertEqual(len(report["records"]), POINTS)

    def assert_resumed(self, task, before):
        self.assertEqual(self.lines_of(task)[:len(before)], before, "what was finished is kept byte for byte")
        parts = self.assert_complete(task)["parts"]
        self.assertEqual([len(part["points"]) for part in parts], [len(before), POINTS - len(before)])


class Array(Elements):
    script = "sweep.sbatch"

    def test_three_elements_share_one_folder(self):
        self.three_elements()

    def test_one_element_is_queued_again_alone(self):
        elements, again = self.two_that_run()
        healthy = 1 - again
        self.cluster.run("scancel", "--signal=USR1", "--batch", elements[again])
        requeued = self.wait(elements[again], "PENDING", *ENDED)
        self.assertEqual((requeued["JobState"], requeued["Restarts"]), ("PENDING", "1"), self.log())
        before = self.lines_of(again)
        self.assert_untouched(elements[healthy], healthy)
        self.cluster.start_now(elements[again])
        self.assertEqual(self.end(elements[again], "COMPLETED")["Restarts"], "1")
        self.assert_resumed(again, before)

    def test_one_element_is_cancelled_alone(self):
        elements = self.array(range(3), *SWEEP)
        self.assertTrue(eventually(lambda: self.lines_of(1)), self.log())
        self.cluster.run("scancel", elements[1])
        self.assertEqual(self.end(elements[1], "CANCELLED")["Restarts"], "0")
        for task in (0, 2):
            self.assert_untouched(elements[task], task)
        self.assertEqual(self.cluster.state(elements[1]), "CANCELLED")


class TrainArray(Elements):
    script = "train.sbatch"

    def test_three_elements_share_one_folder(self):
        self.three_elements()

    def test_one_element_is_cut_short_alone_and_submitted_again(self):
        elements, cut = self.two_that_run()
        self.cluster.run("scancel", "--signal=USR1", "--batch", elements[cut])
        ended = self.end(elements[cut], "FAILED")
        self.assertEqual((ended["ExitCode"], ended["Restarts"]), ("5:0", "0"))
        self.assertIn(f"submit it again with --array={cut} and --resume out/r1\n", self.log())
        before = self.lines_of(cut)
        self.assertIn(len(before), range(1, POINTS))
        self.assert_untouched(elements[1 - cut], 1 - cut)
        [again] = self.array([cut], *SWEEP, folder=("--resume", "out/r1"))
        self.end(again, "COMPLETED")
        self.assert_resumed(cut, before)

    def test_one_element_that_slurm_queues_again_resumes_alone(self):
        elements, again = self.two_that_run()
        self.cluster.run("scontrol", "requeue", elements[again])  # as after a node failure
        self.wait(elements[again], "PENDING")
        self.assert_untouched(elements[1 - again], 1 - again)
        before = self.lines_of(again)
        self.cluster.start_now(elements[again])
        self.assertEqual(self.end(elements[again], "COMPLETED")["Restarts"], "1")
        self.assert_resumed(again, before)


class Repeat(Slurm):
    """Several runs in one job."""

    def records(self):
        return sum(path.read_text().count("\n") for path in self.out.glob("run-*/records.jsonl"))

    def test_runs_go_on_after_the_job_is_queued_again(self):
        job = self.submit(SCRIPTS / "sweep.sbatch", *SWEEP, "--repeat", 2, "--out", "out/r1")
        # In the second run: the first is finished by then.
        self.assertTrue(eventually(lambda: self.records() > POINTS or self.cluster.state(job) in ENDED), self.log())
        self.cluster.run("scancel", "--signal=USR1", "--batch", job)
        first = (self.out / "run-1" / "report.json").read_bytes()
        self.cluster.start_now(job)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1", self.log())
        self.assertEqual(self.end(job, "COMPLETED")["Restarts"], "1")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["run-1", "run-2"])
        self.assertEqual((self.out / "run-1" / "report.json").read_bytes(), first, "a finished run is left alone")
        reports = [self.report(self.out / f"run-{index}") for index in (1, 2)]
        self.assertEqual([report["context"]["run_index"] for report in reports], [1, 2])
        self.assertEqual(len({report["plan"]["sha256"] for report in reports}), 1)
        self.assertEqual([len(report["records"]) for report in reports], [POINTS, POINTS])
        self.assertNotEqual(*[[record["id"] for record in report["records"]] for report in reports])
        self.assertIsNone(reports[0]["parts"])
        self.assertEqual(len(reports[1]["parts"]), 2)

    def test_a_kit_says_how_many_and_mpirun_launches_them(self):
        kit = self.work / "kit.json"
        words = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--steps", 3]
        self.assert_ran(tool("freeze", *words, "--repeat", 2, "-o", kit))
        job = self.submit(SCRIPTS / "train.sbatch", "--threads", 1, "--config", "kit.json", "--out", "out/r1",
                          TRAINWATT_LAUNCHER="mpirun")
        self.end(job, "COMPLETED")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["run-1", "run-2"])


class Epilog(Slurm):
    def configuration(self):
        (self.folder / "nvml").mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.gpus = FakeGpus(self.folder / "nvml", 1)
        self.journal = self.folder / "run" / "trainwatt" / "settings.json"
        self.env = {**self.gpus.environment, "TRAINWATT_RUN_DIR": self.journal.parent}
        epilog = self.folder / "epilog"
        lines = [f"export {name}='{value}'" for name, value in {**self.env, "TRAINWATT_BIN": BIN}.items()]
        epilog.write_text("\n".join(["#!/bin/sh", *lines, f"exec '{SCRIPTS}/epilog.sh'", ""]))
        epilog.chmod(0o755)
        return f"Epilog={epilog}"

    def test_what_run_and_guardian_have_left_is_put_back(self):
        job = self.submit(SCRIPTS / "train.sbatch", "--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--gpu-clock", 1305,
                          "--window", 600, "--out", "out/r1", options=["--nodes=1"], **self.env)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [1305] or self.cluster.state(job) in ENDED))
        self.assertTrue(self.journal.exists(), self.log())
        both = slurm_cluster.processes("trainwatt-train")
        guardians = [process for rank in both for process in children_of(rank, "trainwatt-train")]
        self.assertEqual((len(both), len(guardians)), (2, 1))
        for process in (*guardians, *set(both).difference(guardians)):
            os.kill(process, signal.SIGKILL)
        self.end(job, "FAILED")
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [0] and not self.journal.exists()))


if __name__ == "__main__":
    unittest.main()
