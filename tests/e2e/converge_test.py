"""Runs to a target, as a user starts them."""
import json
import os
import signal
import unittest

from support import HANG, Case, run, said_codes, tool


class Converge(Case):
    def record(self, out):
        self.assert_ran(tool("validate", out / "report.json"))
        return self.report(out)["records"][0]

    def reach(self, model, task, *args):
        """Trains a network on two ranks to the target of its task."""
        process = run("--model", model, "--target", "default", "--seeds", 1, *args, "--out", self.out, ranks=2)
        self.assert_ran(process)
        record = self.record(self.out)
        self.assertEqual(record["verdict"]["status"], "valid", record["verdict"])
        target, run_ = record["target"], record["trials"][0]["target_run"]
        self.assertEqual(target["task"], task)
        evaluations = run_["evaluations"]
        metrics = [e["loss"] - target["floor"] if target["metric"] == "excess_loss" else e["error"] for e in evaluations]
        self.assertGreater(len(metrics), 2, "reached before it could be seen")
        self.assertGreater(min(metrics[:-1]), target["value"])
        self.assertLessEqual(metrics[-1], target["value"])
        self.assertGreater(metrics[0], 2 * target["value"], "untrained")
        self.assertEqual(record["summary"]["to_target"]["steps"]["value"], evaluations[-1]["step"])
        self.assertEqual([target["reference_reason"], target["reference"]["source"][:4]], ["", "JAX "])
        return record

    def shown(self):
        shown = tool("show", self.out / "report.json")
        self.assert_ran(shown)
        return " ".join(shown.stdout.split())

    def test_images_reach_their_target(self):
        self.reach("resnet-tiny", "gratings")
        self.assertIn("gratings: held-out error ≤ 0.02, the best possible is 0,", self.shown())

    def test_images_of_inception_reach_their_target(self):
        self.reach("inception-tiny", "gratings_inception")
        self.assertIn("gratings_inception: held-out error ≤ 0.02, the best possible is 0,", self.shown())

    def test_tokens_of_llama_reach_their_target(self):
        self.reach("llama-tiny", "markov_llama")
        self.assertIn("markov_llama: excess loss ≤ 0.1 nats over a floor of 1.218,", self.shown())

    def test_masked_tokens_reach_their_target(self):
        self.reach("bert-tiny", "masked")
        self.assertIn("masked: excess loss ≤ 0.5 nats over a floor of 2.747,", self.shown())

    def test_clicks_with_tables_on_two_ranks_reach_their_target(self):
        self.reach("dlrm-tiny", "clicks")
        self.assertIn("clicks: held-out error ≤ 0.1, the best possible is 0.07447,", self.shown())

    def test_a_task_that_nobody_has_trained_is_marked(self):
        tasks = json.loads(tool("models", "--json").stdout)["tasks"]
        marked = [task for task in tasks if task["extrapolated_from"]]
        self.assertEqual([task["name"] for task in marked],
                         ["markov_124m", "markov_llama_1b", "masked_large", "gratings_1000", "gratings_inception_1000", "clicks_mlperf"])
        for task in marked:
            self.assertIn("(bench/README.md)", task["extrapolated_from"], "where the derivation is")
        shown = " ".join(tool("models").stdout.split())
        self.assertIn("(markov_124m), 64 samples per step of 1024 tokens; not trained yet, steps extrapolated from gpt2-tiny", shown)
        self.assertEqual(shown.count("not trained yet"), len(marked))
        self.assertIn("(markov_llama_1b), 16 samples per step of 1024 tokens, which have 4096 of the 128256 tokens; not trained yet", shown)
        self.assertEqual({task["name"]: task["drawn_tokens"] for task in tasks if task["drawn_tokens"]}, {"markov_llama_1b": 4096})

    def test_the_suite_of_a_gpu_is_planned_with_its_steps(self):
        planned = tool("plan", "--suite", "convergence", "--device-class", "gpu", "--json")
        self.assert_ran(planned)
        points = {point["id"]: point for point in json.loads(planned.stdout)["points"]}
        large = points["bert-large/bf16/mb64/t512/acc1/np1/to0.5"]
        self.assertEqual([large["steps_at_most"], large["steps_likely"]], [3 * 4000, None])
        self.assertIn("dlrm-r10000000/bf16/mb2048/acc1/np1/to0.058", points)
        self.assertEqual([round(points["gpt2-tiny/bf16/mb32/t32/acc1/np1/to0.1"]["steps_likely"])], [1700])

    def test_a_task_reaches_its_target_in_bf16(self):
        refused = run("--model", "resnet-tiny", "--precision", "bf16", "--export-step", self.folder / "step")
        if refused.returncode == 3:
            self.assertEqual(said_codes(refused.stderr), ["unsupported"])  # this CPU has no bf16
        else:
            self.assertEqual(self.reach("resnet-tiny", "gratings", "--precision", "bf16")["workload"]["precision"], "bf16")

    def test_ranks_share_the_evaluation(self):
        # Targets that the first evaluations show: the runs are short.
        for model, target, global_batch in (("gpt2-tiny", 1.5, 32), ("dlrm-tiny", 0.18, 512)):
            losses = []
            for ranks in (1, 2):
                out = self.folder / f"{model}-np{ranks}"
                self.assert_ran(run("--model", model, "--target", target, "--seeds", 1, "--threads", 1, "--out", out, ranks=ranks))
                record = self.record(out)
                self.assertEqual(record["workload"]["global_batch"], global_batch)
                losses.append([e["loss"] for e in record["trials"][0]["target_run"]["evaluations"]])
            self.assertEqual(len(losses[0]), len(losses[1]), losses)
            for one, two in zip(*losses):
                # Gradients summed in another order, amplified from step to step.
                self.assertLess(abs(one - two) / one, 1e-3, losses)

    def test_ranks_that_do_not_divide_the_held_out_samples_are_refused(self):
        process = run("--model", "dlrm-tiny", "--target", "default", "--micro-batch", 32, "--accumulate", 1, "--out", self.out, ranks=3)
        self.assertEqual(process.returncode, 2, process.stdout + process.stderr)
        self.assertIn("micro-batch 32 × 3 ranks do not divide the 8192 held-out samples of the task clicks", " ".join(process.stderr.split()))

    def test_a_signal_between_seeds_and_the_same_line_again(self):
        """A point that was not finished leaves nothing but a word about it; the next launch trains it with all its seeds."""
        args = ["--model", "gpt2-tiny", "--target", 0.4, "--seeds", 2, "--accumulate", "1,4", "--threads", 1, "--resume", self.out]
        process = self.start(*args)
        self.wait_for_records(process)
        os.kill(process.pid, signal.SIGUSR1)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 5, out + err)
        before = (self.out / "records.jsonl").read_text().splitlines()
        self.assertEqual(len(before), 1)
        report = self.report()
        self.assertEqual(report["records"], [json.loads(before[0])])
        said = report["context"]["warnings"][-1]
        self.assertRegex(said, r"interrupted by a signal( after [01] of 2 seeds)? in gpt2-tiny.*: 1 of 2 points are complete")
        self.assert_ran(tool("validate", self.out / "report.json"))
        self.assert_ran(run(*args))
        report = self.report()
        self.assert_ran(tool("validate", self.out / "report.json"))
        self.assertEqual(report["records"][0], json.loads(before[0]), "what was finished is kept")
        self.assertEqual([len(part["points"]) for part in report["parts"]], [1, 1])
        plan = {point["id"]: point["seeds"] for point in json.loads(report["plan"]["canonical_json"])["points"]}
        self.assertEqual({record["id"]: [trial["target_run"]["seed"] for trial in record["trials"]]
                          for record in report["records"]}, plan)


if __name__ == "__main__":
    unittest.main()
