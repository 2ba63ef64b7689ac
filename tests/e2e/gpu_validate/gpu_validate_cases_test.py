"""The piece tests of scripts/gpu-validate over stand-ins for the test programs: what it says of each case."""
import os
import unittest
import unittest.mock

from gpu_validate_script import Script, load


class Cases(Script):
    def test_a_program_that_runs_no_test_has_failed(self):
        module = load()
        build = self.out.parent / "build"
        (build / "tests").mkdir(parents=True)
        self.out.mkdir()

        def program(name, text, end="exit 0"):
            path = build / "tests" / name
            path.write_text(f"#!/bin/bash\nprintf '{text}'\n{end}\n")
            path.chmod(0o755)

        def outcome(**more):
            return module.Validation(self.options(build, **more)).tests()

        good = "[       OK ] A.one (3 ms)\\n[       OK ] A.two/0, where GetParam() = 1 (3 ms)\\n"
        for name in module.plan.GPU_TESTS:
            program(name, good)
        self.assertEqual(outcome(), f"{2 * len(module.plan.GPU_TESTS)} passed, 0 failed, 0 skipped")
        program("cudnn_gpu_test", "[==========] 0 tests from 0 test suites ran. (0 ms total)\\n[  PASSED  ] 0 tests.\\n")
        with self.assertRaisesRegex(module.Failed, r"cudnn_gpu_test \(no test ran\)"):
            outcome()
        program("cudnn_gpu_test", good + "[  FAILED  ] A.three (1 ms)\\n[  FAILED  ] A.three\\n", "exit 1")
        with self.assertRaisesRegex(module.Failed, r"passed, 1 failed, 0 skipped: A\.three; see"):
            outcome()
        # One that hangs costs the others nothing, and what it has done is told.
        program("cudnn_gpu_test", good, "exec sleep 1000")
        with self.assertRaisesRegex(module.Failed, rf"{2 * len(module.plan.GPU_TESTS)} passed.*cudnn_gpu_test \(timeout, 2 passed, 0 failed, "
                                                   r"unknown how many not reached\)"):
            outcome(budget=5, only="tests")
        (build / "tests" / "cudnn_gpu_test").unlink()
        with self.assertRaisesRegex(module.Failed, r"cudnn_gpu_test \(not in the build\)"):
            outcome()

    def test_the_cases_that_an_ended_program_did_not_reach_are_named(self):
        """Over stand-ins of GoogleTest's form: each is started once, and asked for its cases only if it was ended or fell."""
        module = load()
        build, said = self.out.parent / "build", self.out.parent / "said"
        (build / "tests").mkdir(parents=True)
        self.out.mkdir()
        lists = "Running main() from gtest_main.cc\nOwn/Steps.\n  Repeat/fp8  # GetParam() = fp8\n  Repeat/bf16  # GetParam() = bf16\n  Once\nA.\n  two\n"
        runs = ("[==========] Running 4 tests from 2 test suites.\n[ RUN      ] Own/Steps.Repeat/fp8\n[       OK ] Own/Steps.Repeat/fp8 (3 ms)\n"
                "[ RUN      ] Own/Steps.Repeat/bf16\n[  FAILED  ] Own/Steps.Repeat/bf16, where GetParam() = bf16 (1 ms)\n[ RUN      ] Own/Steps.Once\n")
        for name in module.plan.GPU_TESTS:
            path = build / "tests" / name
            path.write_text(f"#!/bin/bash\necho {name} $* $OMP_NUM_THREADS >>{said}\n[[ $* != *--gtest_list_tests ]] || {{ printf '{lists}'; exit; }}\n"
                            + (f"printf '{runs}'\nexec sleep 1000\n" if name == "cuda_steps_test" else
                               f"printf '{runs}'\nkill -9 $$\n" if name == "cudnn_gpu_test" else
                               "echo '[       OK ] A.one (3 ms)'\necho '[==========] 1 test from 1 test suite ran. (3 ms total)'\n"))
            path.chmod(0o755)
        for is_exclusive in (False, True):
            said.write_text("")
            with unittest.mock.patch.dict(os.environ):
                os.environ.pop("OMP_NUM_THREADS", None)
                validation = module.Validation(self.options(build, budget=20 if is_exclusive else 8, only="tests"))
            validation.is_exclusive = is_exclusive
            with self.assertRaisesRegex(module.Failed, r"^7 passed, 2 failed, 0 skipped, 4 not reached.*"
                                        r"cuda_steps_test \(timeout in Own/Steps\.Once, 1 passed, 1 failed, 2 not reached\), "
                                        r"cudnn_gpu_test \(exit code -9 in Own/Steps\.Once, 2 not reached\)"):
                validation.tests()
            self.assertEqual(validation.summary["tests"]["cases"]["cuda_steps_test"],
                             {"passed": ["Own/Steps.Repeat/fp8"], "failed": ["Own/Steps.Repeat/bf16"], "skipped": [],
                              "not_reached": ["Own/Steps.Once", "A.two"]})
            lines = said.read_text().splitlines()
            listed = [line.split()[0] for line in lines if "--gtest_list_tests" in line]
            self.assertEqual(sorted(listed), ["cuda_steps_test", "cudnn_gpu_test"])
            ran = [line for line in lines if "--gtest_list_tests" not in line]
            self.assertEqual(sorted(line.split()[0] for line in ran), sorted(module.plan.GPU_TESTS), "each was started once")
            if is_exclusive:
                self.assertEqual([line.split()[0] for line in ran], list(module.plan.GPU_TESTS), "most valuable first")
            else:
                self.assertEqual({line.split()[-1] for line in ran}, {str(max(1, os.cpu_count() // len(ran)))}, "they share the CPUs")


if __name__ == "__main__":
    unittest.main()
