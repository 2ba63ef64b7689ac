"""scripts/gpu-validate --llmc over a stand-in for llm.c's train_gpt2cu, which takes its options, reads its data file and prints in its form."""
import os
import sys
import unittest
import unittest.mock

import support
from gpu_validate_script import Script, load

# {ms}: of its steps behind the first one, as an expression. {prelude}: what goes wrong before training. {end}: and afterwards.
LLMC = """#!{python}
import struct, sys, time
assert len(sys.argv) % 2 == 1 and all(len(name) in (2, 3) for name in sys.argv[1::2]), sys.argv
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open({said!r}, "a") as file:
    file.write("llmc " + " ".join(sys.argv[1:]) + "\\n")
B, T, steps = int(given["-b"]), int(given["-t"]), int(given["-x"])
data = open(given["-i"], "rb").read()
magic, version, tokens = struct.unpack("3i", data[:12])
assert (magic, version) == (20240520, 1) and len(data) == 1024 + 2 * tokens and tokens >= B * T + 1
assert max(struct.unpack(str(tokens) + "H", data[1024:])) < 50257
{prelude}
line = "+-----------------------+----------------------------------------------------+"
print(line + "\\n| Parameter             | Value                                              |\\n" + line)
print("| micro batch size B    | %-50d |\\n| sequence length T     | %-50d |" % (B, T))
print("| device                | %-50s |\\n| peak TFlops           | %-50.1f |\\n| precision             | %-50s |" % ("NVIDIA H200", 989.4, {precision!r}))
print(line + "\\nval loss 11.009181")
for step in range(steps):
    ms = 900.0 if step == 0 else {ms}
    print("step %4d/%d | loss %7.6f (%+.2fz)| norm %6.4f (%+.2fz)| lr %.2e | %.2f ms | %.1f%% bf16 MFU | %.0f tok/s"
          % (step + 1, steps, {loss}, float("nan"), 14.5, float("nan"), 3e-4, ms, 40.0, B * T / ms * 1000))
print("val loss 10.9\\ntotal average iteration time: %f ms" % 500)
{end}
"""


class LlmC(Script):
    def setUp(self):
        super().setUp()
        self.module, self.build = load(), self.out.parent / "build"
        self.said, self.folder = self.out.parent / "said", self.out.parent / "llm.c"
        for folder in (self.out, self.build / "bin", self.folder):
            folder.mkdir(parents=True)
        # Steps of 8 samples in 0.5 s, and in the second launch in 1/3 s.
        record = {"workload": {"precision": "bf16", "global_batch": 8}, "trials": [], "summary": {"samples_per_s": {"value": 16.0}},
                  "verdict": {"status": "valid", "flags": [], "reasons": []}}
        self.program(self.build / "bin" / "trainwatt-train", "import json, os, sys\ngiven = dict(zip(sys.argv, sys.argv[1:]))\n"
                     f"open({str(self.said)!r}, 'a').write('ours ' + ' '.join(sys.argv[1:]) + '\\n')\nos.makedirs(given['--out'])\nrecord = {record!r}\n"
                     "step = 1 / 3 if 'last' in given['--out'] else 0.5\n"
                     "record['trials'] = [{'step_time_s': [step] * int(float(given['--window']) / step)}] * 3\n"
                     "json.dump({'records': [record], 'context': {'devices': [{'name': 'A'}]}}, open(given['--out'] + '/report.json', 'w'))\n")
        tools = self.out.parent / "tools"
        self.program(tools / "mpirun", "import os, sys\nat = 1 + sys.argv.index('-np')\nos.execv(sys.argv[at + 1], sys.argv[at + 1:])\n")
        patch = unittest.mock.patch.dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", OMPI_MCA_odls_base_sigkill_timeout="1")
        patch.start()
        self.addCleanup(patch.stop)

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text.startswith("#!") else f"#!{sys.executable}\n{text}")
        path.chmod(0o755)

    def compare(self, models="gpt2-124m", budget=support.HANG, **more):
        text = {"prelude": "", "end": "", "precision": "BF16", "ms": "500.0", "loss": "11.0", **more}
        self.program(self.folder / "train_gpt2cu", LLMC.format(python=sys.executable, said=str(self.said), **text))
        self.said.write_text("")
        validation = self.module.Validation(self.options(self.build, only="llmc", models=models, budget=budget, llmc=str(self.folder)))
        for folder in (self.out / "gpu-validate" / "steps").glob("*"):
            for path in [*folder.iterdir(), folder]:
                path.rmdir() if path.is_dir() else path.unlink()
        try:
            return validation.llmc(), validation
        except self.module.Failed as error:
            return str(error), validation

    def test_launches_alternate_and_the_ratio_is_of_their_blocks(self):
        # The first three steps are warm-up.
        text, validation = self.compare("gpt2-124m,gpt2-1558m", ms="64000.0 if step < 3 else 2000.0")
        self.assertEqual(text, "2 of 2 networks compared")
        lines = self.said.read_text().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["ours", "llmc"] * 4)
        for line, depth in zip(lines[1::2], ("d12", "d12", "d48", "d48")):
            given = dict(zip(line.split()[1::2], line.split()[2::2]))
            self.assertEqual([given[name] for name in ("-e", "-b", "-t", "-s", "-m", "-r", "-ge")], [depth, "32", "1024", "0", "1", "0", "1"])
            self.assertEqual(given["-i"], given["-j"])
        small, large = validation.summary["llmc"]
        # 32 samples in 2 s.
        for one in (small, large):
            self.assertEqual((one["samples_per_s"], one["llmc_samples_per_s"], one["reason"]), (20.0, 16.0, None))
            self.assertEqual([round(ratio, 9) for ratio in one["ratio_blocks"]], [1.0] * 3 + [1.5] * 3)
            self.assertEqual((one["ratio"], one["llmc_options"]), (1.25, "-r 0 -ge 1"))
        self.assertEqual(list((self.out / "gpu-validate").glob("llmc.bin")), [], "its data are not left")
        page = self.module.page.page({**validation.summary, "pieces": {}})
        self.assertIn("| gpt2-124m bf16 mb32×1024 | 20 | 16 | 1.250 [1.000 … 1.500] | -r 0 -ge 1 | – |", page)

    def test_what_does_not_fit_is_tried_with_recomputation(self):
        text, validation = self.compare(prelude="if given['-r'] == '0':\n    print('[CUDA ERROR] at file train_gpt2.cu:1:\\nout of memory')\n    sys.exit(1)")
        self.assertEqual(text, "1 of 1 networks compared")
        self.assertEqual(validation.summary["llmc"][0]["llmc_options"], "-r 1 -ge 1")
        self.assertEqual([line.split()[0] for line in self.said.read_text().splitlines()], ["ours", "llmc", "llmc", "ours", "llmc"])

    def test_what_means_nothing_has_a_reason(self):
        for more, reason in (({"precision": "FP32"}, "llm.c was built for FP32, not for BF16"), ({"loss": "float('nan')"}, "its loss is not finite"),
                             ({"prelude": "print('Error: failed to glob pattern: x')\nsys.exit(1)"}, "exit code 1: Error: failed to glob pattern: x"),
                             ({"prelude": "steps = 2"}, "it printed 2 of ")):
            text, validation = self.compare(**more)
            self.assertRegex(text, rf"^0 of 1 networks compared; gpt2-124m: llm\.c: {reason}")
            self.assertIsNone(validation.summary["llmc"][0]["ratio"])
        with unittest.mock.patch.dict(self.module.plan.LLMC_SECONDS, {"gpt2-124m": 1}):
            text, _ = self.compare(end="sys.stdout.flush()\ntime.sleep(1000)")
        self.assertRegex(text, r"gpt2-124m: llm\.c: timeout after 1 s; see llmc\.log$")
        with self.assertRaisesRegex(self.module.LeftOut, r"gpt2-124m: no time was left: call again with --only llmc --models gpt2-124m$"):
            self.compare(budget=100)
        self.program(self.build / "bin" / "trainwatt-train", "print('trainwatt-train: error[device-unusable]: no GPU')\nsys.exit(3)\n")
        self.assertRegex(self.compare()[0], "gpt2-124m: trainwatt: exit code 1")

    def test_without_llmc_the_ratio_is_null_with_a_reason(self):
        validation = self.module.Validation(self.options(self.build, models="gpt2-124m"))
        self.assertNotIn("llmc", validation.wanted)
        self.module.figures.compute(validation.summary, validation.goals, [])
        (one,) = validation.summary["llmc"]
        self.assertEqual((one["ratio"], one["reason"]), (None, "not measured in this call, which needs --llmc DIR for it"))
        self.assertIn("| gpt2-124m bf16 mb32×1024 | – | – | – | – | not measured in this call", self.module.page.page({**validation.summary, "pieces": {}}))
        self.assertIn("llmc", self.module.Validation(self.options(self.build, llmc=str(self.folder))).wanted)
        with self.assertRaisesRegex(self.module.LeftOut, "--llmc DIR was not given"):
            validation.llmc()
        with self.assertRaisesRegex(self.module.LeftOut, "gpt2-124m and gpt2-1558m only"):
            self.module.Validation(self.options(self.build, models="resnet-50", llmc=str(self.folder))).llmc()

    def test_a_folder_without_the_program_is_refused(self):
        self.out.rmdir()
        done = self.validate("--llmc", str(self.out.parent), build=self.build)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("gpu-validate: error[program-missing]: no train_gpt2cu in ", done.stderr)


if __name__ == "__main__":
    unittest.main()
