"""scripts/gpu-validate without a GPU: it refuses, with what to do; its rehearsal goes through the whole flow."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-validate"



def load():
    loader = importlib.machinery.SourceFileLoader("gpu_validate", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_validate", loader))
    loader.exec_module(module)
    return module


class GpuValidate(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name) / "out"

    def validate(self, *args, build=support.BIN.parent, script=SCRIPT, **env):
        return subprocess.run([sys.executable, str(script), "--out", str(self.out), "--build", str(build), *args],
                              capture_output=True, text=True, timeout=support.HANG, env=support.environment(**env), check=False)

    def test_a_rehearsal_leaves_a_table_and_an_archive(self):
        done = self.validate("--rehearse", "--only", "facts,tests,memory,steps,precisions,ops")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertTrue(summary["rehearsed"])
        self.assertEqual({name: piece["state"] for name, piece in summary["pieces"].items()},
                         {"facts": "ran", "tests": "ran", "memory": "left out", "steps": "ran", "precisions": "ran",
                          "ops": "ran"})
        self.assertGreater(summary["tests"]["passed"], 0)
        self.assertGreater(summary["ops"]["attention_backward_any_order_share"], 0)
        self.assertEqual(set(summary["ops"]["best_linear_flops_per_s"]), {"float32", "bf16"})
        self.assertEqual(set(summary["ops"]["unsupported"]), {"tf32", "fp16", "fp8"})
        text = (self.out / "summary.md").read_text()
        self.assertIn("no figure means anything", text)
        rates = {}
        for point in summary["points"]:
            name = f"{point['model']} {point['precision']}"
            rates[name] = point["samples_per_s"]
            self.assertIn(f"| {name} mb8 |", text)
            if point["precision"] in ("float32", "bf16"):
                self.assertGreater(point["samples_per_s"], 0, point)
            else:  # what the CPU has not
                self.assertEqual(point["verdict"]["status"], "unsupported", point)
                self.assertIn("unsupported: ", point["reason"])
                self.assertIn(point["reason"], text)
        self.assertEqual(len(rates), 6, rates)
        self.assertIn(f"| {rates['gpt2-tiny float32'] / rates['gpt2-tiny bf16']:.3f} |", text, "float32 against bf16")
        with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
            names = archive.getnames()
        for name in ("summary.md", "summary.json", "steps.log", "steps/gpt2-tiny-bf16/report.json"):
            self.assertIn("gpu-validate/" + name, names)
        again = self.validate("--rehearse")
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)

    def test_builds_in_place_where_it_is_told_to(self):
        tools, build = self.out.parent / "tools", self.out.parent / "made"
        tools.mkdir()
        stand_in = tools / "cmake"
        path = f"{tools}:{os.environ['PATH']}"
        stand_in.write_text("#!/bin/sh\necho 'no nvcc here' >&2\nexit 1\n")
        stand_in.chmod(0o755)
        done = self.validate("--make", "--rehearse", build=build, PATH=path)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"no nvcc here\n(.*\n)*gpu-validate: cmake -S .* failed")
        self.assertFalse(self.out.exists())
        stand_in.write_text(f'#!/bin/sh\necho "$@" >>"{tools}/said"\n[ "$1" != --build ] || {{ mkdir "$2" && ln -s "{support.BIN}" "$2/bin"; }}\n')
        done = self.validate("--make", "--rehearse", "--only", "facts", build=build, PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        configured, built = (tools / "said").read_text().splitlines()
        self.assertIn(f"-B {build}", configured)
        self.assertIn("-DTRAINWATT_CUDA=ON", configured)
        self.assertTrue(built.startswith(f"--build {build} "))

    def test_beside_pytorch(self):
        copy = self.out.parent / "copy"
        (copy / "scripts" / "lib").mkdir(parents=True)
        (copy / "torch").mkdir()
        (copy / "torch" / "__init__.py").write_text("__version__ = '0.0'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n")
        # Says what it was asked for; a stand-in for tf32 fails.
        (copy / "scripts" / "lib" / "torch_step.py").write_text(
            "import json, sys\n"
            "given = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
            "assert given['--micro-batch'] == '8' and given['--seq-len'] == '64', given\n"
            "print('noise')\n"
            "print(json.dumps({'model': given['--model'], 'samples_per_s': {'median': 10.0}, 'torch': '0.0'}))\n"
            "sys.exit(given['--precision'] == 'float32')\n")
        shutil.copy(SCRIPT, copy / "scripts")
        done = self.validate("--rehearse", "--only", "steps,torch,precisions,torch-rest", script=copy / "scripts" / "gpu-validate",
                             PYTHONPATH=copy)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        points = {(point["model"], point["precision"]): point for point in summary["points"]}
        point = points["gpt2-tiny", "bf16"]
        self.assertAlmostEqual(point["ratio_to_torch"], point["samples_per_s"] / 10)
        self.assertIn(f"| 10 | {point['ratio_to_torch']:.3f} |", (self.out / "summary.md").read_text())
        self.assertIn("exit code 1", points["gpt2-tiny", "float32"]["torch_reason"])
        self.assertNotIn("torch", points["gpt2-tiny", "fp8"], "what did not run is compared with nothing")
        self.assertIn("1 of 2 points compared, PyTorch 0.0", summary["pieces"]["torch"]["text"])

    def test_what_hangs_is_ended_and_what_it_finished_is_kept(self):
        module = load()
        build = self.out.parent / "build"
        (build / "bin").mkdir(parents=True)
        self.out.mkdir()
        # Finishes one precision, then hangs.
        record = {"workload": {"precision": "bf16", "global_batch": 4}, "trials": [], "verdict": {"status": "valid", "flags": [], "reasons": []},
                  "summary": {"samples_per_s": {"value": 5.0}}}
        program = build / "bin" / "trainwatt-train"
        program.write_text("#!/bin/bash\nwhile [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n"
                           f"mkdir -p $out; echo '{json.dumps(record)}' > $out/records.jsonl; exec sleep 1000\n")
        program.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, support.environment()):
            validation = module.Validation(argparse.Namespace(out=str(self.out), build=str(build), rehearse=True, budget=60))
        bad = validation.measure([module.Launch("gpt2-tiny", ["bf16", "float32"], 8, 64, 0.3, 3, 8)])
        self.assertEqual(bad, ["gpt2-tiny float32"])
        done, ended = validation.summary["points"]
        self.assertEqual(done["samples_per_s"], 5.0)
        self.assertEqual(ended["reason"], "ended after 8 s")

    def test_the_tests_of_the_label_gpu_are_those_that_run(self):
        texts = [path.read_text() for path in (SCRIPT.parents[1] / "tests").rglob("CMakeLists.txt")]
        labelled = {name: "*" for text in texts for name in re.findall(r"^\s*tw_test\((\w+) LABEL gpu", text, re.M)}
        labelled |= {name: "*cuda*" for text in texts for name in re.findall(r"^\s*tw_device_test\((\w+)", text, re.M)}
        self.assertEqual(load().GPU_TESTS, labelled)

    def test_a_program_that_runs_no_test_has_failed(self):
        module = load()
        build = self.out.parent / "build"
        (build / "tests").mkdir(parents=True)
        self.out.mkdir()

        def program(name, tests):
            path = build / "tests" / name
            path.write_text(f"#!/bin/bash\necho '[==========] {tests} from 1 test suite ran. (0 ms total)'\n"
                            f"echo '[  PASSED  ] {tests}.'\n")
            path.chmod(0o755)

        for name in module.GPU_TESTS:
            program(name, "2 tests")
        options = argparse.Namespace(out=str(self.out), build=str(build), rehearse=False, budget=60)
        self.assertEqual(module.Validation(options).tests(), f"{2 * len(module.GPU_TESTS)} passed, 0 failed, 0 skipped")
        program("cudnn_gpu_test", "0 tests")
        with self.assertRaisesRegex(module.Failed, r"cudnn_gpu_test \(no test ran\)"):
            module.Validation(options).tests()
        (build / "tests" / "cudnn_gpu_test").unlink()
        with self.assertRaisesRegex(module.Failed, r"cudnn_gpu_test \(not in the build\)"):
            module.Validation(options).tests()

    def test_one_rank_goes_through_nccl(self):
        module = load()
        build = self.out.parent / "build"
        (build / "bin").mkdir(parents=True)
        self.out.mkdir()
        program = build / "bin" / "trainwatt-train"

        def outcome(communicator, code=0, text=""):
            record = {"execution": {"communicator": communicator, "route": "NCCL 2.28.9"}, "summary": {"samples_per_s": {"value": 5.0}}}
            program.write_text("#!/bin/bash\n[[ $* == *'--comm nccl'* ]] || exit 9\n"
                               "while [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n"
                               f"rm -rf $out; mkdir -p $out; echo '{text}'; [ {code} = 0 ] && echo '{json.dumps(record)}' > $out/records.jsonl\n"
                               f"exit {code}\n")
            program.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, support.environment()):
                return module.Validation(argparse.Namespace(out=str(self.out), build=str(build), rehearse=False, budget=60)).nccl()

        self.assertEqual(outcome("nccl"), "NCCL 2.28.9")
        with self.assertRaisesRegex(module.Failed, "no throughput by NCCL"):
            outcome("self")
        with self.assertRaisesRegex(module.Failed, "exit code 4"):
            outcome("nccl", 4)
        with self.assertRaisesRegex(module.LeftOut, "NCCL is not here"):
            outcome("nccl", 3, "libnccl.so.2: cannot open")

    def test_all_precisions_are_planned_within_ten_minutes(self):
        module = load()
        planned = {(launch.model, precision) for launch in module.GOALS + module.PRECISIONS for precision in launch.precisions}
        for model in ("gpt2-124m", "gpt2-355m", "gpt2-1558m", "resnet-50"):
            for precision in ("float32", "tf32", "bf16", "fp16", "fp8"):
                self.assertEqual((model, precision) in planned, (model, precision) != ("resnet-50", "fp8"))
        self.assertEqual(sum(launch.window >= 60 for launch in module.GOALS), 2)
        windows = sum(launch.window * launch.trials * len(launch.precisions) for launch in module.GOALS + module.PRECISIONS)
        self.assertLess(windows, 180)

    def test_joules_of_a_sample(self):
        def row(scope, joules, counted=True):
            return {"scope": scope, "energy_j": joules, "uncertainty_j": None if joules is None else joules / 50, "counted": counted,
                    "method": "counter"}

        def record(*trials):
            return {"workload": {"global_batch": 4}, "trials": [{"step_time_s": [0.1] * 10, "energy": list(rows)} for rows in trials]}

        energy_of = load().energy_of
        one = energy_of(record([row("device", 100), row("device", 7, False), row("package", 60)], [row("device", 140), row("package", 60)]))
        self.assertEqual(one["scope"], "device")
        self.assertAlmostEqual(one["j_per_sample"], 240 / 80)
        self.assertAlmostEqual(one["uncertainty_share"], 0.02)
        self.assertEqual(energy_of(record([row("device", None), row("package", 60)]))["scope"], "package")
        self.assertIsNone(energy_of(record([])))
        self.assertIsNone(energy_of(record()))

    def test_a_piece_that_fails_costs_its_own_result_alone(self):
        build = self.out.parent / "build"
        (build / "bin").mkdir(parents=True)
        for name in ("trainwatt", "trainwatt-train"):
            (build / "bin" / name).symlink_to(support.BIN / name)
        done = self.validate("--rehearse", "--only", "ops,steps", build=build)
        self.assertEqual(done.returncode, 1, done.stderr)
        pieces = json.loads((self.out / "summary.json").read_text())["pieces"]
        self.assertEqual(pieces["ops"]["state"], "FAILED")
        self.assertIn("no trainwatt-ops", pieces["ops"]["text"])
        self.assertEqual(pieces["steps"]["state"], "ran")

    def test_no_time_is_told(self):
        done = self.validate("--rehearse", "--only", "facts,steps", "--budget", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no time was left", done.stdout)

    def test_without_a_gpu_it_says_so(self):
        if "GPU" in support.run("--device", "auto", "--model", "gpt2-tiny", "--dry-run").stderr:
            self.skipTest("there is a GPU")
        done = self.validate()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("the cuda device is not usable here", done.stderr)
        self.assertIn("--rehearse", done.stderr)

    def test_wrong_options(self):
        for args, word in ((["--only", "steps,tset"], "unknown piece 'tset'"), (["--budget", "-1"], "above 0")):
            done = self.validate(*args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
        done = self.validate("--rehearse", build=self.out.parent)
        self.assertEqual(done.returncode, 3)
        self.assertIn("no trainwatt in", done.stderr)


if __name__ == "__main__":
    unittest.main()
