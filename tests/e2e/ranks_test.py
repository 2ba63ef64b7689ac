"""One global batch, however it is split: the same losses within float32 rounding."""
import array
import json
import math
import unittest

from support import Case, codes, run, said_codes, tool, validated


class Steps(Case):
    def losses(self, model, ranks, accumulate, precision="float32", micro=4, options=(), steps=6):
        out = self.last = self.folder / f"out{len(list(self.folder.iterdir()))}"
        process = run("--model", model, "--precision", precision, "--micro-batch", micro, "--accumulate", accumulate, "--steps", steps,
                      "--warmup", 0, "--threads", 1, "--out", out, *options, ranks=ranks)
        self.assert_ran(process)
        self.record = self.report(out)["records"][0]
        return self.record["trials"][0]["loss"]


class SameLosses(Steps):
    def check(self, model, steps=6):
        one = self.losses(model, 1, 4, steps=steps)
        self.assertEqual(len(one), steps)
        self.assertGreater(max(one) - min(one), 1e-3, "the steps must change the loss, or the comparison says nothing")
        for ranks, accumulate in ((2, 2), (4, 1)):
            split = self.losses(model, ranks, accumulate, steps=steps)
            for step, (a, b) in enumerate(zip(one, split, strict=True)):
                # Sums in another order; updates amplify the difference a little.
                self.assertLess(abs(a - b) / abs(a), 2e-5, f"np {ranks}, step {step}: {a} and {b}")

    def test_transformer(self):
        self.check("gpt2-tiny")

    def test_grouped_queries(self):
        self.check("llama-tiny")

    def test_masked_tokens(self):
        self.check("bert-tiny")

    def test_tables_on_the_ranks(self):
        self.check("dlrm-tiny")

    def test_cnn_at_constant_micro_batch(self):
        self.check("resnet-tiny")

    def test_auxiliary_head(self):
        # Later losses part: a ReLU input near zero that rounding moves to the other side changes the gradient by 1 %
        # (tests/models/families/inception_test.cpp compares gradients of later steps from the same weights).
        self.check("inception-tiny", steps=2)


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
                self.skipTest("no bf16 on this CPU")
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

    def test_masked_tokens(self):
        self.check("bert-tiny", "float32", 1)

    def test_cnn(self):
        self.check("resnet-tiny", "float32", 1)

    def test_tables(self):
        self.check("dlrm-tiny", "float32", 2, threads=1)

    def test_two_ranks(self):
        for model in ("gpt2-tiny", "resnet-tiny"):
            self.check(model, "float32", 2, threads=1)


class SameBitsBf16(Deterministic):
    def test_transformer(self):
        self.check("gpt2-tiny", "bf16", 1)

    def test_cnn(self):
        self.check("resnet-tiny", "bf16", 1)


class GradientsInBf16(Steps):
    def check(self, model):
        options = ("--deterministic", "yes")
        float32 = self.losses(model, 2, 2, options=options)
        self.assertEqual(self.record["execution"]["reduce_precision"], "float32")
        reference = self.last / "report.json"
        bf16 = self.losses(model, 2, 2, options=options + ("--reduce-precision", "bf16"))
        self.assertEqual(self.record["execution"]["reduce_precision"], "bf16")
        self.assertEqual(bf16[0], float32[0], "the first loss is from before any gradient")
        self.assertNotEqual(bf16, float32)
        # Gradients differ by at most 2 · 2⁻⁸ of the ranks' own, and the updates, which follow them, change a loss by less
        # than itself.
        for step, (a, b) in enumerate(zip(float32, bf16)):
            self.assertLess(abs(a - b) / abs(a), 2 ** -8, f"step {step}: {a} and {b}")
        shown = " ".join(tool("show", self.last / "report.json").stdout.split())
        self.assertIn("gradients in bf16 by mpi", shown)
        compared = " ".join(tool("compare", reference, self.last / "report.json").stdout.split())
        self.assertIn("precision of summed gradients", compared)
        self.assertEqual(self.losses(model, 1, 4, options=options + ("--reduce-precision", "bf16")),
                         self.losses(model, 1, 4, options=options), "one rank sums nothing")
        self.assertIsNone(self.record["execution"]["reduce_precision"])

    def test_transformer(self):
        self.check("gpt2-tiny")

    def test_cnn(self):
        self.check("resnet-tiny")


class HowStepsAreRun(Steps):
    def test_is_recorded_and_changes_no_loss(self):
        plain = self.losses("gpt2-tiny", 1, 4)
        chosen = self.record["execution"].pop("implementations")
        self.assertLessEqual({"attention", "classifier"}, set(chosen))
        self.assertTrue(all(names and all(names) for names in chosen.values()), chosen)
        self.assertEqual(self.record["execution"], {"step_mode": "eager", "recompute": False, "communicator": "self",
                                                    "route": "one rank", "loss_scaling": None, "recomputed_layers": 0,
                                                    "deterministic": False, "reduce_precision": None})
        self.assertIsNone(self.record["summary"]["hardware_flops_per_sample"])
        kept = self.record["summary"]["peak_device_memory_bytes_per_rank"]
        again = self.losses("gpt2-tiny", 1, 4, options=("--recompute", "--eager", "--comm", "mpi"))
        self.record["execution"].pop("implementations")
        self.assertEqual(self.record["execution"], {"step_mode": "eager", "recompute": True, "communicator": "mpi",
                                                    "route": "host memory", "loss_scaling": None, "recomputed_layers": 2,
                                                    "deterministic": False, "reduce_precision": None})
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


class ExportStep(Case):
    """--export-step by one rank and by two."""

    def exported(self, model, ranks, accumulate):
        """The folder with step.json and the tensors, and what was printed beside it."""
        out = self.folder / f"{model}-{ranks}-{accumulate}"
        process = run("--device", "cpu", "--model", model, "--micro-batch", 4, "--accumulate", accumulate, "--threads", 1,
                      "--deterministic", "yes", "--export-step", out, ranks=ranks)
        self.assert_ran(process)
        self.assertFalse(out.with_name(out.name + ".partial").exists())
        return out, json.loads((out / "step.json").read_text()), process.stderr

    @staticmethod
    def tensors(path):
        """The tensors of a safetensors file by name. It has the header's length, the header, the data."""
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        types = {"F32": "f", "I64": "q"}
        found = {}
        for name, entry in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                found[name] = array.array(types[entry["dtype"]], data[begin + first:begin + last])
        return found

    def assert_near(self, one, two, most):
        """‖a − b‖ / ‖b‖ of all tensors together: single gradients may be zero but for rounding."""
        self.assertEqual(list(one), list(two))
        pairs = [pair for name in one for pair in zip(one[name], two[name], strict=True)]
        norm = math.sqrt(math.fsum(b * b for _, b in pairs))
        self.assertGreater(norm, 0)
        self.assertLess(math.sqrt(math.fsum((a - b) ** 2 for a, b in pairs)) / norm, most)

    def assert_same_step(self, model):
        """Returns both exports; each of one global batch of two micro-batches."""
        (one, of_one, _), (two, of_two, said) = self.exported(model, None, 2), self.exported(model, 2, 1)
        for file in ("weights.safetensors", "batch.safetensors"):
            self.assertEqual((one / file).read_bytes(), (two / file).read_bytes(), file)
        self.assertEqual((of_one["ranks"], of_one["accumulate"], of_two["ranks"], of_two["accumulate"]), (1, 2, 2, 1))
        for key in ("loss", "gradient_norm"):  # of all ranks
            self.assertAlmostEqual(of_two[key] / of_one[key], 1, delta=1e-5, msg=key)
        for file in ("gradients", "updated"):
            values = [self.tensors(folder / f"{file}.safetensors") for folder in (one, two)]
            learned = [{name: tensor for name, tensor in found.items() if ".running_" not in name} for found in values]
            self.assert_near(*learned, 1e-4)
        return one, two, of_two, said

    def test_a_transformer(self):
        one, two, step, said = self.assert_same_step("gpt2-tiny")
        self.assertNotIn("relu_sides", step, "it has no ReLU")
        self.assertNotIn("export-incomplete", said)
        self.assertEqual(*(sorted(file.name for file in folder.iterdir()) for folder in (one, two)))

    def test_a_cnn_says_what_is_left_out(self):
        _, two, step, said = self.assert_same_step("resnet-tiny")
        self.assertIs(step["relu_sides"], False)
        self.assertIn("several ranks", step["relu_sides_reason"])
        self.assertEqual(said_codes(said, "warning"), ["export-incomplete"])
        self.assertIn(f"relu.safetensors is left out: {step['relu_sides_reason']}", said)
        alone, of_alone, nothing = self.exported("resnet-tiny", None, 1)
        self.assertIs(of_alone["relu_sides"], True)
        self.assertEqual(said_codes(nothing, "warning"), [])
        self.assertEqual({file.name for file in alone.iterdir()} - {file.name for file in two.iterdir()}, {"relu.safetensors"})
        # Running statistics are those of the first rank, which has seen its own micro-batch alone.
        of_first, of_rank = (self.tensors(folder / "updated.safetensors") for folder in (alone, two))
        running = [name for name in of_first if ".running_" in name]
        self.assertTrue(running)
        for name in running:
            self.assertEqual(of_first[name], of_rank[name], name)


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


class AutoMicroBatch(Case):
    OPTIONS = ("--model", "gpt2-tiny", "--precision", "float32", "--seq-len", 16, "--micro-batch", "auto", "--global-batch", 16)

    def record_of(self, out):
        self.assertEqual(codes(validated(out / "report.json")["faults"]), [])
        [record] = self.report(out)["records"]
        search, workload = record["micro_batch_search"], record["workload"]
        self.assertEqual(workload["micro_batch"], search["chosen"])
        self.assertEqual(workload["micro_batch"] * workload["accumulate"] * workload["ranks"], 16)
        self.assertEqual(workload["global_batch"], 16)
        self.assertEqual(record["id"], "gpt2-tiny/float32/mbauto/t16/gb16/np2")
        return record

    def test_a_size_is_found_before_the_trials_and_recorded(self):
        out = self.folder / "out"
        process = run(*self.OPTIONS, "--steps", 3, "--warmup", 0, "--threads", 1, "--out", out, ranks=2)
        self.assert_ran(process)
        record = self.record_of(out)
        sizes = [trial["micro_batch"] for trial in record["micro_batch_search"]["trials"]]
        self.assertEqual(sizes, [2 ** i for i in range(len(sizes))])
        self.assertIn(record["workload"]["micro_batch"], sizes)
        self.assertEqual(record["trials"][0]["first_step"], 0)
        self.assertEqual(json.loads(self.report(out)["plan"]["canonical_json"])["points"][0]["micro_batch"], "auto")
        shown = tool("show", out / "report.json", "--width", 200).stdout
        self.assertIn(f"micro-batch {record['workload']['micro_batch']} found; ", shown)
        # --resume takes what was recorded: nothing is left to do, and nothing changes.
        before = (out / "records.jsonl").read_text()
        self.assertEqual(run("--resume", out, ranks=2).returncode, 0)
        self.assertEqual((out / "records.jsonl").read_text(), before)

    def test_a_kit_leaves_the_size_to_who_runs_it(self):
        kit = self.folder / "kit.json"
        frozen = tool("freeze", *self.OPTIONS, "--steps", 3, "--warmup", 0, "-o", kit)
        self.assertEqual(frozen.returncode, 0, frozen.stderr)
        self.assertEqual(said_codes(frozen.stderr, "warning"), ["breaks-run-rules"], "it runs by steps; the global batch is fixed")
        plan = tool("plan", "--config", kit, "--nodes", 2)
        self.assertIn("found at run time", plan.stdout)
        out = self.folder / "declared"
        self.assert_ran(run("--config", kit, "--micro-batch", 2, "--threads", 1, "--out", out, ranks=2))
        record = self.record_of(out)
        self.assertEqual(record["workload"]["micro_batch"], 2)
        self.assertEqual(record["micro_batch_search"]["trials"], [])
        faults = codes(validated(out / "report.json", "--kit", kit)["faults"])
        self.assertNotIn("kit_differs", faults)

    def test_batch_norm_keeps_its_size(self):
        process = run("--model", "resnet-tiny", "--micro-batch", "auto", "--steps", 1)
        self.assertEqual(process.returncode, 2)
        self.assertEqual(said_codes(process.stderr), ["option-does-not-apply"])


if __name__ == "__main__":
    unittest.main()
