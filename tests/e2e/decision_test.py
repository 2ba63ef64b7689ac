"""From runs to what a buyer takes away: two real reports and two made under the fakes at two GPU clocks, held against each other, as a
page and in every export."""
import collections
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from fake_node import FakeNode
from support import BIN, HANG, Case, FakeGpus, environment, run, tool

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "bench" / "tool"))
os.environ.setdefault("TRAINWATT_TOOL", str(BIN / "trainwatt"))
os.environ.setdefault("TRAINWATT_SCREENSHOTS", str(BIN.parent / "screenshots"))
import browser  # noqa: E402  what looks at a page, and what it must be like, are those of tests/bench/tool
import page_test  # noqa: E402

TRIALS = 5
SUITE = ("--model", "gpt2-tiny,resnet-tiny", "--precision", "float32", "--micro-batch", 2, "--trials", TRIALS, "--window", 0.2)
EXPORTS = {"markdown": "report.md", "csv": "report.csv", "xlsx": "report.xlsx", "mllog": "report.log", "prometheus": "report.prom",
           "benchmark-json": "benchmark.json"}


class Decision(Case):
    def at_clock(self, mhz, watts):
        folder = self.folder / f"fake-{mhz}"
        (folder / "nvml").mkdir(parents=True)
        gpus = FakeGpus(folder / "nvml", 1)
        out = self.folder / f"clock-{mhz}"
        with FakeNode(folder / "powercap", {"package-0": watts, "dram": watts / 5}) as node:
            node.or_skip()
            process = subprocess.run([*node.command(), str(BIN / "trainwatt-train"), *map(str, SUITE), "--threads", "1", "--device", "cpu",
                                      "--gpu-clock", str(mhz), "--out", str(out)], capture_output=True, text=True, timeout=HANG,
                                     env=environment(**gpus.environment, TRAINWATT_RUN_DIR=folder / "run"))
        self.assert_ran(process)
        return out / "report.json"

    def assert_exported(self, path):
        """Each file exists, names every record, and has as many rows as there are records or trials."""
        out = self.folder / f"exported-{path.parent.name}"
        self.assert_ran(tool("export", path, "--to", ",".join(EXPORTS), "-o", out))
        records = json.loads(path.read_text())["records"]
        ids = sorted(record["id"] for record in records)
        self.assertEqual(sorted(row["id"] for row in csv.DictReader((out / EXPORTS["csv"]).read_text().splitlines())), ids)
        tables = re.findall(r"^\| (\S+/\S+) \|", (out / EXPORTS["markdown"]).read_text(), re.MULTILINE)
        self.assertEqual(sorted(set(tables)), ids)
        repetitions = collections.Counter(one["name"] for one in json.loads((out / EXPORTS["benchmark-json"]).read_text())["benchmarks"])
        self.assertEqual(repetitions, {one: TRIALS for one in ids})
        lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in (out / EXPORTS["mllog"]).read_text().splitlines()]
        starts = collections.Counter(line["namespace"].rsplit("/trial", 1)[0] for line in lines if line["key"] == "run_start")
        self.assertEqual(starts, {one: TRIALS for one in ids})
        rates = re.findall(r'^trainwatt_model_flops_per_second\{point="([^"]*)"', (out / EXPORTS["prometheus"]).read_text(), re.MULTILINE)
        self.assertEqual(sorted(rates), ids)
        with zipfile.ZipFile(out / EXPORTS["xlsx"]) as book:
            text = book.read("xl/sharedStrings.xml").decode()
        for one in ids:
            self.assertIn(f">{one}<", text)

    def pairs(self):
        """Two real reports, and two made under the fakes."""
        real = []
        for threads in (1, 2):
            out = self.folder / f"threads-{threads}"
            self.assert_ran(run(*SUITE, "--threads", threads, "--out", out))
            real.append(out / "report.json")
        return {"threads": real, "clocks": [self.at_clock(1305, 120), self.at_clock(990, 90)]}

    def test_pages_in_a_browser(self):
        """Of each report and of each comparison, as wide as a laptop and as a phone."""
        program = browser.find()
        if program is None:
            self.skipTest("no Chromium is installed (chromium)")
        page_test.PICTURES.mkdir(parents=True, exist_ok=True)
        prices = self.folder / "prices.json"
        prices.write_text(json.dumps({"currency": "EUR", "electricity_per_kwh": 0.3, "carbon_g_per_kwh": 400, "systems": {"any": {"rent_per_month": 100}}}))
        pairs = self.pairs()
        self.browser = browser.Browser(program)
        self.addCleanup(self.browser.close)
        for name, paths in pairs.items():
            count = [len(json.loads(path.read_text())["records"]) for path in paths]
            for page_name, reports, records in ((f"{name}-a", paths[:1], count[0]), (f"{name}-b", paths[1:], count[1]), (name, paths, sum(count))):
                page = self.folder / f"{page_name}.html"
                self.assert_ran(tool("html", *reports, "-o", page, "--prices", prices))
                with self.subTest(page=page_name):
                    page_test.Page.look(self, page, records, picture=f"decision-{page_name}", sizes=((1280, False), (390, False)))
                    shown = self.browser.evaluate("document.body.innerText")
                    if reports == paths:
                        for line in json.loads(tool("compare", *reports, "--prices", prices, "--json").stdout)["answer"]:
                            self.assertIn(" ".join(line.split()[:4]), " ".join(shown.split()))

    def test_metrics_and_schema_by_others(self):
        """By promtool, and by a second implementation of JSON Schema."""
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed (prometheus)")
        check = "import json, sys, jsonschema; schema, *files = [json.load(open(name)) for name in sys.argv[1:]]\n" \
                "for file in files: jsonschema.Draft7Validator(schema).validate(file)"
        paths = [path for pair in self.pairs().values() for path in pair]
        for number, path in enumerate(paths):
            out = self.folder / f"metrics-{number}"
            self.assert_ran(tool("export", path, "--to", "prometheus", "-o", out))
            with open(out / EXPORTS["prometheus"]) as file:
                done = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True, text=True, timeout=30)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        script = self.folder / "check.py"
        script.write_text(check)
        done = subprocess.run([TESTS / "results" / "record" / "schema_python.sh", script, TESTS.parent / "results" / "schema" / "report.schema.json", *paths],
                              capture_output=True, text=True, timeout=50)
        if done.returncode == 77:
            self.skipTest("jsonschema is not installed (python3-jsonschema)")
        self.assert_ran(done)

    def test_from_runs_to_a_decision(self):
        for name, (a, b) in self.pairs().items():
            for path in (a, b):
                self.assert_ran(tool("validate", path))
                self.assert_exported(path)
            process = tool("compare", a, b, "--json")
            self.assert_ran(process)
            compared = json.loads(process.stdout)
            throughput = next(figure for figure in compared["figures"] if figure["figure"] == "throughput")
            self.assertEqual(len(throughput["workloads"]), len(json.loads(a.read_text())["records"]))
            for row in throughput["workloads"]:
                self.assert_judged(row["systems"][1], a, b)
            self.assertTrue(compared["answer"])
            page = self.folder / f"{name}.html"
            self.assert_ran(tool("html", a, b, "-o", page))
            self.assertNotRegex(page.read_text(), r'(?:src|href)="(?:https?:)?//')
        noted = {difference["what"]: difference for difference in compared["differences"]}
        self.assertIn("gpu_clock_mhz requested", noted)
        self.assertIn("gpu_clock_mhz was set: joules of scope node are needed", noted["scope of energy"]["why"])


if __name__ == "__main__":
    unittest.main()
