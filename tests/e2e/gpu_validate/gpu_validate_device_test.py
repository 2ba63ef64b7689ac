"""scripts/gpu-validate on a GPU that is not the driver's first, not whole, or takes one process at a time; over stand-ins."""
import contextlib
import io
import json
import os
import pathlib
import sys
import unittest
import unittest.mock

import support
from gpu_validate_script import Script, load

TESTS_ALONE = "mkdir {0}/lock || exit 1; sleep 0.3; rmdir {0}/lock; echo '[       OK ] A.one (3 ms)'"


class Devices(Script):
    def setUp(self):
        super().setUp()
        self.build, self.tools = self.out.parent / "build", self.out.parent / "tools"
        self.out.mkdir()

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def validation(self, module, **more):
        return module.Validation(self.options(self.build, budget=support.HANG, **more))

    def driver(self, text):
        self.program(self.tools / "nvidia-smi", text)
        return unittest.mock.patch.dict(os.environ, support.environment(PATH=f"{self.tools}:{os.environ['PATH']}"))

    def found(self, module, **device):
        """A validation that has asked a stand-in for the program, which says that it trained on this device."""
        report = json.dumps({"context": {"devices": [{"name": "NVIDIA A", **device}]}})
        self.program(self.build / "bin" / "trainwatt-train",
                     f"while [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\nmkdir -p $out; echo '{report}' > $out/report.json")
        validation = self.validation(module)
        self.assertIsNone(validation.find_device())
        return validation

    def test_sizes_are_for_the_memory_of_the_device_that_trains(self):
        module = load()
        # The driver's first GPU is another one, with more memory.
        with self.driver("[[ $* == *memory* ]] && echo 143771 || echo 'GPU-b, Default'"):
            for mib, batch in ((81559, 8), (143771, 32), (18000, 8)):
                validation = self.found(module, uuid="GPU-a", memory_bytes=mib << 20)
                sizes = {one.micro_batch for one in validation.goals + validation.fp8_launches + validation.launches if one.model == "gpt2-1558m"}
                self.assertEqual(sizes, {batch}, mib)
                self.assertEqual(validation.summary["device"]["memory_mib"], mib)
            self.assertIsNone(self.found(module, uuid="GPU-a", memory_bytes=None).memory_mib)

    def test_the_facts_are_of_the_device_that_trains(self):
        module = load()
        section = "GPU {0}\\n    Product Name : NVIDIA {0}\\n    GPU UUID : GPU-{0}\\n    Current Power Limit : {1} W\\n"
        with self.driver(f"printf 'Driver Version : 580\\n{section.format('b', 300)}{section.format('a', 700)}'"):
            for uuid, limit in (("GPU-a", 700), ("GPU-b", 300)):
                self.assertRegex(self.found(module, uuid=uuid).facts(), rf"^NVIDIA A, driver 580, power limit {limit} W, ")

    def test_without_a_report_the_reason_is_told(self):
        self.program(self.build / "bin" / "trainwatt-train", "echo 'trainwatt-train: error[device-unusable]: no GPU' >&2; exit 3")
        self.assertEqual(self.validation(load()).find_device(), "trainwatt-train: error[device-unusable]: no GPU")

    def test_the_compute_mode_is_that_of_the_device(self):
        module = load()
        with self.driver("printf 'GPU-a, Default\\nGPU-b, Exclusive_Process\\n'"):
            for uuid, is_exclusive in (("GPU-a", False), ("GPU-b", True), ("MIG-c", True)):
                self.assertEqual(self.found(module, uuid=uuid).is_exclusive, is_exclusive, uuid)
        with self.driver("echo 'GPU-a, [N/A]'"):
            self.assertFalse(self.found(module, uuid="GPU-a").is_exclusive)
        with self.driver("echo 'Failed to initialize NVML, Exclusive_Process'; exit 9"):
            self.assertEqual(module.compute_mode("GPU-a"), "")

    def test_one_program_at_a_time_where_the_gpu_takes_no_more(self):
        module = load()
        for name in module.plan.GPU_TESTS:
            self.program(self.build / "tests" / name, TESTS_ALONE.format(self.out.parent))
        validation = self.validation(module)
        with self.assertRaisesRegex(module.Failed, r"\(no test ran\)"):  # at the same time, as the lock sees
            validation.tests()
        validation.is_exclusive = True
        self.assertEqual(validation.tests(), f"{len(module.plan.GPU_TESTS)} passed, 0 failed, 0 skipped, one program after another, because "
                         "the GPU takes one process at a time")
        # One that hangs leaves the others their time.
        self.program(self.build / "tests" / next(iter(module.plan.GPU_TESTS)), "exec sleep 1000")
        validation.options.budget = 20 + module.time.monotonic() - validation.start
        validation.reserved = 0
        with self.assertRaisesRegex(module.Failed, rf"^{len(module.plan.GPU_TESTS) - 1} passed.*: {next(iter(module.plan.GPU_TESTS))} \(timeout, 0 "):
            validation.tests()

    def test_a_build_is_for_the_gpus_that_programs_see(self):
        """By a stand-in for the driver, which has already applied CUDA_VISIBLE_DEVICES; its first GPU need not be that of nvidia-smi."""
        module = load()

        class Driver:
            def __init__(self, *capabilities, fails=None):
                self.capabilities, self.fails = capabilities, fails

            def cuInit(self, flags):
                return 100 if not self.capabilities else 0

            def cuDeviceGetCount(self, count):
                count._obj.value = len(self.capabilities)
                return 0

            def cuDeviceGet(self, device, index):
                device._obj.value = 40 + index
                return 0

            def cuDeviceGetAttribute(self, value, attribute, device):
                value._obj.value = self.capabilities[device.value - 40][{75: 0, 76: 1}[attribute]]
                return self.fails or 0

        for driver, expected in ((Driver((9, 0)), ["90"]), (Driver((12, 0), (9, 0), (12, 0)), ["120", "90"]), (Driver(), []), (Driver((9, 0), fails=1), [])):
            with unittest.mock.patch.object(module.ctypes, "CDLL", lambda name, driver=driver: driver):
                self.assertEqual(module.architectures(), expected)
        with unittest.mock.patch.object(module.ctypes, "CDLL", side_effect=OSError("libcuda.so.1: cannot open")):
            self.assertEqual(module.architectures(), [])
        # Only the driver is asked: nvidia-smi has GPUs that programs do not see.
        said = self.out.parent / "said"
        self.program(self.tools / "cmake", f'echo "$@" >>{said}')
        with self.driver("echo 8.0"):
            for capabilities, wanted in ((((9, 0), (10, 0)), "-DCMAKE_CUDA_ARCHITECTURES=90;100"), ((), None)):
                said.write_text("")
                with unittest.mock.patch.object(module.ctypes, "CDLL", lambda name, seen=capabilities: Driver(*seen)):
                    module.make(str(self.build))
                configured = said.read_text().splitlines()[0].split()
                self.assertEqual([word for word in configured if "ARCHITECTURES" in word], [wanted] if wanted else [])

    def test_a_ledger_without_an_answer_in_time_is_told(self):
        module = load()
        self.program(self.build / "bin" / "trainwatt", "echo 'warning: a driver of another version'; exec sleep 1000")
        validation = self.validation(module)
        point = {"model": "gpt2-124m", "precision": "bf16", "micro_batch": 32, "seq_len": 1024, "samples_per_s": 16.0, "step_time_s": 0.5,
                 "device": "NVIDIA H200", "report": "steps/a/report.json", "op_share": {}, "op_seconds": {}, "window_s": 2.0}
        with unittest.mock.patch.object(sys.modules["validation.profile"], "LEDGER_SECONDS", 0.3):
            self.assertEqual(validation.profile_of(point), "the ledger took longer than 0.3 s")

    def test_warnings_before_a_ledger_may_have_braces(self):
        load()
        least_times = sys.modules["validation.profile"].least_times
        warning = 'trainwatt: warning[report-note]: report.json: /plan: is {"a":1}\n'
        self.assertEqual(least_times('{"ledgers": ["a"]}'), "a")
        self.assertEqual(least_times(warning + '{\n  "ledgers": ["a"]\n}\n'), "a")
        for none in (warning, "", "1", "[1]"):
            self.assertIsNone(least_times(none))

    def test_two_ranks_are_not_asked_of_a_gpu_that_takes_one_process(self):
        module = load()
        self.program(self.build / "bin" / "trainwatt-train", "exit 1")
        validation = self.validation(module)
        validation.is_exclusive = True
        with unittest.mock.patch.object(module.Validation, "recomputed"), unittest.mock.patch.object(module.Validation, "accumulated"), \
                unittest.mock.patch.object(module.Validation, "too_large"):
            for check in ("recomputed", "accumulated", "too_large"):
                getattr(validation, check).__name__ = check
            self.assertEqual(validation.checks(), "two_ranks (skipped, the GPU takes one process at a time), recomputed, accumulated, too_large")

    def test_pytorch_compiles_beside_the_tests_only_what_leaves_them_room(self):
        module = load()
        large, small = ["gpt2-1558m", "llama3.2-1b"], ["gpt2-124m", "resnet-50"]

        def compiled(is_exclusive, memory_mib):
            validation = self.validation(module)
            validation.is_exclusive, validation.memory_mib, validation.no_torch = is_exclusive, memory_mib, ""
            validation.torch_command = lambda point, *_: ["true", point["model"]]
            validation.begin_compiling(is_beside=True)
            validation.begin_compiling(is_beside=True)
            beside = list(validation.compiled)
            validation.begin_compiling(is_beside=False)
            begun = validation.compiling.running
            validation.prepared_by = module.time.monotonic() + support.HANG
            validation.end_compiling()
            self.assertEqual([process.args[1] for process in begun], validation.compiled, "all, one after the other, none twice")
            self.assertEqual({process.returncode for process in begun}, {0})
            self.assertEqual(set(validation.compiled), {*large, *small})
            return beside

        self.assertEqual(compiled(False, 143771), small)
        self.assertEqual(compiled(False, None), small)
        self.assertEqual(compiled(False, 18000), [])
        self.assertEqual(compiled(True, 143771), [])

    def test_the_first_call_has_the_tests(self):
        """And the others leave them out, but not where they are asked for, and not in a rehearsal."""
        module = load()
        for more, is_elsewhere in (({"models": "gpt2-1558m"}, True), ({"models": "resnet-50,gpt2-124m"}, False), ({}, False),
                                   ({"models": "gpt2-1558m", "only": "asks,tests"}, False), ({"models": "gpt2-tiny", "rehearse": True}, False)):
            self.assertEqual(self.validation(module, **more).tested_elsewhere, is_elsewhere, more)
        validation = self.validation(module, models="bert-large")
        with unittest.mock.patch.object(module.plan, "PIECES", ("asks", "tests", "ratios")), contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(validation.pieces(), 0)
        pieces = validation.summary["pieces"]
        self.assertEqual({(piece["state"], piece["text"]) for name, piece in pieces.items() if name != "ratios"},
                         {("skipped", "run by the call with --models gpt2-124m, and where --only names it")})
        self.assertEqual(pieces["ratios"]["text"], "none of these networks has a goal")

    def test_a_ledger_that_fails_is_no_device_without_one(self):
        """Measured times are shown all the same; gpu_validate_test has a device that the list lacks."""
        module = load()
        self.program(self.build / "bin" / "trainwatt", "echo 'trainwatt: error[bad-file]: no profile' >&2; exit 2")
        validation = self.validation(module)
        point = {"model": "gpt2-124m", "precision": "bf16", "micro_batch": 32, "seq_len": 1024, "samples_per_s": 16.0, "step_time_s": 0.5,
                 "device": "NVIDIA H200", "report": "steps/a/report.json", "op_share": {"adamw": 0.4}, "op_seconds": {"adamw": 0.3}, "window_s": 2.0}
        validation.summary["points"].append(point)
        with self.assertRaisesRegex(module.Failed, r"^0 of 1 points have a profile.*; gpt2-124m bf16 mb32×1024: trainwatt: error\[bad-file\]: no profile$"):
            validation.profile()
        self.assertEqual(point["profile"]["operators"][0]["measured_s"], 0.3)
        self.assertIn("no profile", (pathlib.Path(validation.work) / "profiles" / "gpt2-124m-bf16.txt").read_text())


if __name__ == "__main__":
    unittest.main()
