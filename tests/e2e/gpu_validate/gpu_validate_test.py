"""scripts/gpu-validate without a GPU: it refuses, with what to do; its flow on a GPU runs over stand-ins."""
import importlib
import json
import os
import pathlib
import re
import shutil
import sys
import tarfile
import unittest
import unittest.mock

import support
from gpu_validate_script import SCRIPT, Script, load


class GpuValidate(Script):
    def test_builds_in_place_where_it_is_told_to(self):
        tools, build = self.out.parent / "tools", self.out.parent / "made"
        tools.mkdir()
        stand_in = tools / "cmake"
        path = f"{tools}:{os.environ['PATH']}"
        stand_in.write_text("#!/bin/sh\necho 'no nvcc here' >&2\nexit 1\n")
        stand_in.chmod(0o755)
        done = self.validate("--make", "--rehearse", build=build, PATH=path)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"no nvcc here\n(.*\n)*gpu-validate: error\[build-failed\]: cmake -S .* failed")
        self.assertFalse(self.out.exists())
        stand_in.write_text(f'#!/bin/sh\necho "$@" >>"{tools}/said"\n[ "$1" != --build ] || {{ mkdir "$2" && ln -s "{support.BIN}" "$2/bin"; }}\n')
        done = self.validate("--make", "--rehearse", "--only", "facts", build=build, PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        configured, built = (tools / "said").read_text().splitlines()
        self.assertIn(f"-B {build}", configured)
        self.assertIn("-DTRAINWATT_CUDA=ON", configured)
        self.assertTrue(built.startswith(f"--build {build} "))

    def test_the_flow_on_a_gpu_over_stand_ins(self):
        """Everything that a rehearsal leaves out: no program computes, each writes what it was asked for."""
        copy, said = self.out.parent / "copy", self.out.parent / "said"
        build, tools = copy / "build", self.out.parent / "tools"
        shutil.copytree(SCRIPT.parent / "lib" / "validation", copy / "scripts" / "lib" / "validation")
        shutil.copy(SCRIPT.parent / "lib" / "errors.py", copy / "scripts" / "lib")
        shutil.copy(SCRIPT, copy / "scripts")

        def program(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!{sys.executable}\nimport json, os, sys\nopen({str(said)!r}, 'a').write(' '.join(sys.argv) + '\\n')\n"
                            "given = dict(zip(sys.argv, sys.argv[1:]))\n" + text)
            path.chmod(0o755)

        program(tools / "mpirun", "at = 1 + sys.argv.index('-np')\nos.execv(sys.argv[at + 1], sys.argv[at + 1:])\n")
        program(tools / "compute-sanitizer", "print('[       OK ] A.one')\nprint('========= ERROR SUMMARY: 0 errors')\n")
        program(tools / "nvidia-smi", "print('GPU 0: A (UUID: a)\\nGPU 1: A (UUID: b)' if sys.argv[1] == '--list-gpus' else '    Product Name : A')\n")
        for name in load().plan.GPU_TESTS:
            program(build / "tests" / name, "assert os.environ['TRAINWATT_REQUIRE_GPU'] == '1'\nprint('[       OK ] A.one')\n")
        program(build / "tests" / "suite_plans_test",
                "assert os.environ['TRAINWATT_REQUIRE_GPU'] == '1' and sys.argv[1:] == ['--gtest_filter=*cuda*']\n"
                "print('answer | linear 8 x 8 -> 8, fp16 | cuBLASLt; forward: algorithm 6; forward with bias: a plain product and own kernels')\n")
        program(build / "bin" / "trainwatt",
                "if sys.argv[1] == 'models':\n"
                "    assert given['--on'] == 'NVIDIA H200' and os.path.exists(given['--against']), given\n"
                "    rows = [{'operator': 'adamw', 'least_s': 0.05}, {'operator': 'classifier', 'least_s': 0.09}]\n"
                "    print('warning')\n"
                "    print(json.dumps({'ledgers': [{'device': 'NVIDIA H200', 'least_step_s': 0.25, 'operators': rows}]}) if '--json' in sys.argv else 'text')\n")
        program(build / "bin" / "trainwatt-ops", "json.dump({'benchmarks': [{'name': 'attention_backward/a/bf16', 'real_time': 1.0}]}, "
                "open([a for a in sys.argv if a.startswith('--benchmark_out=')][0].split('=')[1], 'w'))\n")
        program(build / "bin" / "trainwatt-train",
                "if '--export-step' in sys.argv:\n    sys.exit()\n"
                "assert os.environ['OMPI_MCA_odls_base_sigkill_timeout'] == '8' and given['--device'] == 'cuda'\n"
                "os.makedirs(given['--out'])\nrecords = []\n"
                "rate = 16.0 * {'1024': 1.25, '5': 0.5}.get(given.get('--bucket-mib'), 1)\n"
                "for batch in given['--micro-batch'].split(','):\n"
                "    for precision in given['--precision'].split(','):\n"
                "        failed = len(batch) > 4\n"
                "        records.append({'workload': {'precision': precision, 'global_batch': 8, 'micro_batch': int(batch)},\n"
                "            'trials': [] if failed else [{'step_time_s': [0.5] * 40, 'loss': [2.0], 'phase_s': {'communication': 0.02}, 'energy': [\n"
                "                {'counted': True, 'scope': 'device', 'energy_j': 100.0, 'uncertainty_j': 1.0, 'method': 'counter'}]}],\n"
                "            'execution': {'communicator': 'nccl', 'route': 'NCCL', 'recompute': True, 'step_mode': 'graph'},\n"
                "            'verdict': {'status': 'failed' if failed else 'valid', 'flags': ['shared_gpu'], 'reasons': []},\n"
                "            'summary': {'samples_per_s': {'value': rate}, 'of_ceiling': 0.8, 'mfu': 0.4, 'step_time_s': {'value': 0.5},\n"
                "                        'op_share': {'classifier': 0.2, 'adamw': 0.4, 'refresh': 0.1},\n"
                "                        'op_seconds': {'classifier': 0.1, 'adamw': 0.2, 'refresh': 0.04}}})\n"
                "json.dump({'records': records, 'context': {'devices': [{'name': 'NVIDIA H200'}]}}, open(os.path.join(given['--out'], 'report.json'), 'w'))\n")
        program(copy / "scripts" / "lib" / "torch_step.py",
                "rates = {'median': 10.0, 'blocks': [10.0] * 6}\n"
                "energy = None if given['--model'] == 'resnet-50' else {'scope': 'device', 'j_per_sample': 0.5, 'uncertainty_share': 0.02}\n"
                "print(json.dumps({'model': given['--model'], 'samples_per_s': rates, 'torch': '0.0', 'way': 'a', 'ways': {}, 'energy': energy,\n"
                "                  'energy_reason': None if energy else 'the energy counter did not change'}))\n")
        program(copy / "scripts" / "oracle" / "torch_check.py", "print('PASS\\n' * (len(sys.argv) - 1))\n")
        (copy / "torch").mkdir()
        (copy / "torch" / "__init__.py").write_text("__version__ = '0.0'\nclass cuda:\n    is_available = staticmethod(lambda: True)\n")
        done = self.validate(build=build, script=copy / "scripts" / "gpu-validate", PYTHONPATH=copy, PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.out / "summary.json").read_text())
        self.assertEqual({piece["state"] for piece in summary["pieces"].values()}, {"ran"}, summary["pieces"])
        points = {(point["model"], point["precision"], point.get("options")): point for point in summary["points"]}
        self.assertEqual(len(points), len(summary["points"]))
        for model in ("gpt2-124m", "gpt2-1558m", "llama3.2-1b", "resnet-50"):
            point = points[model, "bf16", None]
            self.assertEqual(point["ratio_to_torch"], 1.6)
            self.assertEqual(point["of_ceiling_values"], [0.8, 0.8, 0.8])  # before PyTorch, after it, and the window of 60 s
            self.assertGreaterEqual(point["window_s"], 60)
            # Of 320 samples for 100 J.
            self.assertEqual((point["joules_ratio_to_torch"], point["joules_reason"]),
                             (None, "PyTorch's steps have no joules: the energy counter did not change") if model == "resnet-50" else (0.625, None))
            if model != "resnet-50":
                self.assertEqual(points[model, "bf16", "--deterministic no"]["joules_ratio_to_torch"], 0.625)
                self.assertEqual(points[model, "bf16", "--deterministic no"]["ratio_to_torch_range"], [1.6, 1.6], "PyTorch adds in any order")
        self.assertNotIn(("resnet-50", "bf16", "--deterministic no"), points)
        self.assertEqual(points["dlrm", "bf16", "--table-rows-at-most 10000000"]["torch_reason"], "torch_step.py does not have this network")
        self.assertEqual(points["dlrm", "float32", "--table-rows-at-most 10000000"]["ratio_to_bf16"], 1)
        self.assertIn("ratio_to_torch", points["bert-large", "bf16", None])
        self.assertEqual({(goal["goal"], goal["state"]) for goal in summary["goals"]},
                         {(f"{model} bf16: samples/s ÷ compiled PyTorch", "reached") for model in ("gpt2-124m", "gpt2-1558m", "llama3.2-1b", "resnet-50")}
                         | {("gpt2-1558m bf16: MFU", "missed"), ("gpt2-1558m bf16: FLOP/s ÷ FLOP/s of its products alone", "reached"),
                            ("gpt2-1558m fp8: samples/s ÷ bf16", "missed")}, "fp8 is as fast as bf16 here")
        self.assertEqual(summary["asks"], {"asked": 1, "refused": [], "epilogues_refused": ["linear 8 x 8 -> 8, fp16: forward with bias"]})
        # First on all GPUs, then on one.
        sizes = [(1, 25), (1.25, 1024), (1, 100), (0.5, 5)]
        self.assertEqual([(one["ranks"], one["ratio_to_default"], one["bucket_mib"]) for one in summary["buckets"]["sizes"]],
                         [(ranks, *one) for ranks in (2, 1) for one in sizes])
        self.assertEqual(summary["pieces"]["buckets"]["text"], "8 of 8 sizes measured; fastest on 2 ranks: 1024 MiB, 1.250 × the default of 25; "
                         "fastest on 1 rank: 1024 MiB, 1.250 × the default of 25")
        text = (self.out / "summary.md").read_text()
        self.assertIn("\ngpt2-124m bf16 mb32×1024:\n", text)
        self.assertIn("| 2 | 1024 | nccl | graph | 500 ms | 20 ms | 20 | 1.250 | – |", text)
        self.assertRegex(text, r"\n\| gpt2-124m bf16 mb32×1024 \|.*\| 0\.3125 ± 1\.0% \| 0\.5 ± 2\.0% \| 0\.625 ± 2\.2% \| ")
        self.assertRegex(text, r"\n\| resnet-50 bf16 mb256 \|.*\| – \| – \| .*J ÷ PyTorch: PyTorch's steps have no joules: the energy counter did not change")
        self.assertIn("| gpt2-124m bf16: samples/s ÷ compiled PyTorch | ≥ 1.25 | 1.600 [1.600 … 1.600] | reached | – |", text)
        self.assertIn("| gpt2-1558m bf16: MFU | ≥ 0.53 | 0.400 | **MISSED** | – |", text)
        # adamw has the larger share, and also more time above its least; refresh is not in the ledger.
        self.assertIn("| gpt2-124m bf16 mb32×1024 | 500 ms | 250 ms | adamw 150 ms (4.0 × its least time); classifier 10 ms (1.1 × its least time) "
                      "| refresh 40 ms | 30% |", text)
        with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
            profile = archive.extractfile("gpu-validate/profiles/gpt2-124m-bf16-no.txt").read().decode()
            asked = archive.extractfile("gpu-validate/asks.txt").read().decode()
        self.assertEqual(asked, "linear 8 x 8 -> 8, fp16\n    cuBLASLt\n    forward: algorithm 6\n    forward with bias: a plain product and own kernels\n")
        self.assertRegex(profile, r"adamw +40\.0% +200 ms +50 ms +4\.00 +150 ms\n(.*\n)+text")
        lines = said.read_text().splitlines()
        compiled = [line for line in lines if "--compile-only" in line]
        self.assertEqual(len(compiled), 4, lines)
        # Beside the tests what leaves them room, behind them what fills the GPU.
        last_test = max(at for at, line in enumerate(lines) if line.startswith(f"{build}/tests/"))
        for model in ("gpt2-1558m", "llama3.2-1b"):
            self.assertLess(last_test, next(lines.index(line) for line in compiled if model in line))
        self.assertTrue(any("gpt2-1558m" in line and "--ways 16-bit-cudnn,float32" in line for line in compiled), compiled)

        def first(*words):
            return next(at for at, line in enumerate(lines) if all(word in line for word in words))

        # Ours, PyTorch's, ours in any order, ours; all that is compiled is compiled before.
        timed = first("bin/trainwatt-train", "gpt2-124m", "--window 2.0")
        self.assertLess(max(lines.index(line) for line in compiled), timed)
        self.assertLess(timed, first("torch_step.py", "gpt2-124m", "--seconds"))
        any_order = first("bin/trainwatt-train", "gpt2-124m", "--deterministic no")
        self.assertLess(first("torch_step.py", "gpt2-124m", "--seconds"), any_order)
        self.assertLess(any_order, first("bin/trainwatt-train", "gpt2-124m", "gpt2-124m-bf16-again"))
        self.assertLess(first("torch_step.py", "resnet-50", "--seconds"), first("bin/trainwatt-train", "gpt2-124m", "--window 60"))
        # The exchange, behind all that has a goal and in front of all else.
        self.assertLess(first("bin/trainwatt-train", "--window 60"), first("mpirun", "-np 2", "--comm nccl --bucket-mib 25"))
        self.assertLess(first("mpirun", "-np 1", "--comm nccl --bucket-mib 5"), first("bin/trainwatt-train", "bert-large"))

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
        with unittest.mock.patch.dict(os.environ, support.environment(OMPI_MCA_odls_base_sigkill_timeout="1")):
            validation = module.Validation(self.options(build, rehearse=True))
        bad = validation.measure([module.plan.Launch("gpt2-tiny", ["bf16", "float32"], 8, 64, 0.3, 3, 30)])
        self.assertEqual(bad, ["gpt2-tiny float32"])
        done, ended = validation.summary["points"]
        self.assertEqual(done["samples_per_s"], 5.0)
        self.assertEqual(ended["reason"], "timeout after 30 s")

    def test_the_tests_of_the_label_gpu_are_those_that_run(self):
        texts = [path.read_text() for path in (SCRIPT.parents[1] / "tests").rglob("CMakeLists.txt")]
        labelled = {name: "*" for text in texts for name in re.findall(r"^\s*tw_test\((\w+) LABEL gpu", text, re.M)}
        labelled |= {name: "*cuda*" for text in texts for name in re.findall(r"^\s*tw_device_test\((\w+)", text, re.M)}
        plan = load().plan
        self.assertEqual(plan.ASKS | {name: test.wanted for name, test in plan.GPU_TESTS.items()}, labelled)

    def test_a_product_without_an_algorithm_fails_the_asking(self):
        module = load()
        build = self.out.parent / "build"
        (build / "tests").mkdir(parents=True)
        self.out.mkdir()
        path = build / "tests" / "suite_plans_test"

        def outcome(text, end="exit 0"):
            path.write_text(f"#!/bin/bash\nprintf '{text}'\n{end}\n")
            path.chmod(0o755)
            validation = module.Validation(self.options(build, budget=support.HANG))
            try:
                return validation.asks(), validation.summary["asks"]
            except module.Failed as error:
                return str(error), validation.summary["asks"]

        both = "answer | linear a | cuBLASLt; forward: algorithm 1\nanswer | linear b | refused: none\n"
        text, summary = outcome(both, "exit 1")
        self.assertIn("2 shapes asked for, 1 refused, 0 epilogues replaced by own kernels; see asks.txt; exit code 1", text)
        self.assertEqual(summary["refused"], ["linear b"])
        self.assertIn("0 shapes asked for", outcome("[  PASSED  ] 0 tests.\n")[0])
        path.unlink()
        with self.assertRaisesRegex(module.Failed, "suite_plans_test is not in the build"):
            module.Validation(self.options(build)).asks()

    def test_a_memory_check_of_no_test_has_failed(self):
        module = load()
        build, tools = self.out.parent / "build", self.out.parent / "tools"
        for folder in (build / "tests", tools):
            folder.mkdir(parents=True)
        for path in (build / "tests" / "compute_operators_test", tools / "compute-sanitizer"):
            path.write_text("#!/bin/bash\necho '========= ERROR SUMMARY: 0 errors'\n")
            path.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}"):
            with self.assertRaisesRegex(module.Failed, "no test ran"):
                module.Validation(self.options(build)).memory()
            (tools / "compute-sanitizer").write_text("#!/bin/bash\necho '[       OK ] A.one'\necho '========= ERROR SUMMARY: 0 errors'\n")
            self.assertEqual(module.Validation(self.options(build)).memory(), "ERROR SUMMARY: 0 error in 1 tests")

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
            with unittest.mock.patch.dict(os.environ, support.environment(OMPI_MCA_odls_base_sigkill_timeout="1")):
                return module.Validation(self.options(build)).nccl()

        self.assertEqual(outcome("nccl"), "NCCL 2.28.9")
        with self.assertRaisesRegex(module.Failed, "no throughput with NCCL"):
            outcome("self")
        with self.assertRaisesRegex(module.Failed, "exit code 4"):
            outcome("nccl", 4)
        with self.assertRaisesRegex(module.LeftOut, "NCCL is not installed"):
            outcome("nccl", 3, "libnccl.so.2: cannot open")

    def test_all_precisions_are_planned(self):
        plan = load().plan
        planned = [(goal.model, goal.precision) for goal in plan.GOALS]
        planned += [(launch.model, precision) for launch in plan.FP8 + plan.PRECISIONS for precision in launch.precisions]
        self.assertEqual(len(planned), len(set(planned)))
        for model in ("gpt2-124m", "gpt2-1558m", "llama3.2-1b", "bert-large", "resnet-50", "inception-v3"):
            for precision in ("float32", "tf32", "bf16", "fp16", "fp8"):
                self.assertEqual((model, precision) in planned, precision != "fp8" or model not in ("resnet-50", "inception-v3"))
        self.assertIn(("dlrm", "bf16"), planned)
        self.assertEqual(set(plan.RATIO_GOALS), {(goal.model, goal.precision) for goal in plan.GOALS})
        self.assertEqual(plan.RATIO_GOALS, {("gpt2-124m", "bf16"): 1.25, ("gpt2-1558m", "bf16"): 1.25, ("llama3.2-1b", "bf16"): 1.25,
                                            ("resnet-50", "bf16"): 1.1})
        self.assertEqual((plan.MFU_GOALS["gpt2-1558m", "bf16"], plan.FP8_GOALS["gpt2-1558m"]), (0.53, 1.25))
        # A network has one size everywhere, also on a smaller GPU.
        for memory in (None, 143771, 81559):
            sizes = {(one.model, plan.fitting(one, memory).micro_batch) for one in plan.GOALS + plan.FP8 + plan.PRECISIONS}
            self.assertEqual(len(sizes), len(dict(sizes)), sizes)
            self.assertIn(("gpt2-1558m", 8 if memory == 81559 else 32), sizes)

    def test_the_calls_of_the_manual_have_time_for_all_that_has_a_goal(self):
        module = load()
        measured = []
        for models in module.plan.CALLS:
            self.assertIn(f"--models {models}\n", module.__doc__)
            validation = module.Validation(self.options(self.out, models=models, budget=540))
            # Some seconds are for the step that asks which device this is.
            self.assertLessEqual(sum(seconds for _, seconds in validation.shares) + module.plan.PROFILING, 540 - 10, validation.shares)
            self.assertEqual(("preparing", module.plan.PREPARING) in validation.shares, models == "gpt2-124m", "who runs the tests")
            measured += [what for what, _ in validation.shares]
            # Whatever takes all that it is allowed leaves the others their shares.
            clock = validation.start
            with unittest.mock.patch.object(module.time, "monotonic", lambda: clock):
                for what, seconds in validation.shares:
                    allowed = validation.allowed(what)
                    self.assertGreaterEqual(allowed, seconds, what)
                    clock += allowed
                    self.assertGreaterEqual(validation.left(), -1e-6, what)
                validation.reserved = 0
                self.assertGreaterEqual(validation.left(), module.plan.PROFILING - 1e-6)
        for goal in module.plan.GOALS:
            self.assertIn(f"{goal.model} ours", measured)
            self.assertIn(f"{goal.model} torch", measured)
            self.assertEqual(f"{goal.model} any-order" in measured, goal.has_attention)
            # The window is the last block of trainwatt.
            self.assertIn(f"{goal.model} energy", measured)
            self.assertNotIn(f"{goal.model} again", measured)
        self.assertIn("gpt2-1558m fp8", measured)
        # A call whose time ends before the window has it by itself.
        alone = module.Validation(self.options(self.out, models="gpt2-1558m", only="energy", budget=540))
        self.assertEqual(alone.shares, [("gpt2-1558m energy", 150)])
        planned = {one.model for made in module.planned(False) for one in made}
        self.assertEqual({model for models in module.plan.CALLS for model in models.split(",")}, planned)
        listed = re.search(r"--models NAMES +any of: ([^(]*) \(default", module.__doc__).group(1)
        self.assertEqual(set(listed.split(", ")), planned)
        rehearsed = {one.model for made in module.planned(True) for one in made}
        listed = re.search(r"Its networks, also for --models, are tiny:\s+(.*)\n", module.__doc__).group(1)
        self.assertEqual(set(listed.split(", ")), rehearsed)
        listed = re.search(r"--only PIECES +any of: ([^;]*);", module.__doc__).group(1)
        self.assertEqual(tuple(re.split(r",\s+", listed)), module.plan.PIECES)

    def test_times_of_a_device_are_beside_its_own_ledger(self):
        """The real `trainwatt models --against`, with a report of a rehearsal that says it came from a GPU of the list."""
        module = load()
        build = support.BIN.parent
        with unittest.mock.patch.dict(os.environ, support.environment()):
            rehearsal = module.Validation(self.options(build, rehearse=True))
            self.assertEqual(rehearsal.measure([module.plan.Launch("gpt2-tiny", ["float32"], 8, 64, 0.2, 3, support.HANG)]), [])
        path = pathlib.Path(rehearsal.work) / "steps" / "gpt2-tiny-float32" / "report.json"
        report = json.loads(path.read_text())
        for device in report["context"]["devices"]:
            device["name"] = "NVIDIA H200"
        path.write_text(json.dumps(report))
        validation = module.Validation(self.options(build))
        point = rehearsal.summary["points"][0]
        validation.summary["points"] = [point]
        self.assertNotEqual(point["device"], "NVIDIA H200")
        # On a CPU, which has no ledger.
        self.assertIn(f"1 of 1 points have a profile, in profiles/ of the archive; no least times of {point['device']}, which", validation.profile())
        self.assertIsNone(point["profile"]["least_times_of"])
        for row in point["profile"]["operators"]:
            self.assertEqual(row["measured_s"], point["op_seconds"][row["operator"]])
            self.assertEqual((row["least_s"], row["times_least"], row["above_least_s"]), (None, None, None))
        longest = point["profile"]["operators"][0]
        self.assertIn(f" | – | not known for this device | {longest['operator']} {module.page.seconds(longest['measured_s'])}",
                      module.page.page({**validation.summary, "pieces": {}}))
        text = (pathlib.Path(validation.work) / "profiles" / "gpt2-tiny-float32.txt").read_text()
        self.assertIn("; no least times of this device\n", text)
        self.assertIn("error[unknown-name]: --on ", text)
        point["device"] = validation.device_of("gpt2-tiny-float32")
        validation.profile()
        profile = point["profile"]
        self.assertTrue(profile["is_comparable"])
        for row in profile["operators"]:
            self.assertEqual(row["measured_s"], point["op_seconds"][row["operator"]])
            self.assertGreater(row["measured_s"], 0)
            if row["least_s"]:
                self.assertAlmostEqual(row["above_least_s"], row["measured_s"] - row["least_s"])
        top = module.figures.furthest(profile)
        self.assertEqual(len(top), 3)
        self.assertEqual([row["above_least_s"] for row in top],
                         sorted((row["above_least_s"] for row in profile["operators"] if row["least_s"]), reverse=True)[:3])
        self.assertIn(f"| {top[0]['operator']} ", module.page.page({**validation.summary, "pieces": {}}))

    def test_what_is_unsupported_is_known_without_a_record(self):
        load()  # makes its modules importable
        why_ended = importlib.import_module("validation.steps").why_ended
        mpirun = "-----\nmpirun detected that one or more processes exited\n-----\n"
        self.assertEqual(why_ended(3, "trainwatt-train: error[unsupported]: cpu has no fp8\n" + mpirun), "unsupported: cpu has no fp8")
        self.assertEqual(why_ended(4, "trainwatt-train: error[bad-value]: no\n" + mpirun), "exit code 4: trainwatt-train: error[bad-value]: no")
        self.assertEqual(why_ended(1, "mpirun: no such file\n"), "exit code 1: mpirun: no such file")
        self.assertEqual(why_ended(1, "\n"), "exit code 1: no output")

    def test_blocks_of_steps(self):
        figures = load().figures
        record = {"workload": {"global_batch": 4}, "trials": [{"step_time_s": [0.5, 0.25, 0.25, 0.5, 0.5, 0.5, 9.0]}, {"step_time_s": [1.0]}]}
        self.assertEqual(figures.blocks_of(record, 1.5), [16, 8, 4])  # three steps each; of the second trial there is one
        self.assertEqual(figures.block_ratios([4, 6], [9, 8, 7], [2, 3, 4]), [2, 2, 2.25])
        self.assertEqual(figures.block_ratios([4, 6], [], [2, 3]), [2, 2])
        self.assertEqual(figures.block_ratios([], [4], []), [])

    def test_pytorch_finds_its_own_libraries_first(self):
        root = self.out.parent
        for folder, name in (("ours", "libcudnn.so.9"), ("blas", "libcublas.so.13"), ("driver", "libcuda.so.1"), ("mpi", "libmpi.so")):
            (root / folder).mkdir()
            (root / folder / name).touch()
        (root / "driver" / "libcudnn.so.9").touch()
        path = ":".join(str(root / name) for name in ("ours", "driver", "blas", "mpi", "absent")) + ":"
        self.assertEqual(load().without_libraries(path), ":".join(str(root / name) for name in ("driver", "mpi", "absent")))

    def test_joules_of_a_sample(self):
        def row(scope, joules, counted=True):
            return {"scope": scope, "energy_j": joules, "uncertainty_j": None if joules is None else joules / 50, "counted": counted,
                    "method": "counter"}

        def record(*trials):
            return {"workload": {"global_batch": 4}, "trials": [{"step_time_s": [0.1] * 10, "energy": list(rows)} for rows in trials]}

        energy_of = load().figures.energy_of
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
        done = self.validate("--rehearse", "--only", "ops,ratios", build=build)
        self.assertEqual(done.returncode, 1, done.stderr)
        pieces = json.loads((self.out / "summary.json").read_text())["pieces"]
        self.assertEqual(pieces["ops"]["state"], "FAILED")
        self.assertIn("no trainwatt-ops", pieces["ops"]["text"])
        self.assertEqual(pieces["ratios"]["state"], "ran")

    def test_no_time_is_told(self):
        done = self.validate("--rehearse", "--only", "facts,ratios", "--budget", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no time was left", done.stdout)

    def test_without_a_gpu_it_says_so(self):
        if "GPU" in support.run("--device", "auto", "--model", "gpt2-tiny", "--dry-run").stderr:
            self.skipTest("there is a GPU")
        done = self.validate()
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("error[device-unusable]: ", done.stderr)
        self.assertIn("--rehearse", done.stderr)

    def test_the_manual_and_help_are_what_a_call_takes(self):
        module = load()
        manual = (SCRIPT.parents[1] / "models" / "README.md").read_text()
        # Its first item, like the list of pieces, begins with facts; each piece is in one item.
        items = re.findall(r"^\d\. \*\*([^*]*)\*\*:", manual[manual.index("\n## gpu-validate\n"):], re.M)
        self.assertEqual(tuple(name for item in items[:6] for name in item.split(", ")), module.plan.PIECES)
        # Its calls name networks that these calls know.
        calls = re.findall(r"^scripts/gpu-validate (.*?) +# .*$", manual, re.M)
        rehearsals = [call for call in calls if "--rehearse" in call]
        self.assertEqual(len(rehearsals), 1, calls)
        for call in calls:
            known = {one.model for made in module.planned(call in rehearsals) for one in made}
            self.assertLessEqual({name for names in re.findall(r"--models (\S+)", call) for name in names.split(",")}, known, call)
        done = self.validate("--rehearse", "--models", "gpt2-124m")
        self.assertIn("unknown network 'gpt2-124m' in --models of a rehearsal; known: gpt2-tiny, resnet-tiny, ", done.stderr)
        # --help is the description, with one form of usage, and says what each option does.
        said = self.validate("--help").stdout
        self.assertEqual(said, module.__doc__.strip() + "\n")
        for option in re.findall(r'add_argument\("(--[a-z-]+)"', SCRIPT.read_text()):
            self.assertRegex(said, rf"\n    {option}( [A-Z]+)? {{2,}}\w", option)

    def test_wrong_options(self):
        for args, code, word in ((["--only", "ratios,tset"], "unknown-name", "'tset'"), (["--budget", "-1"], "bad-value", "--budget"),
                                 (["--budget", "long"], "bad-value", "--budget"), (["--models", "gpt3"], "unknown-name", "'gpt3'"),
                                 (["--biuld", "x"], "unknown-option", "--biuld")):
            done = self.validate(*args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"^gpu-validate: error\[{code}\]: .*{word}")
        done = self.validate("--rehearse", build=self.out.parent)
        self.assertEqual(done.returncode, 3)
        self.assertIn("error[build-missing]: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
