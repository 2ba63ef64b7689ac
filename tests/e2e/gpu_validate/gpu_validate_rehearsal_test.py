"""Rehearsals of scripts/gpu-validate on the CPU: every piece, also beside a stand-in for PyTorch and from a pack."""
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import unittest

import support
from gpu_validate_script import SCRIPT, Script, load


class Rehearsal(Script):
    def test_a_rehearsal_leaves_a_table_and_an_archive(self):
        """Every piece. Without PyTorch, wherever this runs; test_beside_pytorch has a stand-in for it."""
        (self.out.parent / "torch").mkdir()
        (self.out.parent / "torch" / "__init__.py").write_text("raise ImportError\n")
        done = self.validate("--rehearse", PYTHONPATH=self.out.parent)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertTrue(summary["rehearsed"])
        without_torch = {"oracle", "torch-rest"}
        self.assertEqual({name: piece["state"] for name, piece in summary["pieces"].items()},
                         {name: "skipped" if name in without_torch else "ran" for name in load().plan.PIECES if name != "llmc"})
        self.assertEqual({summary["pieces"][name]["text"] for name in without_torch}, {"PyTorch cannot be imported"})
        self.assertEqual(summary["checks"], dict.fromkeys(["two_ranks", "recomputed", "accumulated", "too_large"], "good"))
        self.assertGreater(summary["tests"]["passed"], 0)
        self.assertGreater(summary["asks"]["asked"], 0)
        self.assertEqual(summary["asks"]["refused"], [])
        self.assertRegex(summary["pieces"]["memory"]["text"], "^[1-9][0-9]* tests on the CPU")
        self.assertRegex(summary["pieces"]["nccl"]["text"], "^MPI in place of NCCL: ")
        buckets = summary["buckets"]["sizes"]
        self.assertEqual([(one["ranks"], one["bucket_mib"], one["communicator"]) for one in buckets], [(2, 25, "mpi"), (2, 0.25, "mpi")])
        for one in buckets:
            self.assertGreater(one["samples_per_s"], 0)
            self.assertGreater(one["communication_s"], 0)
            self.assertAlmostEqual(one["ratio_to_default"], one["samples_per_s"] / buckets[0]["samples_per_s"])
        self.assertRegex(summary["pieces"]["buckets"]["text"], "^2 of 2 sizes measured; fastest on 2 ranks: ")
        self.assertGreater(summary["ops"]["attention_backward_any_order_share"], 0)
        ran, missing = set(summary["ops"]["best_linear_flops_per_s"]), set(summary["ops"]["unsupported"])
        self.assertEqual(ran - {"float32_bf16"}, {"float32", "bf16"})
        self.assertEqual(missing - {"float32_bf16"}, {"tf32", "fp16", "fp8"})
        self.assertEqual("float32_bf16" in ran, "float32_bf16" not in missing, "it is up to oneDNN and the CPU")
        text = (self.out / "summary.md").read_text()
        self.assertIn("no figure means anything for a GPU", text)
        rates = {}
        for point in summary["points"]:
            name = " ".join([point["model"], point["precision"], point.get("options", "")]).strip()
            rates[name] = point.get("samples_per_s")
            self.assertIn(f"| {point['model']} {point['precision']} mb{point['micro_batch']}", text)
            if point["precision"] in ("float32", "bf16"):
                self.assertGreater(point["samples_per_s"], 0, point)
                self.the_profile_is_no_comparison(point)
            else:  # what the CPU has not
                self.assertEqual(point["verdict"]["status"], "unsupported", point)
                self.assertIn("unsupported: ", point["reason"])
                self.assertIn(point["reason"], text)
        self.assertEqual(set(rates), {
            "gpt2-tiny bf16", "gpt2-tiny bf16 --deterministic no", "resnet-tiny float32", "gpt2-tiny fp8", "gpt2-tiny float32", "gpt2-tiny tf32",
            "gpt2-tiny fp16", "llama-tiny float32", "dlrm-tiny float32 --table-rows-at-most 100"})
        self.assertRegex(text, r"\| 2 \| 0\.25 \| mpi \| eager \| ")
        self.assertIn(f"| {rates['gpt2-tiny float32'] / rates['gpt2-tiny bf16']:.3f} |", text, "float32 against bf16")
        self.assertIn("÷ PyTorch is – for all points: PyTorch cannot be imported.", text)
        self.assertIn("calculated: least step on an NVIDIA H200 |", text)
        self.assertIn("They are of different devices: do not compare them.", text)
        self.assertNotIn("furthest from the device's limit: time above least", text)
        with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
            names = archive.getnames()
            profile = archive.extractfile("gpu-validate/profiles/llama-tiny-float32.txt").read().decode()
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["gpu-validate.tar.gz", "summary.json", "summary.md"])
        for name in ("summary.md", "summary.json", "asks.txt", "steps.log", "steps/gpt2-tiny-bf16-ours/report.json",
                     "steps/gpt2-tiny-bf16-energy/report.json", "steps/resnet-tiny-float32-again/report.json",
                     "steps/gpt2-tiny-bf16-any-order/report.json", "profiles/dlrm-tiny-float32-100.txt"):
            self.assertIn("gpu-validate/" + name, names)
        self.assertIn("measured on a CPU, in a rehearsal", profile)
        self.assertIn("llama-tiny on NVIDIA H200 in float32: at least", profile)
        again = self.validate("--rehearse")
        self.assertEqual(again.returncode, 2)
        self.assertIn("gpu-validate: error[bad-folder]: ", again.stderr)

    def the_profile_is_no_comparison(self, point):
        profile = point["profile"]
        self.assertEqual((profile["least_times_of"], profile["is_comparable"]), ("NVIDIA H200", False))
        self.assertGreater(profile["least_step_s"], 0)
        self.assertEqual({row["operator"]: row["share"] for row in profile["operators"]}, point["op_share"])
        self.assertTrue(any(row["least_s"] for row in profile["operators"]), point)
        for row in profile["operators"]:
            self.assertEqual((row["measured_s"], row["times_least"], row["above_least_s"]), (None, None, None), point)

    def test_a_pack_of_this_build_fits_and_runs(self):
        if not (support.BIN.parent / "tests" / "cudnn_gpu_test").exists():
            self.skipTest("CUDA is not built")
        folder, packed = self.out.parent, self.out.parent / "pack.tar.xz"
        done = subprocess.run([sys.executable, str(SCRIPT), "--pack", str(packed), "--build", str(support.BIN.parent)], capture_output=True,
                              text=True, timeout=3 * support.HANG, check=False)  # it compresses the programs of the tests
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(packed.stat().st_size, 60 * 2**20)
        with tarfile.open(packed) as archive:
            archive.extractall(folder)
        packed.unlink()
        done = subprocess.run([sys.executable, str(folder / "gpu-validate" / "scripts" / "gpu-validate"), "--out", str(self.out), "--rehearse",
                               "--models", "resnet-tiny", "--only", "tests,ratios,profile"], capture_output=True, text=True,
                              timeout=support.HANG, env=support.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 of 1 points have a profile", done.stdout)

    def test_beside_pytorch(self):
        copy = self.out.parent / "copy"
        shutil.copytree(SCRIPT.parent / "lib" / "validation", copy / "scripts" / "lib" / "validation")
        shutil.copy(SCRIPT.parent / "lib" / "errors.py", copy / "scripts" / "lib")
        (copy / "torch").mkdir()
        (copy / "torch" / "__init__.py").write_text("__version__ = '0.0'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n")
        # Says what it was asked for; one way after the other, as the real one does; a stand-in for float32 fails.
        (copy / "scripts" / "lib" / "torch_step.py").write_text(
            "import json, sys\n"
            "given = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
            "assert given['--micro-batch'] == '8' and given.get('--seq-len', '64') == '64', given\n"
            "print('noise')\n"
            "for blocks in ([5.0] * 3, [5.0, 10.0, 10.0, 20.0, 20.0, 20.0]):\n"
            "    rates = {'median': sorted(blocks)[len(blocks) // 2], 'blocks': blocks}\n"
            "    print(json.dumps({'model': given['--model'], 'samples_per_s': rates, 'torch': '0.0', 'way': 'a',\n"
            "                      'ways': {'a': {'samples_per_s': rates}, 'b': {'error': 'not here'}}}))\n"
            "sys.exit(given['--precision'] == 'float32')\n")
        shutil.copy(SCRIPT, copy / "scripts")
        done = self.validate("--rehearse", "--only", "ratios,fp8,energy,precisions,torch-rest", script=copy / "scripts" / "gpu-validate",
                             PYTHONPATH=copy)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        points = {(point["model"], point["precision"]): point for point in summary["points"] if "options" not in point}
        point = points["gpt2-tiny", "bf16"]
        blocks = point["blocks_samples_per_s"]
        self.assertEqual(len(blocks["first"]), 3)
        any_order = next(one for one in summary["points"] if one.get("options") == "--deterministic no" and one["model"] == "gpt2-tiny")
        self.assertEqual(any_order["ratio_to_torch_blocks"], [ours / 20 for ours in any_order["blocks_samples_per_s"]["last"][:3]])
        # The first blocks of PyTorch against those before it, its last ones against those after it.
        want = [ours / theirs for ours, theirs in zip(blocks["first"], [5, 10, 10])] + [ours / 20 for ours in blocks["last"][:3]]
        self.assertEqual(point["ratio_to_torch_blocks"], want)
        self.assertAlmostEqual(point["ratio_to_torch"], statistics.median(want))
        self.assertIn(f"| {point['ratio_to_torch']:.3f} [{min(want):.3f} … {max(want):.3f}] |", (self.out / "summary.md").read_text())
        self.assertIn("PyTorch's variants, samples/s: a 20, b (not here)", (self.out / "summary.md").read_text())
        self.assertIn("exit code 1", points["gpt2-tiny", "float32"]["torch_reason"])
        self.assertNotIn("torch", points["gpt2-tiny", "fp8"], "what did not run is compared with nothing")
        self.assertIn("1 of 2 networks compared with PyTorch 0.0", summary["pieces"]["ratios"]["text"])


if __name__ == "__main__":
    unittest.main()
