"""scripts/repeat: several runs of one plan, each launched anew, in one folder."""
import json
import pathlib
import shutil
import signal
import subprocess
import unittest

from kit_test import packed, unpacked
from support import BIN, HANG, Case, environment, eventually, mpirun, run, said_codes, tool

REPEAT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "repeat"
POINTS = 3
TINY = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--threads", 1, "--accumulate", "1,2,3"]
FEW = [*TINY, "--steps", 3]
# Points of a second or more: a signal that comes after the first finds the run in one of the next.
LONG = [*TINY, "--window", 1, "--trials", 1]


class Repeat(Case):
    def words(self, count, *args, launcher=()):
        number = [] if count is None else [str(count)]
        return [str(REPEAT), *number, "--", *launcher, str(BIN / "trainwatt-train"), *map(str, args)]

    def repeat(self, count, *args, launcher=(), **env):
        return subprocess.run(self.words(count, *args, launcher=launcher), capture_output=True, text=True, timeout=HANG,
                              env=environment(**env), cwd=self.folder)

    def reports(self, count):
        return [self.report(self.out / f"run-{index}") for index in range(1, count + 1)]

    def test_several_runs_in_one_folder(self):
        self.assert_ran(self.repeat(2, *FEW, "--out", self.out, launcher=mpirun(2)))
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["run-1", "run-2"])
        first = {path: path.read_bytes() for path in self.out.glob("run-*/*")}
        # More runs: those that are there stay as they are.
        self.assert_ran(self.repeat(3, *FEW, "--out", f"{self.out}/", launcher=mpirun(2)))
        for path, content in first.items():
            self.assertEqual(path.read_bytes(), content, path)
        reports = self.reports(3)
        self.assertEqual([report["context"]["run_index"] for report in reports], [1, 2, 3])
        self.assertEqual(len({report["context"]["launch"] for report in reports}), 3)
        self.assertEqual(len({report["plan"]["canonical_json"] for report in reports}), 1)
        orders = [tuple(record["id"] for record in report["records"]) for report in reports]
        self.assertEqual(len(set(orders)), 3, "each run has its own order")
        self.assertEqual(len({frozenset(order) for order in orders}), 1)
        losses = [{record["id"]: record["trials"][0]["loss"][0] for record in report["records"]} for report in reports]
        for other in losses[1:]:
            for point, loss in other.items():
                self.assertAlmostEqual(loss, losses[0][point], delta=1e-4 * loss, msg="the same weights and data")
        for index in range(1, 4):
            self.assert_ran(tool("validate", self.out / f"run-{index}" / "report.json"))
        # Another plan is refused, and no run is added.
        other = self.repeat(4, *FEW, "--seed", 2, "--out", self.out, launcher=mpirun(2))
        self.assert_ran(other, 2)
        self.assertFalse((self.out / "run-4").exists())

    def goes_on_after(self, number, launcher):
        command = self.words(2, *LONG, "--out", self.out, launcher=launcher)
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=environment(), start_new_session=True)
        self.addCleanup(self.end, process)
        records = self.out / "run-1" / "records.jsonl"
        self.assertTrue(eventually(lambda: process.poll() is not None or records.exists()))
        process.send_signal(number)
        text, _ = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 5, text)
        self.assertFalse((self.out / "run-2").exists(), "no other run is started")
        before = records.read_text()
        self.assertIn(before.count("\n"), range(1, POINTS))
        self.assert_ran(self.repeat(2, *LONG, "--out", self.out, launcher=launcher))
        self.assertTrue(records.read_text().startswith(before), "what was finished is kept byte for byte")
        first, second = self.reports(2)
        self.assertEqual(len(first["parts"]), 2)
        self.assertIsNone(second["parts"])

    def test_the_same_command_goes_on_after_a_signal(self):
        self.goes_on_after(signal.SIGTERM, ())

    def test_the_same_command_goes_on_after_ctrl_c_of_mpirun(self):
        self.goes_on_after(signal.SIGINT, mpirun(2))

    def test_the_number_is_the_kits(self):
        kit = self.folder / "kit.json"
        words = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--steps", 3]
        self.assert_ran(tool("freeze", *words, "--repeat", 2, "-o", kit))
        self.assertEqual(json.loads(kit.read_text())["config"]["repeat"], 2)
        self.assertEqual(json.loads(tool("plan", "--config", kit, "--json").stdout)["runs"], 2)
        self.assert_ran(self.repeat(None, "--config", kit, "--threads", 1, "--out", self.out))
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["run-1", "run-2"])
        for index in (1, 2):
            process = tool("validate", self.out / f"run-{index}" / "report.json", "--kit", kit, "--json")
            self.assert_ran(process, 1)  # of an offer the rules count, and 3 steps are no window
            faults = json.loads(process.stdout)["files"][0]["faults"]
            self.assertEqual({fault["code"] for fault in faults}, {"rule_broken"})
        # A single run of it has the same plan.
        self.assert_ran(run("--config", kit, "--threads", 1, "--out", self.folder / "one"))
        one = self.report(self.folder / "one")
        self.assertEqual(one["plan"], self.reports(1)[0]["plan"])
        self.assertIsNone(one["context"]["run_index"])

    def test_runs_are_handed_in_as_one_offer(self):
        kit, offer = self.folder / "kit.json", self.folder / "offer.tar.zst"
        words = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--accumulate", "1,2", "--steps", 3]
        self.assert_ran(tool("freeze", *words, "--repeat", 3, "-o", kit))
        self.assert_ran(self.repeat(2, "--config", kit, "--threads", 1, "--out", self.out))

        def findings(folder, *more):
            """Codes of what is wrong with the runs of an offer together."""
            offer.unlink(missing_ok=True)
            self.assert_ran(tool("bundle", folder, "-o", offer, *more))
            process = tool("validate", offer, "--kit", kit, "--json")
            self.assert_ran(process, 1)  # steps instead of windows break a rule in any case
            codes = {fault["code"] for file in json.loads(process.stdout)["files"] for fault in file["faults"]}
            return codes & {"other_plan", "same_launch", "same_order", "run_left_out", "fewer_runs"}
        self.assertEqual(findings(self.out), {"fewer_runs"})
        self.assert_ran(self.repeat(None, "--config", kit, "--threads", 1, "--out", self.out))
        self.assertEqual(findings(self.out), set())
        self.assertIn("run-3", tool("validate", offer, "--kit", kit).stdout)
        # An archive without one of its runs: those behind it belong to no series of one run.
        torn = self.folder / "torn.tar.zst"
        files = unpacked(offer)
        packed(torn, [(name, content) for name, content in files.items() if not name.endswith("run-2.tar.zst")])
        faults = [fault for file in json.loads(tool("validate", torn, "--json").stdout)["files"] for fault in file["faults"]]
        self.assertIn(("bundle_file", "run-3.tar.zst"), [(fault["code"], fault["file"]) for fault in faults])
        # Whoever bought it compares it as it was handed in.
        again = self.folder / "again.tar.zst"
        shutil.copy(offer, again)
        compared = tool("compare", f"A={offer}", f"B={again}", "--json")
        self.assert_ran(compared, 4)  # of the same runs
        compared = json.loads(compared.stdout)
        self.assertEqual([len(system["files"]) for system in compared["systems"]], [3, 3])
        self.assertNotEqual(compared["replicates"], "trials")
        self.assertEqual(findings(self.out / "run-1"), {"fewer_runs"})
        # The better runs of more than are handed in, under their own names and renamed.
        best = self.folder / "best"
        for name in ("run-1", "run-3"):
            shutil.copytree(self.out / name, best / name)
        refused = tool("bundle", best, "-o", self.folder / "refused")
        self.assert_ran(refused, 2)
        self.assertEqual(said_codes(refused.stderr), ["runs-missing"])
        (best / "run-3").rename(best / "run-2")
        self.assert_ran(tool("bundle", best, "-o", self.folder / "refused"), 1)
        self.assertEqual(findings(best, "--force"), {"run_left_out", "fewer_runs"})
        # A run twice, and one of another plan.
        copy = self.folder / "copy"
        shutil.copytree(self.out, copy)
        shutil.rmtree(copy / "run-3")
        shutil.copytree(copy / "run-1", copy / "run-3")
        self.assert_ran(tool("bundle", copy, "-o", self.folder / "refused"), 1)
        self.assertEqual(findings(copy, "--force"), {"same_launch", "same_order", "run_left_out"})
        shutil.rmtree(copy / "run-3")
        self.assert_ran(run(*FEW, "--out", copy / "run-3"))
        self.assertIn("other_plan", findings(copy, "--force"))
        # As a report it is none: it holds several.
        shown = tool("show", offer)
        self.assert_ran(shown, 2)

    def test_what_measures_nothing_is_launched_once(self):
        for words in (("--repeat", 3, "--dry-run"), ("--dry-run", "--repeat=3")):
            with self.subTest(words):
                process = self.repeat(None, *FEW, *words, "--out", self.out)
                self.assert_ran(process)
                self.assertIn(f"repeat: 3 runs in {self.out}, ", process.stdout)
                commands = [line.split() for line in process.stdout.splitlines() if "--run-index" in line]
                self.assertEqual([line[-4:] for line in commands],
                                 [["--resume", f"{self.out}/run-{n}", "--run-index", str(n)] for n in (1, 2, 3)])
                for line in commands:
                    self.assertNotIn("--dry-run", line, "this is what measures")
        self.assert_ran(self.repeat(3, "--help"))
        many = self.repeat(40, *FEW, "--dry-run", "--out", self.out)
        self.assert_ran(many)
        self.assertIn("40 times in all", many.stdout)
        shown = [line.split()[-1] for line in many.stdout.splitlines() if "--run-index" in line]
        self.assertEqual(shown, ["1", "2", "3", "40"])
        self.assert_ran(self.repeat(None, *FEW, "--dry-run", "--out", self.out), 2)  # as without --dry-run
        self.assertFalse(self.out.exists())

    def test_a_signal_in_the_last_run(self):
        """That was told to end and has all its points: the series ends with the code of its runs."""
        whole = self.folder / "whole"
        self.assert_ran(run(*FEW, "--out", whole))
        (self.folder / "trainwatt").symlink_to(BIN / "trainwatt")
        stand_in = self.folder / "trainwatt-train"
        stand_in.write_text("""#!/bin/sh
passed_on=
trap 'passed_on=yes' TERM
while [ "$1" != --resume ]; do shift; done
mkdir -p "$2" && cp "$REPORT" "$2/report.json"
if [ "$4" = 2 ]; then
  kill -TERM $PPID
  while [ -z "$passed_on" ]; do sleep 0.05; done
fi
exit $CODE
""")
        stand_in.chmod(0o755)
        broken = self.folder / "broken.json"
        broken.write_text("{}")
        for report, code, wanted in ((whole / "report.json", 0, 0), (whole / "report.json", 1, 1), (whole / "report.json", 4, 4),
                                     (whole / "report.json", 5, 5), (broken, 1, 5), (broken, 4, 5)):
            with self.subTest(report=report.name, code=code):
                done = subprocess.run([REPEAT, "2", "--", stand_in, *TINY[:2], "--out", self.folder / f"{report.stem}-{code}"],
                                      capture_output=True, text=True, env=environment(CODE=code, REPORT=report), timeout=HANG)
                self.assert_ran(done, wanted)

    def test_codes(self):
        """Of runs that end with these codes: what the series ends with, and how many it makes."""
        stand_in = self.folder / "trainwatt-train"
        stand_in.write_text("""#!/bin/sh
while [ "$1" != --resume ]; do shift; done
mkdir -p "$2" && echo {} >"$2/report.json"
index=$4
set -- $CODES
shift $((index - 1))
exit $1
""")
        stand_in.chmod(0o755)
        for codes, code, made in (((0, 0, 0), 0, 3), ((0, 1, 0), 1, 3), ((4, 1, 0), 4, 3), ((0, 3, 0), 3, 2),
                                  ((2, 0, 0), 2, 1), ((1, 5, 0), 5, 2), ((0, 143, 0), 143, 2)):
            with self.subTest(codes):
                out = self.folder / "-".join(map(str, codes))
                done = subprocess.run([REPEAT, "3", "--", stand_in, *TINY[:2], "--out", out], capture_output=True, text=True,
                                      env=environment(CODES=" ".join(map(str, codes))), timeout=HANG)
                self.assert_ran(done, code)
                self.assertEqual(len(list(out.iterdir())), made)
                self.assertEqual("error[run-failed]: " in done.stderr, made < 3 or codes == (0, 3, 0), done.stderr)
        # Runs that other programs disturbed are counted once, at the end.
        stand_in.write_text("""#!/bin/sh
while [ "$1" != --resume ]; do shift; done
mkdir -p "$2" && printf '"flags": [\\n  "steps_given",\\n  "busy_host"\\n],\\n' >"$2/report.json"
""")
        done = subprocess.run([REPEAT, "3", "--", stand_in, *TINY[:2], "--out", self.folder / "busy"], capture_output=True,
                              text=True, env=environment(), timeout=HANG)
        self.assert_ran(done)
        self.assertEqual(done.stdout.count("3 of 3 runs"), 1, done.stdout)
        # A launcher that ends with 0 and has launched nothing.
        idle = self.folder / "idle"
        idle.write_text("#!/bin/sh\n")
        idle.chmod(0o755)
        self.assert_ran(subprocess.run([REPEAT, "2", "--", idle, stand_in, *TINY[:2], "--out", self.out], capture_output=True,
                                       text=True, timeout=HANG), 3)
        self.assertFalse(self.out.exists(), "nothing stays of it")

    def test_what_cannot_start_or_run_is_told_apart(self):
        for words in (["2", "--", "no-such-launcher", "-np", "2", BIN / "trainwatt-train", *FEW, "--out", self.out],
                      ["2", "--", self.folder / "trainwatt-train", *FEW, "--out", self.out]):
            process = subprocess.run([str(REPEAT), *map(str, words)], capture_output=True, text=True, env=environment(), timeout=HANG)
            self.assert_ran(process, 3)
            self.assertRegex(process.stderr, r"^repeat: error\[program-missing\]: ")
            self.assertFalse(self.out.exists())
        process = self.repeat(2, *FEW, "--device", "cpu", "--precision", "fp16", "--out", self.out)
        self.assert_ran(process, 3)
        self.assertEqual(said_codes(process.stderr), ["unsupported"])
        self.assertIn("repeat: error[run-failed]: run 1 of 2 ", process.stderr)
        self.assertNotIn("same command again to continue", process.stderr, "it would end as this one")
        self.assertFalse(self.out.exists())

    def test_the_runs_that_are_there_are_counted(self):
        self.assert_ran(self.repeat(2, *FEW, "--out", self.out))
        for path in self.out.glob("run-*/report.json"):
            path.write_text(path.read_text().replace('"steps_given"', '"steps_given", "busy_host"'))
        process = self.repeat(3, *FEW, "--dry-run", "--out", self.out)
        self.assert_ran(process)
        self.assertIn("--run-index 3", process.stdout)
        stand_in = self.folder / "trainwatt-train"
        stand_in.write_text("#!/bin/sh\n")  # of complete runs
        stand_in.chmod(0o755)
        again = [str(REPEAT), "1", "--", str(stand_in), "--out", str(self.out)]
        process = subprocess.run(again, capture_output=True, text=True, env=environment(), timeout=HANG)
        self.assert_ran(process)
        self.assertIn("1 of 1 runs", process.stdout)
        self.assertIn(f"{self.out} contains 2 runs", process.stdout)

    def test_a_dry_run_and_a_gap(self):
        self.assert_ran(self.repeat(3, *FEW, "--out", self.out))

        def to_launch(count):
            process = self.repeat(count, *FEW, "--dry-run", "--out", self.out)
            self.assert_ran(process)
            return [line.split()[-1] for line in process.stdout.splitlines() if "--run-index" in line]
        self.assertEqual(to_launch(3), [], "as the same command measures nothing")
        self.assertEqual(to_launch(4), ["4"])
        # What is missing is made by the same command, whichever it is.
        shutil.rmtree(self.out / "run-1")
        self.assertEqual(to_launch(3), ["1"])
        other = self.folder / "other.json"
        other.write_bytes((self.out / "run-2" / "report.json").read_bytes())
        refused = tool("compare", self.out, other)
        self.assert_ran(refused, 2)
        self.assertEqual(said_codes(refused.stderr), ["runs-missing"])
        self.assert_ran(self.repeat(3, *FEW, "--out", self.out))
        self.assertEqual([report["context"]["run_index"] for report in self.reports(3)], [1, 2, 3])

    def test_messages_name_a_command_that_is_there(self):
        process = subprocess.run([BIN / "trainwatt-repeat", "--help"], capture_output=True, text=True, timeout=HANG)
        self.assert_ran(process)
        self.assertIn("trainwatt-repeat 5 -- ", process.stdout)

    def test_wrong_calls(self):
        self.assert_one_line_error(run(*FEW, "--repeat", 3, "--out", self.out), 2, "error[repeat-by-script]: ",
                                   "trainwatt-repeat 3 -- ")
        single = self.folder / "single"
        self.assert_ran(run(*FEW, "--out", single))
        other = self.folder / "other"
        other.mkdir()
        (other / "notes").touch()
        kit = self.folder / "kit.json"
        self.assert_ran(tool("freeze", "--model", "gpt2-tiny", "--steps", 3, "--repeat", 2, "-o", kit))
        for words in ([], ["2"], ["2", "--"], ["2", "--", "true"],
                      self.words("many", *FEW)[1:], self.words(0, *FEW)[1:],
                      self.words(1001, *FEW)[1:], self.words(None, *FEW)[1:], self.words(2, *FEW, "--repeat", 3)[1:],
                      self.words(2, *FEW, "--run-index", 1)[1:], self.words(2, *FEW, "--out")[1:], self.words(2)[1:],
                      self.words(2, *FEW, "--out", self.out, "--resume", self.out)[1:],
                      self.words(2, *FEW, "--out", single)[1:], self.words(2, *FEW, "--out", other)[1:],
                      self.words(2, "--model", "gpt3", "--out", self.out)[1:],
                      self.words(None, "--config", kit, "--seed", 2, "--out", self.out)[1:]):
            with self.subTest(words):
                done = subprocess.run([str(REPEAT), *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                                      env=environment(), timeout=HANG)
                self.assert_ran(done, 2)
                self.assertRegex(done.stderr, r"(?m)^(?:repeat|trainwatt|trainwatt-train): error\[[a-z-]+\]: ")
                self.assertFalse(self.out.exists(), "nothing stays of a wrong call")
        self.assertFalse((self.folder / "out").exists())
        # A run goes on as the run that it was.
        self.assert_ran(self.repeat(1, *FEW, "--out", self.out))
        (self.out / "run-1" / "report.json").unlink()
        self.assert_ran(run(*FEW, "--resume", self.out / "run-1", "--run-index", 2), 2)


if __name__ == "__main__":
    unittest.main()
