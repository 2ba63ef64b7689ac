"""Runs to a target, as a user starts them."""
import unittest

from support import Case, run, tool


class Converge(Case):
    def record(self, out):
        self.assert_ran(tool("validate", out / "report.json"))
        return self.report(out)["records"][0]

    def test_a_task_reaches_its_target(self):
        process = run("--model", "resnet-tiny", "--target", "default", "--seeds", 1, "--out", self.out, ranks=2, timeout=58)
        self.assert_ran(process)
        record = self.record(self.out)
        self.assertEqual(record["verdict"]["status"], "valid", record["verdict"])
        target, run_ = record["target"], record["trials"][0]["target_run"]
        self.assertEqual(target["task"], "gratings")
        evaluations = run_["evaluations"]
        self.assertGreater(len(evaluations), 2, "reached before it could be seen")
        self.assertGreater(min(e["error"] for e in evaluations[:-1]), target["value"])
        self.assertLessEqual(evaluations[-1]["error"], target["value"])
        self.assertGreater(evaluations[0]["error"], 2 * target["value"], "untrained")
        self.assertEqual(record["summary"]["to_target"]["steps"]["value"], evaluations[-1]["step"])
        shown = tool("show", self.out / "report.json")
        self.assert_ran(shown)
        self.assertIn("gratings: held-out error", shown.stdout)

    def test_ranks_share_the_evaluation(self):
        losses = []
        for ranks in (1, 2):
            out = self.folder / f"np{ranks}"
            # Over the floor by what the first evaluations show: the run is short.
            self.assert_ran(run("--model", "gpt2-tiny", "--target", 1.5, "--seeds", 1, "--threads", 1, "--out", out, ranks=ranks))
            record = self.record(out)
            self.assertEqual(record["workload"]["global_batch"], 32)
            losses.append([e["loss"] for e in record["trials"][0]["target_run"]["evaluations"]])
        self.assertEqual(len(losses[0]), len(losses[1]))
        for one, two in zip(*losses):
            # Gradients summed in another order, amplified from step to step.
            self.assertLess(abs(one - two) / one, 1e-3, losses)


if __name__ == "__main__":
    unittest.main()
