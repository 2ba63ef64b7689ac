"""A network of a file of layers, trained to the target of the task in that file."""
import hashlib
import json
import pathlib
import unittest

from support import Case, codes, run, said_codes, tool, validated

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "models" / "custom" / "examples"
CLASSIFIER = json.loads((EXAMPLES / "image-classifier.json").read_text())
# Both are reached in few steps: one token of context, and the last value.
TOKENS = {"name": "one-token", "input": {"kind": "tokens", "vocabulary": 16, "longest_sequence": 16},
          "optimizer": {"learning_rate": 0.03, "weight_decay": 0},
          "layers": [{"layer": "embedding", "channels": 16}, {"layer": "loss", "per": "position"}],
          "task": {"global_batch": 16, "target": 0.6, "held_out_samples": 64, "evaluation_interval": 5, "most_steps": 300}}
SERIES = {"name": "last-value", "input": {"kind": "series", "variables": 2, "longest_sequence": 16},
          "optimizer": {"learning_rate": 0.03, "weight_decay": 0},
          "layers": [{"layer": "linear", "channels": 2}, {"layer": "mean_squared_error", "per": "position"}],
          "task": {"name": "steps-ahead", "global_batch": 16, "target": 0.4, "held_out_samples": 64, "evaluation_interval": 5, "most_steps": 300,
                   "schedule": {"decay_steps": 200}, "extrapolated_from": "nothing, for this test"}}


class CustomTarget(Case):
    def write(self, content, name="layers.json"):
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def words(self, file, *options):
        return ("--model", "custom", "--layers-file", file, "--threads", 1, *(options or ("--target", "default", "--seeds", 1)))

    def reach(self, file, *options, out=None, ranks=None):
        out = out or self.out
        self.assert_ran(run(*self.words(file, *options), "--out", out, ranks=ranks))
        found = validated(out / "report.json")
        self.assertEqual(found["faults"], [], found)
        [record] = self.report(out)["records"]
        self.assertEqual(record["verdict"]["status"], "valid", record["verdict"])
        return record

    def forged(self, change):
        """What `validate` finds in the report after `change` of its plan and record, whose hash fits again."""
        report = self.report(self.out)
        plan = json.loads(report["plan"]["canonical_json"])
        change(plan, report["records"][0])
        text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        report["plan"].update(canonical_json=text, sha256=hashlib.sha256(text.encode()).hexdigest())
        return codes(validated(self.write(report, "forged.json"))["faults"])

    def test_the_example_reaches_its_target_and_a_forged_one_is_found(self):
        record = self.reach(EXAMPLES / "image-classifier.json", ranks=2)
        target, [run_] = record["target"], [trial["target_run"] for trial in record["trials"]]
        task = CLASSIFIER["task"]
        self.assertEqual([target["task"], target["metric"], target["value"]], ["image-classifier", "error", task["target"]])
        self.assertEqual([target[key] for key in ("held_out_samples", "evaluation_interval", "most_steps")],
                         [task[key] for key in ("held_out_samples", "evaluation_interval", "most_steps")])
        self.assertEqual([target["reference"], target["reference_reason"]], [None, "no reference for this task"])
        self.assertIn("no_reference", record["verdict"]["flags"])
        self.assertEqual(record["workload"]["micro_batch"], CLASSIFIER["micro_batch"])
        errors = [evaluation["error"] for evaluation in run_["evaluations"]]
        self.assertGreater(errors[0], 2 * target["value"], "untrained")
        self.assertGreater(min(errors[:-1]), target["value"])
        self.assertLessEqual(errors[-1], target["value"])
        self.assertEqual(record["summary"]["to_target"]["steps"]["value"], run_["evaluations"][-1]["step"])
        shown = tool("show", self.out / "report.json")
        self.assert_ran(shown)
        self.assertIn("image-classifier: held-out error ≤ 0.02, the best possible is 0,", " ".join(shown.stdout.split()))

        def more_steps(plan, record):
            for target in (plan["points"][0]["target"], record["target"]):
                target["most_steps"] *= 2

        def more_steps_in_the_file(plan, record):
            more_steps(plan, record)
            plan["layers_file"]["task"]["most_steps"] *= 2

        self.assertEqual(self.forged(lambda plan, record: None), [])
        self.assertEqual(self.forged(more_steps), ["task_differs"])
        self.assertEqual(self.forged(more_steps_in_the_file), ["network_differs"])

    def test_tokens_and_numbers_reach_their_targets(self):
        for content, task, words in ((TOKENS, "one-token", "one-token: excess loss ≤ 0.6 nats over a floor of 1."),
                                     (SERIES, "steps-ahead", "steps-ahead: excess loss ≤ 0.4 over a floor of 0.")):
            with self.subTest(task):
                out = self.folder / task
                record = self.reach(self.write(content), "--target", "default", "--seeds", 2, out=out)
                target = record["target"]
                self.assertEqual([target["task"], target["metric"]], [task, "excess_loss"])
                self.assertEqual(target["schedule"]["learning_rate"], 0.03)
                for trial in record["trials"]:
                    losses = [evaluation["loss"] - target["floor"] for evaluation in trial["target_run"]["evaluations"]]
                    self.assertGreater(losses[0], target["value"])
                    self.assertLessEqual(losses[-1], target["value"])
                self.assertEqual(target["extrapolated_from"], content["task"].get("extrapolated_from"))
                self.assertEqual("extrapolated" in record["verdict"]["flags"], content is SERIES)
                shown = tool("show", out / "report.json")
                self.assertIn(words, " ".join(shown.stdout.split()))

    def test_runs_of_one_task_are_compared_and_of_another_are_not(self):
        reports = []
        for name, interval in (("a", 5), ("b", 5), ("c", 10)):
            file = self.write({**TOKENS, "task": {**TOKENS["task"], "evaluation_interval": interval}}, f"{name}.json")
            self.reach(file, "--target", "default", "--seeds", 3, out=self.folder / name)
            reports.append(self.folder / name / "report.json")
        compared = tool("compare", *reports[:2])
        self.assert_ran(compared)
        self.assertIn("to target", compared.stdout)
        self.assert_ran(tool("compare", *reports[1:]), 4)

    def test_plan_models_kit_and_resume_know_the_task(self):
        file, kit = self.write(TOKENS), self.folder / "kit.json"
        options = ("--target", "default", "--seeds", 2)
        planned = tool("plan", "--model", "custom", "--layers-file", file, *options, "--json")
        self.assert_ran(planned)
        [point] = json.loads(planned.stdout)["points"]
        self.assertEqual([point["steps_at_most"], point["steps_likely"]], [2 * TOKENS["task"]["most_steps"], None])
        shown = json.loads(tool("models", "custom", "--layers-file", file, "--json").stdout)
        self.assertEqual([shown["task"]["name"], shown["task"]["target"]], ["one-token", 0.6])
        said = " ".join(tool("models", "custom", "--layers-file", file).stdout.split())
        self.assertIn("to excess loss 0.6 nats per token (one-token), 16 samples per step of 16 tokens", said)
        self.assert_ran(tool("freeze", "--model", "custom", "--layers-file", file, *options, "-o", kit))
        changed = json.loads(file.read_text())
        file.unlink()
        self.assert_ran(run("--config", kit, "--threads", 1, "--out", self.out))
        self.assertEqual(validated(self.out / "report.json")["faults"], [])
        [record] = self.report(self.out)["records"]
        self.assertEqual([record["target"]["task"], len(record["trials"])], ["one-token", 2])
        # A changed task is another run.
        file, out = self.write(changed), self.folder / "again"
        self.assert_ran(run(*self.words(file), "--out", out))
        self.assert_ran(run("--resume", out))
        changed["task"]["most_steps"] = 301
        self.write(changed)
        refused = run("--resume", out)
        self.assert_ran(refused, 2)
        self.assertEqual(said_codes(refused.stderr), ["not-same-run"], refused.stderr)

    def test_what_cannot_be_is_refused(self):
        def with_task(**changes):
            return {**TOKENS, "task": {**TOKENS["task"], **changes}}

        without = {key: value for key, value in TOKENS.items() if key != "task"}
        for code, words, content in (("no-task", 'add the object "task"', without),
                                     ("layers-task", "/task/target: is 3, must be below", with_task(target=3)),
                                     ("layers-missing", "/task: ", {**TOKENS, "task": {"target": 0.6}}),
                                     ("layers-unknown-key", "did you mean 'target'?", with_task(tagret=1))):
            with self.subTest(code):
                file = self.write(content)
                for process in (run(*self.words(file), "--out", self.out), tool("plan", "--model", "custom", "--layers-file", file, "--target", "default")):
                    self.assert_ran(process, 2)
                    self.assertEqual(said_codes(process.stderr), [code], process.stderr)
                    self.assertIn(words, " ".join(process.stderr.split()))


if __name__ == "__main__":
    unittest.main()
