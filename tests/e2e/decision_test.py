"""From runs to what a buyer takes away: two real reports and two made under the fakes at two GPU clocks, held against each other, as a
page and in every export."""
import collections
import csv
import json
import re
import subprocess
import unittest
import zipfile

from fake_node import FakeNode
from support import BIN, HANG, Case, FakeGpus, environment, run, tool

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

    def test_from_runs_to_a_decision(self):
        real = []
        for threads in (1, 2):
            out = self.folder / f"threads-{threads}"
            self.assert_ran(run(*SUITE, "--threads", threads, "--out", out))
            real.append(out / "report.json")
        pairs = {"threads": real, "clocks": [self.at_clock(1305, 120), self.at_clock(990, 90)]}
        for name, (a, b) in pairs.items():
            for path in (a, b):
                self.assert_ran(tool("validate", path))
                self.assert_exported(path)
            process = tool("compare", a, b, "--json")
            self.assert_ran(process)
            compared = json.loads(process.stdout)
            throughput = next(figure for figure in compared["figures"] if figure["figure"] == "throughput")
            self.assertEqual(len(throughput["workloads"]), len(json.loads(a.read_text())["records"]))
            for row in throughput["workloads"]:
                self.assertIn(row["systems"][1]["verdict"], ("better", "worse", "no difference shown"))
            self.assertTrue(compared["answer"])
            page = self.folder / f"{name}.html"
            self.assert_ran(tool("html", a, b, "-o", page))
            self.assertNotRegex(page.read_text(), r'(?:src|href)="(?:https?:)?//')
        noted = {difference["what"]: difference for difference in compared["differences"]}
        self.assertIn("gpu_clock_mhz requested", noted)
        self.assertIn("gpu_clock_mhz was set: only those of the scope node would tell", noted["scope of energy"]["why"])


if __name__ == "__main__":
    unittest.main()
