"""One global batch, however it is split: the same losses within float32 rounding."""
import unittest

from support import Case, run


class SameLosses(Case):
    def losses(self, model, ranks, accumulate, precision="float32", micro=4):
        out = self.folder / f"{model}-np{ranks}-acc{accumulate}"
        process = run("--model", model, "--precision", precision, "--micro-batch", micro, "--accumulate", accumulate, "--steps", 6,
                      "--warmup", 0, "--threads", 1, "--out", out, ranks=ranks)
        self.assert_ran(process)
        return self.report(out)["records"][0]["trials"][0]["loss"]

    def check(self, model):
        one = self.losses(model, 1, 4)
        self.assertEqual(len(one), 6)
        self.assertGreater(max(one) - min(one), 1e-3, "the steps must change the loss, or the comparison says nothing")
        for ranks, accumulate in ((2, 2), (4, 1)):
            split = self.losses(model, ranks, accumulate)
            for step, (a, b) in enumerate(zip(one, split)):
                # Sums in another order; six updates amplify the difference a little.
                self.assertLess(abs(a - b) / abs(a), 2e-5, f"np {ranks}, step {step}: {a} and {b}")

    def test_transformer(self):
        self.check("gpt2-tiny")

    def test_cnn_at_constant_micro_batch(self):
        self.check("resnet-tiny")


class RanksAsAnAxis(Case):
    def test_fewer_ranks_train_while_the_others_sleep(self):
        out = self.folder / "out"
        options = ("--model", "gpt2-tiny", "--global-batch", 8, "--micro-batch", 4, "--threads", 1)
        process = run(*options, "--ranks", "1,2", "--steps", 6, "--warmup", 0, "--out", out, ranks=2)
        self.assert_ran(process)
        records = {record["workload"]["ranks"]: record for record in self.report(out)["records"]}
        self.assertEqual(sorted(records), [1, 2])
        for ranks, record in records.items():
            self.assertIn(f"/np{ranks}", record["id"])
            self.assertEqual(record["workload"]["accumulate"], 2 // ranks)
            self.assertEqual(record["workload"]["global_batch"], 8)
        for a, b in zip(*(records[ranks]["trials"][0]["loss"] for ranks in (1, 2))):
            self.assertLess(abs(a - b) / abs(a), 2e-5, "the same batch, however it is split")

    def test_more_than_the_job_has_are_refused(self):
        process = run("--model", "gpt2-tiny", "--ranks", "4", "--steps", 1, ranks=2)
        self.assertEqual(process.returncode, 2)
        self.assertIn("--ranks 4: the job has 2: launch it with as many, or choose fewer", process.stderr)

    def test_a_dry_run_says_what_it_would_do_and_does_nothing(self):
        process = run("--model", "gpt2-tiny", "--precision", "float32,fp8", "--ranks", "1,2", "--gpu-clock", "found", "--dry-run",
                      "--out", self.folder / "out", ranks=2)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("not here: ", process.stdout)
        self.assertIn("node-hours on 1 node", process.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
        paced = run("--model", "gpt2-tiny", "--steps", 100, "--dry-run", ranks=2)
        self.assertIn("about ", paced.stdout)


if __name__ == "__main__":
    unittest.main()
