"""What `validate` faults no other subcommand takes for granted; and flags cannot be taken out of a report."""
import copy
import hashlib
import json
import unittest

import subprocess

from fake_node import FakeNode
from kit_test import FOLDER, packed, unpacked
from support import BIN, HANG, Case, environment, mpirun, run, said, said_codes, tool

NOTHING = 4


def scaled(factor):
    def change(report):
        for record in report["records"]:
            summary = record["summary"]
            summary["model_flops_per_sample"] *= factor
            for key in ("value", "low", "high"):
                summary["flops_per_s"][key] *= factor
            if summary["of_ceiling"]:
                summary["of_ceiling"] *= factor
    return change


def faster(report):
    report["records"][0]["summary"]["samples_per_s"]["value"] *= 2


def other_network(report):
    for record in report["records"]:
        record["workload"]["parameters"] += 1


def other_plan(report):
    report["plan"]["sha256"] = "0" * 64


def flag_of_nothing(report):
    report["records"][0]["verdict"]["flags"].append("throttled")


class Forged(Case):
    report_text = None

    def setUp(self):
        super().setUp()
        self.run_folder, other = self.folder / "run", self.folder / "other"
        for out in (self.run_folder, other):
            self.assert_ran(run("--model", "gpt2-tiny", "--seq-len", 16, "--micro-batch", 2, "--steps", 3, "--trials", 5, "--warmup", 1, "--threads", 1,
                                "--out", out))
        self.good = self.run_folder / "report.json"
        self.reference = self.folder / "reference.json"
        report = json.loads((other / "report.json").read_text())
        report["program"]["git_commit"] = "0" * 12
        report["context"]["launch"] = "another"
        for record in report["records"]:
            record["launch"] = "another"
        self.reference.write_text(json.dumps(report))
        self.assert_ran(tool("validate", self.reference))
        self.prices = self.folder / "prices.json"
        self.prices.write_text(json.dumps({"currency": "EUR", "systems": {"a": {"rent_per_month": 1, "electricity_included": True}}}))

    def readers(self, path, name):
        """Each subcommand's process but `validate` and `compare`."""
        yield "html", tool("html", path, "-o", self.folder / f"{name}.html")
        yield "export", tool("export", path, "--to", "csv", "-o", self.folder / name)
        yield "cost", tool("cost", path, "--prices", self.prices)
        yield "show", tool("show", path)

    def assert_found_by_all(self, path, name, words):
        process = tool("validate", path)
        self.assert_ran(process, 1)
        self.assertIn(words, said(process))
        self.assertEqual(process.stderr, "", "one stream")
        compared = tool("compare", self.reference, path)
        self.assert_ran(compared, NOTHING)
        self.assertIn("validation", compared.stdout)
        difference = next(d for d in json.loads(tool("compare", self.reference, path, "--json").stdout)["differences"] if d["what"] == "validation")
        self.assertTrue(difference["blocking"])
        self.assertIn(words, difference["system_value"])
        for reader, process in self.readers(path, name):
            with self.subTest(reader=reader):
                self.assert_ran(process)
                self.assertIn("report-faulty", said_codes(process.stderr, "warning"))
                self.assertIn(difference["system_value"].split(" and ")[0][:50], process.stderr)

    def test_reports(self):
        for change, words in ((scaled(1.2), "/summary/model_flops_per_sample: is"), (faster, "/records/0/summary/samples_per_s/value"),
                              (other_network, "/workload/hash: is not"), (other_plan, "/plan/sha256"), (flag_of_nothing, "/records/0/verdict")):
            with self.subTest(change=words):
                report = json.loads(self.good.read_text())
                change(report)
                path = self.folder / "forged.json"
                path.write_text(json.dumps(report))
                self.assert_found_by_all(path, f"f{words.replace('/', '-')[:20]}", words)

    def test_bundles_whose_files_contradict_each_other(self):
        offer, forged = self.folder / "offer.tar.zst", self.folder / "forged.tar.zst"
        self.assert_ran(tool("bundle", self.run_folder, "-o", offer))
        self.assert_ran(tool("compare", self.reference, offer))
        files = unpacked(offer)

        def number(text):
            record = json.loads(text.splitlines()[0])
            record["trials"][0]["step_time_s"][0] *= 0.5
            return json.dumps(record).encode() + b"\n"
        cases = {"records.jsonl": number, "environment.json": lambda text: text.replace(b'"hosts"', b'"guests"', 1),
                 "run.json": lambda text: json.dumps({**json.loads(text), "program": {"name": "x", "version": "9", "git_commit": "y"}}).encode(),
                 "records": None}
        for number, (name, change) in enumerate(cases.items()):
            with self.subTest(file=name):
                changed = dict(files)
                if change:
                    changed[FOLDER + name] = change(changed[FOLDER + name])
                    self.assertNotEqual(changed[FOLDER + name], files[FOLDER + name])
                else:
                    del changed[FOLDER + "records.jsonl"]
                changed[FOLDER + "SHA256SUMS"] = "".join(
                    f"{hashlib.sha256(text).hexdigest()}  {file.removeprefix(FOLDER)}\n" for file, text in sorted(changed.items())
                    if "SHA256SUMS" not in file).encode()
                packed(forged, sorted(changed.items()))
                self.assert_found_by_all(forged, f"b{number}", name if change else "records.jsonl: is missing")

    def test_flags_that_were_taken_out_count(self):
        """Whatever the report says of its program."""
        for commit in (None, "0" * 12):
            report = json.loads(self.good.read_text())
            report["program"]["git_commit"] = commit or report["program"]["git_commit"]
            for trial in report["records"][0]["trials"]:
                trial["foreign_share"] = 0.5
            report["records"][0]["verdict"]["flags"] = []
            path = self.folder / "stripped.json"
            path.write_text(json.dumps(report))
            process = tool("validate", path)
            self.assert_ran(process)
            self.assertIn('the samples give "busy_host", which the report leaves out', said(process))
            self.assertIn('the plan gives "steps_given", which the report leaves out', said(process))
            compared = json.loads(tool("compare", self.reference, path, "--json").stdout)
            flag = next(d for d in compared["differences"] if d["what"] == "flag busy_host")
            self.assertEqual(flag["system_value"], "yes")
            self.assertIn("note of validation", [d["what"] for d in compared["differences"]])
            self.assertIn("busy_host", tool("show", path).stdout)
            for reader, process in self.readers(path, f"s{commit}"):
                self.assert_ran(process)
                self.assertIn("report-note", said_codes(process.stderr, "warning"), reader)

    def test_an_unstable_point_blocks_though_its_flag_is_gone(self):
        report = json.loads(self.good.read_text())
        plan = json.loads(report["plan"]["canonical_json"])
        record = json.loads(self.reference.read_text())["records"][0]  # measured by itself
        record["launch"] = report["context"]["launch"]
        point = copy.deepcopy(plan["points"][0])
        host = report["context"]["hosts"][0]["name"]
        record["id"] = point["id"] = record["id"] + "/gpu_clock=900"
        record["setting"]["gpu_clock_mhz"] = {"requested": 900, "accepted": 900, "observed": 900, "devices": [
            {"host": host, "domain": "nvml:GPU-1", "accepted": 900, "observed": 900, "reason": ""}]}
        point["setting"] = {"gpu_clock_mhz": 900}
        last = report["records"][0]["trials"][-1]
        report["context"]["finished_at"] = "2999-01-01T00:00:00Z"
        for span in (record["warm_up"], *record["trials"]):
            span["start_s"] += last["start_s"] + last["window_s"]  # after the other point's
        for trial in record["trials"]:
            trial["loss"] = [1.1 * loss for loss in trial["loss"]]
        for key in ("loss_first", "loss_last", "loss_slope_per_step"):
            record["summary"][key] *= 1.1
        report["records"].append(record)
        plan["points"].append(point)
        text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
        report["plan"].update(canonical_json=text, sha256=hashlib.sha256(text.encode()).hexdigest())
        report["program"]["git_commit"] = "0" * 12
        path, same = self.folder / "unstable.json", self.folder / "same.json"
        path.write_text(json.dumps(report))
        process = tool("validate", path)
        self.assert_ran(process)
        self.assertIn('the samples give "unstable"', said(process))
        report["context"]["launch"] = "third"
        for record in report["records"]:
            record["launch"] = "third"
        same.write_text(json.dumps(report))
        compared = json.loads(tool("compare", path, same, "--json").stdout)
        flag = next(d for d in compared["differences"] if d["what"] == "flag unstable")
        self.assertTrue(flag["blocking"])

    def test_a_newer_minor_and_what_is_no_version(self):
        report = json.loads(self.good.read_text())
        path = self.folder / "new.json"
        report["schema_version"], report["more"] = "1.99", 1
        path.write_text(json.dumps(report))
        words = '/schema_version: "1.99" is newer than'
        self.assertIn(words, said(tool("validate", path)))
        compared = tool("compare", self.reference, path)
        self.assert_ran(compared)
        self.assertIn(words, compared.stderr)
        self.assertIn("note of validation", compared.stdout)
        for reader, process in self.readers(path, "new"):
            self.assert_ran(process)
            self.assertIn(words, process.stderr, reader)
        for text, words in ((self.good.read_text().replace('"schema_version": "1.0"', '"schema_version": 1.0'), '/schema_version: is 1.0, not a string'),
                           (self.good.read_text() + "\0", "control character NUL")):
            path.write_text(text)
            process = tool("validate", path)
            self.assert_ran(process, 1)
            self.assertIn(words, said(process))
            self.assert_ran(tool("show", path), 2)

    def test_a_report_beside_itself_is_no_second_system(self):
        copy = self.folder / "copy.json"
        copy.write_text(self.good.read_text())
        for other in (self.good, copy):
            process = tool("compare", f"a={self.good}", f"b={other}")
            self.assert_ran(process, NOTHING)
            self.assertIn("are the same", process.stdout)
            self.assertEqual(said_codes(process.stderr), ["not-comparable"])

    def test_a_measurement_counts_once(self):
        """Whatever its report says of who made it: as the other system's, and as five runs of one."""
        def copy_of(number):
            report = json.loads(self.good.read_text())
            report["context"]["launch"] = launch = f"launch{number}" if number else None
            report["context"]["started_at"], report["context"]["finished_at"] = f"2026-03-0{number + 1}T10:00:00Z", f"2026-03-0{number + 1}T10:10:00Z"
            for record in report["records"]:
                record["launch"] = launch
            path = self.folder / f"copy{number}.json"
            path.write_text(json.dumps(report))
            self.assert_ran(tool("validate", path))
            return str(path)
        copies = [copy_of(number) for number in range(5)]
        for systems in ((f"a={self.good}", f"b={copies[1]}"), (f"a={copies[0]}", f"b={self.good}"),
                        (f"a={self.reference}", f"b={','.join(copies)}"), (f"a={','.join(copies)}", f"b={self.reference}")):
            process = tool("compare", *systems)
            self.assert_ran(process, NOTHING)
            self.assertIn("are the same", process.stdout)
            self.assertIn("copies of one run", " ".join(process.stdout.split()))


class Forgeries(Case):
    """Of real runs with joules, on two ranks; tests/results/validation/forgeries.cpp makes them consistent otherwise."""
    FORGE = BIN.parent / "tests" / "forge"

    def measured(self, name, *length):
        with FakeNode(self.folder / f"powercap-{name}", {"package-0": 100, "dram": 20, "core": 60}) as node:
            node.or_skip()
            out = self.folder / name
            command = [*node.command(), *mpirun(2), str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--seq-len", "32", "--threads", "1",
                       *(length or ("--window", "2.5")), "--trials", "3", "--out", str(out)]
            self.assert_ran(subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment()))
        return out / "report.json"

    def test_each_is_found_and_supports_no_claim(self):
        good, other = self.measured("good"), self.measured("other")
        for report in (good, other):
            self.assert_ran(tool("validate", report))
        starts = [trial["start_s"] for trial in json.loads(good.read_text())["records"][0]["trials"]]
        self.assertEqual(starts, sorted(starts))
        compared = json.loads(tool("compare", other, good, "--json").stdout)
        self.assertNotIn("validation", [d["what"] for d in compared["differences"]])
        self.assertNotIn("losses_differ", [d["what"] for d in compared["differences"]])
        names = subprocess.run([self.FORGE, "--list"], capture_output=True, text=True, timeout=HANG, check=True).stdout.split("\n")
        # Of the first steps, below; and of several packages, while this node shows one.
        cases = [line.split(" ") for line in names if line and not line.endswith((" losses_differ", " packages_missing", " meter_left_out"))]
        for name, code in cases:
            with self.subTest(forgery=name):
                forged = self.folder / f"{name}.json"
                subprocess.run([self.FORGE, good, name, forged], timeout=HANG, check=True)
                process = tool("validate", forged, "--json")
                self.assert_ran(process, 1)
                self.assertIn(code, [fault["code"] for fault in json.loads(process.stdout)["files"][0]["faults"]])
                compared = tool("compare", other, forged, "--json")
                self.assert_ran(compared, NOTHING)
                self.assertTrue(any(d["what"] == "validation" and d["blocking"] for d in json.loads(compared.stdout)["differences"]))

    def test_losses_of_another_training_are_not_compared(self):
        good, other = (self.measured(name, "--steps", "20", "--warmup", "1") for name in ("good", "other"))
        for name in ("other_losses_of_the_same", "another_second_loss"):
            forged = self.folder / f"{name}.json"
            subprocess.run([self.FORGE, good, name, forged], timeout=HANG, check=True)
            process = tool("validate", forged, "--json")
            self.assert_ran(process, 1)
            self.assertIn("losses_differ", [fault["code"] for fault in json.loads(process.stdout)["files"][0]["faults"]])
        report = json.loads(good.read_text())
        for trial in report["records"][0]["trials"]:
            trial["loss"] = [1.2 * loss for loss in trial["loss"]]
        for key in ("loss_first", "loss_last", "loss_slope_per_step"):
            report["records"][0]["summary"][key] *= 1.2
        forged = self.folder / "losses.json"
        forged.write_text(json.dumps(report))
        self.assert_ran(tool("validate", forged))
        compared = tool("compare", other, forged, "--json")
        self.assert_ran(compared, NOTHING)
        self.assertTrue(any(d["what"] == "losses_differ" and d["blocking"] for d in json.loads(compared.stdout)["differences"]))


if __name__ == "__main__":
    unittest.main()
