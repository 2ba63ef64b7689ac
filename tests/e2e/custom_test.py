"""A network that a file of layers describes, as a user trains, plans, freezes and resumes it."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import unittest

from fake_node import Under
from support import BIN, HANG, Case, codes, environment, run, said_codes, tool, validated

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "models" / "custom" / "examples"
SMALL = {"name": "small", "input": {"kind": "segmented_images", "size": 16, "channels": 3, "classes": 3}, "micro_batch": 2,
         "layers": [{"layer": "convolution", "name": "first", "channels": 8, "kernel": 3, "padding": 1},
                    {"layer": "batch_norm", "relu": True},
                    {"layer": "convolution", "channels": 8, "kernel": 3, "padding": 1},
                    {"layer": "residual", "with": "first"},
                    {"layer": "loss", "per": "position"}]}


SQUARED = {"layer": "mean_squared_error", "per": "position"}


def series(*layers):
    return {"name": "series", "input": {"kind": "series", "variables": 3, "longest_sequence": 8}, "layers": list(layers)}


class Custom(Case):
    def write(self, content, name="layers.json"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def train(self, file, out, *options, ranks=None):
        return run("--model", "custom", "--layers-file", file, "--threads", 1, "--warmup", 0, "--out", out, *options, ranks=ranks)

    def test_ranks_share_the_batch_and_the_report_is_valid(self):
        losses = []
        for ranks, accumulate in ((1, 2), (2, 1)):
            out = self.folder / f"np{ranks}"
            self.assert_ran(self.train(EXAMPLES / "segmentation.json", out, "--steps", 3, "--accumulate", accumulate, ranks=ranks))
            found = validated(out / "report.json")
            self.assertEqual(found["faults"], [], found)
            self.assertNotIn("network_unknown", codes(found["notes"]))
            [record] = self.report(out)["records"]
            self.assertTrue(record["workload"]["model"].startswith("custom-segmentation-"), record["workload"])
            losses.append(record["trials"][0]["loss"])
        self.assertGreater(losses[0][0] - losses[0][-1], 1e-3, "the steps must change the loss, or the comparison says nothing")
        for a, b in zip(*losses):
            self.assertLess(abs(a - b) / a, 2e-5, losses)
        # The file in the plan is the one that was trained.
        report = json.loads((self.folder / "np1" / "report.json").read_text())
        plan = report["plan"]["canonical_json"].replace('"comment":"A U-Net', '"comment":"No U-Net')
        report["plan"].update(canonical_json=plan, sha256=hashlib.sha256(plan.encode()).hexdigest())
        self.assertEqual(codes(validated(self.write(report, "forged.json"))["faults"]), ["network_differs"])

    def test_a_changed_file_is_another_run(self):
        file, out = self.write(SMALL), self.folder / "out"
        self.assert_ran(self.train(file, out, "--steps", 2))
        self.assert_ran(run("--resume", out))
        self.write({**SMALL, "micro_batch": 3, "comment": "changed"})
        refused = run("--resume", out)
        self.assert_ran(refused, 2)
        self.assertEqual(said_codes(refused.stderr), ["not-same-run"], refused.stderr)
        self.assertIn("layers_file", refused.stderr)

    def test_a_kit_needs_no_file(self):
        file, kit, out = self.write(SMALL), self.folder / "kit.json", self.folder / "out"
        process = tool("freeze", "--model", "custom", "--layers-file", file, "--global-batch", 4, "--steps", 2, "-o", kit)
        self.assert_ran(process)
        file.unlink()
        self.assert_ran(run("--config", kit, "--threads", 1, "--out", out))
        self.assertEqual(validated(out / "report.json")["faults"], [])
        frozen = run("--config", kit, "--layers-file", EXAMPLES / "segmentation.json", "--out", self.folder / "other")
        self.assert_ran(frozen, 2)
        self.assertEqual(said_codes(frozen.stderr), ["frozen-plan"])
        # A config names the file by its path.
        shutil.copy(EXAMPLES / "segmentation.json", file)
        plan = self.write({"model": "custom", "layers_file": str(file), "precision": ["float32", "bf16"]}, "plan.json")
        process = tool("plan", "--config", plan, "--json")
        self.assert_ran(process)
        self.assertEqual(len(json.loads(process.stdout)["points"]), 2)

    def test_wrong_files_say_which_layer(self):
        def changed(index, layer):
            return {**SMALL, "layers": [*SMALL["layers"][:index], layer, *SMALL["layers"][index + 1:]]}

        for code, pointer, content in (
                ("layers-json", "", "{"),
                ("layers-json", "", "[1]"),
                ("layers-unknown-layer", "/layers/1/layer", changed(1, {"layer": "batchnorm2d"})),
                ("layers-value", "/layers/0/channels", changed(0, {"layer": "convolution", "channels": 0, "kernel": 3})),
                ("layers-shape", "/layers/2/kernel", changed(2, {"layer": "convolution", "channels": 8, "kernel": 17})),
                ("layers-shape", "/layers/3", changed(2, {"layer": "convolution", "channels": 4, "kernel": 3, "padding": 1})),
                ("layers-name", "/layers/3/with", changed(3, {"layer": "residual", "with": "frist"})),
                ("layers-cycle", "/layers/3/with", changed(3, {"layer": "residual", "name": "sum", "with": "sum"})),
                ("layers-loss", "/layers/3", {**SMALL, "layers": SMALL["layers"][:-1]}),
                ("layers-loss", "/layers/5", {**SMALL, "layers": [*SMALL["layers"], SMALL["layers"][-1]]}),
                ("layers-shape", "/layers/1/layer", series({"layer": "linear", "channels": 3}, SMALL["layers"][-1])),
                ("layers-shape", "/layers/1", series({"layer": "linear", "channels": 4}, SQUARED)),
                ("layers-shape", "/layers/0", series({"layer": "upsample", "factor": 2}, SQUARED)),
                ("layers-value", "/layers/0/factor", changed(0, {"layer": "upsample", "factor": 0})),
                ("layers-value", "/layers", series({"layer": "rms_norm"}, SQUARED)),
                ("layers-missing", "/layers/0", changed(0, {"layer": "convolution", "channels": 8})),
                ("layers-too-large", "/layers/2", {
                    **SMALL, "input": {**SMALL["input"], "kind": "images"}, "layers": [
                        {"layer": "linear", "channels": 1 << 20}, {"layer": "flatten"}, {"layer": "linear", "channels": 1 << 20},
                        {"layer": "loss", "per": "sample"}]})):
            with self.subTest(code=code, pointer=pointer):
                file = self.write(content, "wrong.json")
                for process in (self.train(file, self.folder / "none", "--steps", 1), tool("models", "--layers-file", file)):
                    self.assert_ran(process, 2)
                    self.assertEqual(said_codes(process.stderr), [code], process.stderr)
                    self.assertIn(f"--layers-file {file}: " + (pointer + ": " if pointer else ""), process.stderr)
        report = self.write('{"schema_version": "1.0"}', "report.json")
        self.assertEqual(said_codes(tool("models", "--layers-file", report).stderr), ["wrong-file"])
        self.assertEqual(said_codes(run("--model", "custom", "--out", self.folder / "none").stderr), ["option-needs"])

    def test_a_batch_norm_of_one_value_ends_with_2_and_names_its_layer(self):
        of_tokens = {"name": "of-tokens", "input": {"kind": "tokens", "vocabulary": 16, "longest_sequence": 8},
                     "layers": [{"layer": "embedding", "channels": 4}, {"layer": "batch_norm", "name": "norm"},
                                {"layer": "loss", "per": "position"}]}
        file = self.write(of_tokens)
        network = ("--model", "custom", "--layers-file", file, "--seq-len", 1, "--micro-batch", 1)
        for options in (("--steps", 1, "--out", self.out), ("--export-step", self.folder / "step")):
            process = run(*network, *options)
            self.assert_ran(process, 2)
            self.assertEqual(said_codes(process.stderr), ["bad-value"], process.stderr)
            for words in ("--micro-batch 1", "'norm'", "longer samples"):
                self.assertIn(words, process.stderr)
        self.assert_ran(self.train(file, self.out, "--seq-len", 2, "--micro-batch", 1, "--steps", 1))

    def test_numbers_as_targets_on_ranks(self):
        """Biases, upsampling and squared errors; the report of a network without labels is valid."""
        losses = []
        for ranks, accumulate in ((1, 2), (2, 1)):
            out = self.folder / f"np{ranks}"
            self.assert_ran(self.train(EXAMPLES / "super-resolution.json", out, "--steps", 3, "--accumulate", accumulate, ranks=ranks))
            self.assertEqual(validated(out / "report.json")["faults"], [])
            losses.append(self.report(out)["records"][0]["trials"][0]["loss"])
        self.assertNotEqual(losses[0][0], losses[0][-1])
        for a, b in zip(*losses):
            self.assertLess(abs(a - b) / a, 2e-5, losses)

    def test_a_network_that_does_not_fit_says_how_much_memory(self):
        meminfo = self.folder / "meminfo"
        node = Under(files={"/proc/meminfo": meminfo})
        meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n")
        node.or_skip()
        process = subprocess.run([*node.command(), str(BIN / "trainwatt-train"), "--model", "custom", "--layers-file",
                                  str(EXAMPLES / "segmentation.json"), "--micro-batch", "100000", "--steps", "1", "--out", str(self.out)],
                                 capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS=2))
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("error[out-of-memory]", process.stderr)
        for words in ("GiB on", "8.0 of 8.0 GiB are available", "--micro-batch N with N up to "):
            self.assertIn(words, process.stderr)

    def test_models_and_plan_show_what_it_computes(self):
        for example in sorted(EXAMPLES.glob("*.json")):
            process = tool("models", "custom", "--layers-file", example, "--json")
            self.assert_ran(process)
            shown = json.loads(process.stdout)
            self.assertGreater(shown["parameters"], 1000)
            self.assertGreater(shown["model_flops_per_sample"], 6 * shown["parameters"] / 4)
            self.assertTrue(shown["products_per_micro_batch"])
            process = tool("plan", "--model", "custom", "--layers-file", example, "--json")
            self.assert_ran(process)
            [point] = json.loads(process.stdout)["points"]
            self.assertTrue(point["id"].startswith(f"custom-{example.stem}-"), point)


if __name__ == "__main__":
    unittest.main()
