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


if __name__ == "__main__":
    unittest.main()
