"""One global batch, however it is split: the same losses within float32 rounding."""
import unittest

from support import Case, run, said_codes, skip_program, tool


class Steps(Case):
    def losses(self, model, ranks, accumulate, precision="float32", micro=4, options=()):
        out = self.last = self.folder / f"out{len(list(self.folder.iterdir()))}"
        process = run("--model", model, "--precision", precision, "--micro-batch", micro, "--accumulate", accumulate, "--steps", 6,
                      "--warmup", 0, "--threads", 1, "--out", out, *options, ranks=ranks)
        self.assert_ran(process)
        self.record = self.report(out)["records"][0]
        return self.record["trials"][0]["loss"]


class SameLosses(Steps):
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

    def test_grouped_queries(self):
        self.check("llama-tiny")

    def test_cnn_at_constant_micro_batch(self):
        self.check("resnet-tiny")


class Deterministic(Steps):
    """--deterministic yes on the CPU: each run a process of its own, with choices of its own if it had any."""

    def check(self, model, precision, ranks, threads=2):
        runs = []
        for _ in range(3):
            out = self.folder / f"{model}-{precision}-{ranks}-{len(runs)}"
            process = run("--device", "cpu", "--model", model, "--precision", precision, "--micro-batch", 4, "--accumulate", 2,
                          "--steps", 8, "--warmup", 0, "--threads", threads, "--deterministic", "yes", "--out", out, ranks=ranks)
            self.assert_ran(process)
            [record] = self.report(out)["records"]
            if precision == "bf16" and record["verdict"]["status"] == "unsupported":
                skip_program("no bf16 on this CPU")
            self.assertIs(record["execution"]["deterministic"], True)
            [trial] = record["trials"]
            self.assertEqual(len(trial["loss"]), 8)
            runs.append((trial["loss"], trial["gradient_norm"], record["execution"]["implementations"]))
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[0], runs[2])


class SameBits(Deterministic):
    def test_transformer(self):
        self.check("gpt2-tiny", "float32", 1)

    def test_grouped_queries(self):
        self.check("llama-tiny", "float32", 1)

    def test_cnn(self):
        self.check("resnet-tiny", "float32", 1)

    def test_two_ranks(self):
        for model in ("gpt2-tiny", "resnet-tiny"):
            self.check(model, "float32", 2, threads=1)


class SameBitsBf16(Deterministic):
    def test_transformer(self):
        self.check("gpt2-tiny", "bf16", 1)

    def test_cnn(self):
        self.check("resnet-tiny", "bf16", 1)


class HowStepsAreRun(Steps):
    def test_is_recorded_and_changes_no_loss(self):
        plain = self.losses("gpt2-tiny", 1, 4)
        chosen = self.record["execution"].pop("implementations")
        self.assertLessEqual({"attention", "classifier"}, set(chosen))
        self.assertTrue(all(names and all(names) for names in chosen.values()), chosen)
        self.assertEqual(self.record["execution"], {"step_mode": "eager", "recompute": False, "communicator": "self",
                                                    "route": "one rank", "loss_scaling": None, "recomputed_layers": 0,
                                                    "deterministic": False})
        self.assertIsNone(self.record["summary"]["hardware_flops_per_sample"])
        kept = self.record["summary"]["peak_device_memory_bytes_per_rank"]
        again = self.losses("gpt2-tiny", 1, 4, options=("--recompute", "--eager", "--comm", "mpi"))
        self.record["execution"].pop("implementations")
        self.assertEqual(self.record["execution"], {"step_mode": "eager", "recompute": True, "communicator": "mpi",
                                                    "route": "host memory", "loss_scaling": None, "recomputed_layers": 2,
                                                    "deterministic": False})
        summary = self.record["summary"]
        self.assertGreater(summary["hardware_flops_per_sample"], 1.1 * summary["model_flops_per_sample"])
        self.assertLess(summary["hardware_flops_per_sample"], 1.34 * summary["model_flops_per_sample"])
        self.assertLess(summary["peak_device_memory_bytes_per_rank"], kept)
        for a, b in zip(plain, again):
            self.assertLess(abs(a - b) / abs(a), 2e-5)
        config = self.folder / "plan.json"
        config.write_text('{"model": "gpt2-tiny", "micro_batch": 4, "accumulate": 4, "steps": 6, "warmup_steps": 0, "recompute": 1, "comm": "mpi", "deterministic": false}')
        out = self.folder / "half"
        self.assert_ran(run("--config", config, "--threads", 1, "--out", out))
        [half] = self.report(out)["records"]
        self.assertEqual(half["execution"]["recomputed_layers"], 1)
        self.assertEqual(half["execution"]["communicator"], "mpi")
        self.assertIs(half["execution"]["deterministic"], False)
        # Of one layer or of both: the same bits, where both runs choose the same ways for their products (tests/models holds that
        # of one process). They choose by time.
        self.assertEqual(len(half["trials"][0]["loss"]), len(again))
        for a, b in zip(again, half["trials"][0]["loss"]):
            self.assertLess(abs(a - b) / abs(a), 2e-5)
        added = [one["hardware_flops_per_sample"] - one["model_flops_per_sample"] for one in (half["summary"], summary)]
        self.assertAlmostEqual(added[0], added[1] / 2)
        # How much less than of both layers depends on these ways, too: they keep packed weights.
        self.assertLess(half["summary"]["peak_device_memory_bytes_per_rank"], kept)
        shown = " ".join(tool("show", out / "report.json").stdout.split())
        self.assertIn("activations of the first 1 layer recomputed", shown)
        self.assertIn("last bits may differ between runs", shown)

    def test_half_precision_scales_its_loss(self):
        plain = self.losses("gpt2-tiny", 1, 1, micro=1, options=("--device", "reference", "--seq-len", 16))
        half = self.losses("gpt2-tiny", 1, 2, "fp16", micro=1, options=("--device", "reference", "--seq-len", 16))
        self.assertEqual(self.record["execution"]["loss_scaling"], {"final_scale": 65536, "skipped_steps": 0})
        self.assertEqual(len(plain), len(half))
        shown = " ".join(tool("show", self.last / "report.json").stdout.split())
        self.assertIn("loss scale 65536 at the end, 0 steps skipped", shown)


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
        self.assertEqual(said_codes(process.stderr), ["bad-value"])
        self.assertIn("--ranks 4: ", process.stderr)

    def test_a_dry_run_says_what_it_would_do_and_does_nothing(self):
        process = run("--model", "gpt2-tiny", "--precision", "float32,fp8", "--ranks", "1,2", "--gpu-clock", "found", "--dry-run",
                      "--out", self.folder / "out", ranks=2)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("(2 points): ", process.stdout)
        self.assertIn("node-hours on 1 node", process.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
        paced = run("--model", "gpt2-tiny", "--steps", 100, "--dry-run", ranks=2)
        self.assertIn("about ", paced.stdout)


if __name__ == "__main__":
    unittest.main()
