"""scripts/gpu-validate when something happens that nobody foresaw: it costs one piece, and what was measured is kept."""
import contextlib
import io
import json
import os
import sys
import tarfile
import unittest
import unittest.mock

import support
from gpu_validate_script import Script, load


class Faults(Script):
    def build(self, **programs):
        """A folder with programs of these texts in bash; trainwatt-train only has to be there."""
        build = self.out.parent / "build"
        (build / "bin").mkdir(parents=True, exist_ok=True)
        for name, text in {"trainwatt-train": "exit 1", **programs}.items():
            (build / "bin" / name.replace("_", "-")).write_text(f"#!/bin/bash\n{text}\n")
            (build / "bin" / name.replace("_", "-")).chmod(0o755)
        return build

    def all_of(self, module, **more):
        validation = module.Validation(self.options(self.build(), rehearse=True, only="facts", **more))
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as wrong:
            return validation.all(), said.getvalue(), wrong.getvalue(), validation

    def test_a_result_of_another_form_costs_its_piece_alone(self):
        writes = "while [[ $1 != --benchmark_out=* ]]; do shift; done; echo '{}' > ${{1#*=}}"
        for written, error in (('{"benchmarks": [', "JSONDecodeError: Expecting value: "), ("{}", "KeyError: 'benchmarks'; ")):
            done = self.validate("--rehearse", "--only", "ops,torch-rest,profile", build=self.build(trainwatt_ops=writes.format(written)))
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            pieces = json.loads((self.out / "summary.json").read_text())["pieces"]
            self.assertEqual({name: piece["state"] for name, piece in pieces.items()},
                             {"ops": "FAILED", "torch-rest": "skipped", "profile": "skipped"})
            self.assertEqual(pieces["ops"]["text"][:len(error)], error)
            self.assertIn("see errors.log", pieces["ops"]["text"])
            with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
                errors = archive.extractfile("gpu-validate/errors.log").read().decode()
            self.assertRegex(errors, r"^ops:\nTraceback (.*\n)+ .* in timings\n(.*\n)*.*" + error.split(":")[0])
            self.assertIn("Traceback", done.stderr)
            for path in self.out.iterdir():
                path.unlink()

    def test_a_page_that_cannot_be_made_costs_no_result(self):
        module = load()
        with unittest.mock.patch.object(module.page, "page", side_effect=KeyError("verdict")):
            code, said, wrong, _ = self.all_of(module)
        self.assertEqual(code, 1)
        self.assertIn("This page could not be made: KeyError: 'verdict'; see errors.log", said)
        self.assertIn("Traceback", wrong)
        self.assertEqual(json.loads((self.out / "summary.json").read_text())["pieces"]["facts"]["state"], "ran")
        with tarfile.open(self.out / "gpu-validate.tar.gz") as archive:
            self.assertIn("gpu-validate/errors.log", archive.getnames())

    def test_without_an_archive_its_contents_stay(self):
        module = load()
        with unittest.mock.patch.object(module.tarfile, "open", side_effect=OSError(28, "No space left on device")):
            code, said, wrong, validation = self.all_of(module)
        self.assertEqual(code, 1)
        self.assertIn(f"all results: {validation.work}: the archive could not be written", said)
        self.assertIn("No space left on device", wrong)
        self.assertEqual(sorted(os.listdir(self.out)), ["gpu-validate", "summary.json", "summary.md"])

    def test_half_a_line_of_pytorch_leaves_the_lines_before_it(self):
        validation = load().Validation(self.options(self.build(), rehearse=True, budget=support.HANG))
        point = {"seq_len": None}
        prints = "print('{\"model\": 1, \"way\": \"a\"}')\nprint('{\"model\": 1, \"wa')"
        with unittest.mock.patch.object(validation, "torch_command", lambda *_: [sys.executable, "-c", prints]):
            self.assertEqual(validation.peer(point, support.HANG, "1"), {"model": 1, "way": "a"})
        prints = prints.split("\n")[1]
        with unittest.mock.patch.object(validation, "torch_command", lambda *_: [sys.executable, "-c", prints]):
            self.assertIsNone(validation.peer(point, support.HANG, "1"))
        self.assertEqual(point["torch_reason"], "exit code 0; see torch.log")

    def test_a_report_without_records_is_none(self):
        validation = load().Validation(self.options(self.build()))
        for text in ("{}", '{"records": [', ""):
            (self.out / "report.json").write_text(text)
            self.assertEqual(validation.records(self.out), [], text)
        (self.out / "records.jsonl").write_text('{"a": 1}\n{"a":')
        self.assertEqual(validation.records(self.out), [{"a": 1}])


if __name__ == "__main__":
    unittest.main()
