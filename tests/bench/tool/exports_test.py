"""Exports as other programs read them: the workbook by openpyxl, metrics by promtool and by the format's grammar, log lines by
MLCommons' rules, Google Benchmark's JSON by its compare.py; and the dashboard asks for metrics that exist."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOL = os.environ["TRAINWATT_TOOL"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests" / "results" / "fixtures"
REPORTS = ("good.json", "good_energy.json", "good_target.json")
HANG = 300  # seconds, after which a program that has not ended hangs
EVIL = '=HYPERLINK("http://x")'

# Of node_exporter 1.5 and of dcgm-exporter's default counters: what the dashboard may ask for besides ours.
OTHERS = {"node_rapl_package_joules_total", "node_cpu_scaling_frequency_hertz", "node_hwmon_temp_celsius",
          "node_textfile_mtime_seconds", "node_textfile_scrape_error", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK",
          "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"}


def python_with(module):
    """A python3 in front of the distribution's may lack its packages."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-exports-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def export(self, report, format, file, *options):
        if isinstance(report, dict):
            (self.folder / "spoilt.json").write_text(json.dumps(report))
            report = self.folder / "spoilt.json"
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = subprocess.run([TOOL, "export", str(report), "--to", format, "-o", str(out), *map(str, options)], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out / file

    def reports(self):
        for name in REPORTS:
            with self.subTest(report=name):
                yield FIXTURES / name, json.loads((FIXTURES / name).read_text())


class Workbook(Case):
    READ = """
import json, sys, openpyxl
book = openpyxl.load_workbook(sys.argv[1])
print(json.dumps({s.title: {"frozen": s.freeze_panes, "filter": s.auto_filter.ref, "rows": [
    [{"value": c.value, "type": c.data_type, "format": c.number_format, "comment": c.comment.text if c.comment else None,
      "link": bool(c.hyperlink)} for c in row] for row in s.iter_rows()]} for s in book}))
"""

    @classmethod
    def setUpClass(cls):
        cls.python = python_with("openpyxl")
        if cls.python is None:
            raise unittest.SkipTest("Python's openpyxl is not installed (python3-openpyxl)")

    def read(self, path):
        done = subprocess.run([self.python, "-c", self.READ, str(path)], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @staticmethod
    def column(sheet, title):
        return next(i for i, cell in enumerate(sheet["rows"][0]) if cell["value"].split("\n")[0] == title)

    def test_sheets_numbers_units(self):
        for path, report in self.reports():
            book = self.read(self.export(path, "xlsx", "report.xlsx"))
            self.assertEqual(list(book), ["Summary", "Points", "Trials", "Energy", "Inputs", "Notes"])
            for name, sheet in book.items():
                self.assertEqual(sheet["frozen"], "B2", name)
            records = report["records"]
            summary, points = book["Summary"], book["Points"]
            self.assertEqual(len(summary["rows"]), 1 + len(records))
            self.assertEqual(len(points["rows"]), 1 + len(records))
            self.assertEqual(len(book["Trials"]["rows"]), 1 + sum(len(r["trials"]) for r in records))
            self.assertEqual(len(book["Energy"]["rows"]), 1 + sum(len(t["energy"]) for r in records for t in r["trials"]))
            speed = self.column(summary, "Throughput")
            self.assertIn("[samples/s]", summary["rows"][0][speed]["value"])
            for row, record in zip(summary["rows"][1:], records):
                self.assertEqual(row[0]["value"], record["id"])
                value = record["summary"]["samples_per_s"]
                if value is None:
                    self.assertIsNone(row[speed]["value"])
                    self.assertTrue(row[speed]["comment"], "why it is empty")
                else:
                    self.assertEqual(row[speed]["type"], "n")
                    self.assertNotEqual(row[speed]["format"], "General")
                    self.assertAlmostEqual(row[speed]["value"] / value["value"], 1, delta=1e-15)
            reason = self.column(points, "energy_reason")
            for row, record in zip(points["rows"][1:], records):
                self.assertEqual(row[reason]["value"] or "", record["summary"]["energy_reason"])

    def test_gpu_figures_have_their_columns(self):
        path = FIXTURES / "good_gpu.json"
        [record] = json.loads(path.read_text())["records"]
        summary = self.read(self.export(path, "xlsx", "report.xlsx"))["Summary"]
        for title, key in {"GPU utilisation": "utilisation", "SM active": "sm_active", "GPU memory in use": "memory_used_bytes",
                           "GPU memory": "memory_bytes"}.items():
            self.assertIsNotNone(record["summary"]["gpu"][key], key)
            self.assertEqual(summary["rows"][1][self.column(summary, title)]["value"], record["summary"]["gpu"][key], title)

    def test_text_is_text(self):
        report = json.loads((FIXTURES / "good_energy.json").read_text())
        record = report["records"][0]
        names = [EVIL, "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "http://x", "mailto:x", "internal:A1", "{=1}"]
        record["id"], record["workload"]["model"], record["verdict"]["reasons"] = names[0], names[1], names[2:]
        report["context"]["hosts"][0]["cpu"] = "=1\u0007<b>\ufffe"
        book = self.read(self.export(report, "xlsx", "report.xlsx"))
        self.assertEqual(book["Points"]["rows"][1][0]["value"], EVIL)
        for sheet in book.values():
            for row in sheet["rows"]:
                for cell in row:
                    self.assertNotEqual(cell["type"], "f", cell)
                    self.assertFalse(cell["link"], cell)

    def test_the_same_report_gives_the_same_file(self):
        first = self.export(FIXTURES / "good.json", "xlsx", "report.xlsx")
        second = self.export(FIXTURES / "good.json", "xlsx", "report.xlsx")
        self.assertEqual(first.read_bytes(), second.read_bytes())
        with zipfile.ZipFile(first) as file:
            self.assertIsNone(file.testzip())


    PRICES = {"currency": "EUR", "note": "list prices of March", "electricity_per_kwh": 0.3, "carbon_g_per_kwh": 380, "systems": {
        "offer-1": {"rent_per_month": 730, "maintenance_per_year": 8760, "pue": 1.25, "note": "three years"}, "offer-2": {"rent_per_month": 1}}}

    def with_prices(self, report, prices=PRICES, *options):
        path = self.folder / "prices.json"
        path.write_text(json.dumps(prices))
        options = ("--prices", path, "--price-of", "offer-1", *options)
        book = self.read(self.export(report, "xlsx", "report.xlsx", *options))
        done = subprocess.run([TOOL, "cost", str(report), "--json", *map(str, options)], capture_output=True, text=True, timeout=30)
        return book, json.loads(done.stdout), path

    def test_costs(self):
        for path, report in self.reports():
            book, cost, _ = self.with_prices(path)
            self.assertEqual(list(book), ["Summary", "Cost", "Sensitivity", "Points", "Trials", "Energy", "Inputs", "Notes"])
            sheet = book["Cost"]
            self.assertEqual(sheet["frozen"], "B2")
            at = {cell["value"].split("\n")[0]: i for i, cell in enumerate(sheet["rows"][0])}
            units = {cell["value"].split("\n")[0]: cell["value"].split("\n")[1] for cell in sheet["rows"][0] if "\n" in cell["value"]}
            self.assertEqual((units["Cost"], units["Energy"], units["CO2e"]), ("[EUR]", "[kWh]", "[kg]"))
            rows = iter(sheet["rows"][1:])
            for record in cost["records"]:
                if record["reason"]:
                    row = next(rows)
                    self.assertEqual(row[0]["value"], record["id"])
                    self.assertIsNone(row[at["Cost"]]["value"])
                    self.assertIn(record["reason"], row[at["Cost"]]["comment"])
                for figure in record["cost_per"].values():
                    row = next(rows)
                    self.assertEqual(row[0]["value"], record["id"])
                    for title, value in (("Cost", figure["total"] and figure["total"]["value"]), ("Energy", figure["energy_kwh"]), ("CO2e", figure["co2_kg"]),
                                         ("Cost, low end of 95 %", figure["total"] and figure["total"]["low"]),
                                         ("Nodes", record["nodes"]), ("Mean power of the facility", record["facility_power_w"])):
                        cell = row[at[title]]
                        if value is None:
                            self.assertIsNone(cell["value"], title)
                            self.assertTrue(cell["comment"], f"why {title} is empty")
                        else:
                            self.assertEqual(cell["type"], "n", title)
                            self.assertAlmostEqual(cell["value"] / value, 1, delta=1e-12, msg=title)
                    held = row[at["Includes"]]["value"]
                    self.assertEqual(held == "everything", record["basis"] == "complete", held)
            self.assertIsNone(next(rows, None))
            turned = [(r["id"], s["input"]) for r in cost["records"] for s in r["sensitivity"]]
            self.assertEqual([(row[0]["value"], row[2]["value"]) for row in book["Sensitivity"]["rows"][1:]], turned)

    def test_costs_stand_in_the_order_of_the_points(self):
        report, prices = json.loads((FIXTURES / "good.json").read_text()), self.folder / "sorted.json"
        report["records"].reverse()  # those that do not count first
        prices.write_text(json.dumps(self.PRICES))
        book = self.read(self.export(report, "xlsx", "report.xlsx", "--prices", prices, "--price-of", "offer-1", "--sort", "throughput"))
        ids = {name: list(dict.fromkeys(row[0]["value"] for row in sheet["rows"][1:])) for name, sheet in book.items()}
        self.assertNotEqual(ids["Points"], [record["id"] for record in report["records"]])
        self.assertEqual(ids["Cost"], ids["Points"])
        self.assertEqual(ids["Sensitivity"], [name for name in ids["Points"] if name in ids["Sensitivity"]])

    def test_every_price_is_echoed_with_its_unit_and_source(self):
        book, cost, path = self.with_prices(FIXTURES / "good_energy.json")
        sheet = book["Inputs"]["rows"]
        self.assertEqual([cell["value"] for cell in sheet[0]], ["What", "Which", "Value", "Unit", "Source"])
        prices = {row[1]["value"]: [cell["value"] for cell in row[2:5]] for row in sheet[1:] if row[0]["value"] == "price"}
        self.assertIn("offer-1", prices.pop("machine")[0], "the row is held against the report's machine")
        row, every, none = f"{path}, row offer-1", f"{path}, for all systems", "default, since none is given"
        self.assertEqual(prices, {
            "row": ["offer-1", None, str(path)], "currency": ["EUR", None, str(path)], "note": ["three years", None, row],
            "note of the prices": ["list prices of March", None, str(path)], "rent": [730, "EUR per node and month", row],
            "maintenance": [8760, "EUR per node and year", row], "fixed opex": [0, "EUR per node and year", none],
            "network and storage, capex": [0, "EUR per node", none], "network and storage, power": [0, "W per node", none],
            "utilisation": [100, "% of the hours paid for", none], "electricity": [0.3, "EUR/kWh", every],
            "PUE": [1.25, None, row], "carbon intensity": [380, "g CO2e/kWh", every]})
        self.assertIn(["sensitivity", "each input is varied by", 20, "% down and up", "--sensitivity"], [[cell["value"] for cell in row] for row in sheet])
        self.assertEqual(cost["price"]["file"], str(path))
        self.assertIn("utilisation", cost["price"]["not_given"])
        self.assertEqual(cost["price"]["for_all_systems"], ["carbon_g_per_kwh", "electricity_per_kwh"])
        bought = {**self.PRICES, "currency": "=EUR", "note": EVIL, "systems": {"offer-1": {"capex": 9e4, "life_years": 5}}}
        book, _, _ = self.with_prices(FIXTURES / "good_energy.json", bought)
        prices = {row[1]["value"]: [cell["value"] for cell in row[2:4]] for row in book["Inputs"]["rows"] if row[0]["value"] == "price"}
        self.assertEqual((prices["capex"], prices["life"]), ([90000, "=EUR per node"], [5, "years"]))
        self.assertEqual(prices["note of the prices"], [EVIL, None])
        for sheet in book.values():
            self.assertFalse([cell for row in sheet["rows"] for cell in row if cell["type"] == "f" or cell["link"]])

    def test_prices_are_for_the_workbook_alone(self):
        path = self.folder / "prices.json"
        path.write_text(json.dumps(self.PRICES))
        for format, code, words in (("csv", 2, "error[options-conflict]"), ("xlsx", 2, "--price-of"), ("csv,xlsx", 0, "")):
            options = ("--price-of", "offer-2") if code == 0 or format == "csv" else ()
            done = subprocess.run([TOOL, "export", str(FIXTURES / "good.json"), "--to", format, "-o", str(self.folder / format), "--prices", str(path), *options],
                                  capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)


LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"([a-z_:][a-z0-9_:]*)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)$")


def metrics(text):
    """The text format 0.0.4 as far as gauges go: HELP, TYPE, then the samples of that name, each series once; no timestamps."""
    found, name, seen = {}, None, set()
    lines = text.split("\n")
    assert lines.pop() == "", "ends with a line end"
    for at, line in enumerate(lines):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in found, line
            assert lines[at + 1] == f"# TYPE {name} gauge", line
            found[name] = []
        elif not line.startswith("# TYPE "):
            match = SAMPLE.match(line)
            assert match and match[1] == name, line
            assert line.rsplit(" ", 1)[0] not in seen, line
            seen.add(line.rsplit(" ", 1)[0])
            assert math.isfinite(float(match[3])), line
            found[name].append((match[2] or "", float(match[3])))
    assert all(found.values())
    return found


class Prometheus(Case):
    def test_grammar_and_figures(self):
        for path, report in self.reports():
            found = metrics(self.export(path, "prometheus", "report.prom").read_text())
            valid = [r for r in report["records"] if r["verdict"]["status"] == "valid"]
            self.assertEqual(len(found["trainwatt_point_valid"]), len(report["records"]))
            for name in found:
                self.assertRegex(name, "^trainwatt_")
                self.assertNotRegex(name, "_(ms|kwh|mhz|percent|total)$", "base units; a gauge is no total")
            speeds = {labels: value for labels, value in found.get("trainwatt_samples_per_second", [])}
            self.assertEqual(speeds, {f'point="{r["id"]}"': r["summary"]["samples_per_s"]["value"] for r in valid
                                      if r["summary"]["samples_per_s"]})
            for labels, value in found.get("trainwatt_sample_energy_joules", []):
                self.assertGreater(value, 0, labels)

    def test_labels_are_escaped(self):
        report = json.loads((FIXTURES / "good_energy.json").read_text())
        report["records"].append(json.loads(json.dumps(report["records"][0])))  # an id twice: still each series once
        for record in report["records"]:
            record["id"] = 'a"b\\c} 1\nd{x="y"'
        found = metrics(self.export(report, "prometheus", "report.prom").read_text())
        self.assertEqual(len(found["trainwatt_point_info"]), 2)

    def test_a_device_has_the_labels_of_its_exporter(self):
        report = json.loads((FIXTURES / "good_energy.json").read_text().replace("rapl:package-0", "nvml:GPU-12ab"))
        found = metrics(self.export(report, "prometheus", "report.prom").read_text())
        self.assertTrue(any('UUID="GPU-12ab"' in labels and 'Hostname="node1"' in labels
                            for labels, _ in found["trainwatt_meter_power_watts"]))

    def test_the_dashboard_asks_for_what_exists(self):
        exported = set()
        for path, _ in self.reports():
            exported |= set(metrics(self.export(path, "prometheus", "report.prom").read_text()))
        board = json.loads((ROOT / "scripts/monitoring/grafana-dashboard.json").read_text())
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        queries = [target["expr"] for panel in panels for target in panel["targets"]]
        queries += [v["query"]["query"] for v in board["templating"]["list"] if isinstance(v["query"], dict)]
        self.assertGreater(len(queries), 20)
        for query in queries:
            names = set(re.findall(r"\b((?:trainwatt|node|DCGM)_\w+)", query))
            self.assertTrue(names, query)
            self.assertLessEqual(names, exported | OTHERS, query)
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in panels:
            self.assertTrue(panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"])


class Promtool(Case):
    def test_check_metrics(self):
        if not shutil.which("promtool"):
            raise unittest.SkipTest("promtool is not installed (prometheus)")
        for path, _ in self.reports():
            with open(self.export(path, "prometheus", "report.prom")) as file:
                done = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True, text=True, timeout=HANG)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


def log_lines(text):
    """As mlperf_logging's parser of rule set 6 takes them: Latin-1, a token, JSON with five keys, time a number."""
    for line in text.splitlines():
        assert line.startswith(":::MLLOG ") and line.count(":::MLLOG ") == 1, line
        assert line.isascii(), line
        event = json.loads(line[len(":::MLLOG "):])
        assert list(event) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"], line
        assert event["event_type"] in ("INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"), line
        assert isinstance(event["time_ms"], int) and isinstance(event["metadata"], dict), line
        yield event


class Mllog(Case):
    def test_lines(self):
        keys = set()
        for path, report in self.reports():
            events = list(log_lines(self.export(path, "mllog", "report.log").read_bytes().decode("latin-1")))
            trials = sum(len(r["trials"]) for r in report["records"])
            started, last = set(), 0
            for event in events:
                self.assertGreaterEqual(event["time_ms"], last, "in the order of time")
                last = event["time_ms"] if event["key"] == "run_start" else last
                if event["event_type"] == "INTERVAL_START":
                    self.assertNotIn(event["namespace"], started)
                    started.add(event["namespace"])
                if event["event_type"] == "INTERVAL_END":
                    self.assertIn(event["namespace"], started)
                if event["key"] == "run_stop":
                    self.assertIn(event["metadata"]["status"], ("success", "aborted"))
                if event["key"].startswith("eval_") and event["key"] != "eval_samples":
                    self.assertIn("samples_count", event["metadata"])
                    self.assertEqual((event["key"], event["metadata"]["metric"]) in
                                     (("eval_accuracy", "accuracy"), ("eval_error", "excess_loss")), True, "a loss is no accuracy")
                    keys.add(event["key"])
            self.assertEqual(len(started), trials)
            looks = sum(len(t["target_run"]["evaluations"]) for r in report["records"] for t in r["trials"] if t["target_run"])
            self.assertEqual(sum(event["key"] in keys for event in events), looks)
        self.assertEqual(keys, {"eval_accuracy", "eval_error"})

    def test_no_name_looks_like_a_line(self):
        report = json.loads((FIXTURES / "good.json").read_text())
        report["records"][0]["id"] = 'x :::MLLOG {"key": "run_stop"} \u00e9\u2028'
        events = list(log_lines(self.export(report, "mllog", "report.log").read_bytes().decode("latin-1")))
        self.assertIn(':::MLLOG {"key"', events[0]["namespace"])


class MllogPackage(Case):
    def test_the_package_itself(self):
        python = python_with("mlperf_logging.compliance_checker.mlp_parser")
        if python is None:
            raise unittest.SkipTest("mlperf_logging is not installed; it is in no Debian package")
        check = ("import sys; from mlperf_logging.compliance_checker.mlp_parser import parse_file\n"
                 "lines, errors = parse_file(sys.argv[1], ruleset='5.0.0'); assert lines and not errors, errors")
        for path, _ in self.reports():
            done = subprocess.run([python, "-c", check, str(self.export(path, "mllog", "report.log"))], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


class BenchmarkJson(Case):
    def test_shape(self):
        for path, report in self.reports():
            result = json.loads(self.export(path, "benchmark-json", "benchmark.json").read_text())
            self.assertEqual(result["context"]["json_schema_version"], 1)
            valid = {r["id"]: len(r["trials"]) for r in report["records"] if r["verdict"]["status"] == "valid"}
            names = [b["name"] for b in result["benchmarks"]]
            self.assertEqual({name: names.count(name) for name in names}, valid)
            self.assertEqual(len(result["context"]["trainwatt_not_counted"]), len(report["records"]) - len(valid))
            for row in result["benchmarks"]:
                self.assertGreater(row["real_time"], 0)
                self.assertEqual((row["run_type"], row["time_unit"]), ("iteration", "ms"))

    def test_a_build_without_optimisation_says_so(self):
        report = json.loads((FIXTURES / "good.json").read_text())
        kind = lambda: json.loads(self.export(report, "benchmark-json", "benchmark.json").read_text())["context"]["library_build_type"]
        self.assertEqual(kind(), "release")
        report["records"][0]["verdict"]["flags"].append("debug_build")
        self.assertEqual(kind(), "debug")


class BenchmarkCompare(Case):
    def test_compare_py(self):
        tool, python = pathlib.Path("/usr/share/benchmark/compare.py"), python_with("scipy")
        if not tool.exists() or python is None:
            raise unittest.SkipTest("Google Benchmark's compare.py or scipy is not installed (libbenchmark-tools, python3-scipy)")
        files = [str(self.export(FIXTURES / name, "benchmark-json", "benchmark.json")) for name in ("good.json", "good_energy.json")]
        done = subprocess.run([python, str(tool), "--no-color", "benchmarks", *files], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gpt2-tiny/bf16/acc4/np2", done.stdout)


if __name__ == "__main__":
    unittest.main()
