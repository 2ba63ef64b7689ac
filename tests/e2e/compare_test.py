"""Two real reports of tiny runs held against each other, with prices and rules; and what is no report."""
import copy
import csv
import hashlib
import io
import json
import unittest

from support import Case, run, said_codes, tool

USAGE, NOTHING = 2, 4
PRICES = {"currency": "EUR", "electricity_per_kwh": 0.3, "pue": 1.2, "carbon_g_per_kwh": 400,
          "systems": {"one": {"rent_per_month": 100, "electricity_included": True}, "two": {"capex": 9000, "life_years": 5}}}


class Compare(Case):
    """Made once: one and two threads, five trials of a few steps."""
    @classmethod
    def setUpClass(cls):
        cls.texts = None

    def setUp(self):
        super().setUp()
        if Compare.texts is None:
            Compare.texts = []
            for threads in (1, 2):
                out = self.folder / f"threads-{threads}"
                self.assert_ran(run("--model", "gpt2-tiny,resnet-tiny", "--micro-batch", 2, "--steps", 3, "--trials", 5, "--warmup", 1,
                                    "--threads", threads, "--out", out))
                Compare.texts.append((out / "report.json").read_text())
        self.a, self.b = self.folder / "a.json", self.folder / "b.json"
        self.a.write_text(Compare.texts[0])
        self.b.write_text(Compare.texts[1])

    def refused(self, code, words, *args):
        process = tool(*args)
        self.assert_ran(process, code)
        ours = [line for line in process.stderr.splitlines() if line.startswith("trainwatt: ")]
        self.assertEqual(len(ours), 1, process.stderr)
        for word in words:
            self.assertIn(str(word), ours[0])

    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def test_two_reports(self):
        process = tool("compare", self.a, self.b, "--width", 80)
        self.assert_ran(process)
        for word in ("Answer", "Differences: ", "threads of a rank", "throughput", "b "):
            self.assertIn(word, process.stdout)
        self.assertNotIn("\033", process.stdout)
        compared = json.loads(tool("compare", self.a, self.b, "--json").stdout)
        throughput = next(f for f in compared["figures"] if f["figure"] == "throughput")
        self.assertEqual(len(throughput["workloads"]), 2)
        for row in throughput["workloads"]:
            a, b = row["systems"]
            self.assertEqual(a["verdict"], "reference")
            self.assert_judged(b, self.a, self.b)
            self.assertLessEqual(b["low"], b["ratio"])
            self.assertLessEqual(b["ratio"], b["high"])
        self.assertEqual(compared["reference"], "a")
        self.assertFalse(compared["decided"] or compared["names_one"], "one run of each")
        window = next(d for d in compared["differences"] if d["what"] == "run rule window")
        self.assertFalse(window["blocking"])
        self.assertIn("steps_given", window["reference_value"])
        self.assertFalse([d for d in compared["differences"] if d["what"] in ("flag short", "flag steps_given")], "said by the rule")
        rows = list(csv.DictReader(io.StringIO(tool("compare", self.a, self.b, "--csv").stdout)))
        self.assertEqual(len(rows), 3 * 2)
        markdown = tool("compare", self.a, self.b, "--markdown").stdout
        self.assertTrue(markdown.startswith("# Comparison against a"))

    def test_runs_of_a_folder_and_what_is_learned_of_them(self):
        runs = self.folder / "runs"
        for number, text in enumerate(Compare.texts, 1):
            (runs / f"run-{number}").mkdir(parents=True)
            (runs / f"run-{number}" / "report.json").write_text(text)
        files = [str(runs / f"run-{number}" / "report.json") for number in (1, 2)]
        compared = json.loads(tool("compare", runs, self.b, "--json").stdout)
        self.assertEqual(sorted(compared["systems"][0]["files"]), files)
        self.assertEqual(compared["systems"][0]["name"], "runs")
        process = tool("compare", self.a, self.b, "--run-variance", runs, "--json")
        self.assert_ran(process)
        compared = json.loads(process.stdout)
        self.assertEqual([(sorted(one["files"]), one["systems"]) for one in compared["run_variance"]], [(files, ["a", "b"])])
        for row in compared["figures"][0]["workloads"]:
            self.assertIn(row["systems"][1]["verdict"], ("better", "worse", "no difference shown", "no claim"))
            self.assertNotEqual(row["systems"][1]["interval_over"], "trials")
        self.refused_with("run-variance-one-run", "compare", self.a, self.b, "--run-variance", self.a)
        self.refused_with("run-variance-copy", "compare", self.a, self.b, "--run-variance", f"x={self.a},{files[0]}")
        self.refused_with("run-variance-copy", "compare", self.a, self.b, "--run-variance", f"{self.a},{files[0]}")
        other = json.loads(self.b.read_text())
        other["context"]["hosts"][0]["cpu"] = "Another CPU"
        self.refused_with("run-variance-machine", "compare", self.a, self.write("other.json", other), "--run-variance", runs)
        (runs / "run-3").mkdir()
        self.refused_with("run-without-report", "compare", runs, self.b)

    def refused_with(self, code, *args):
        process = tool(*args)
        self.assert_ran(process, USAGE)
        self.assertEqual(said_codes(process.stderr), [code])

    def test_names_figures_weights_and_the_reference(self):
        process = tool("compare", f"old={self.a}", f"new={self.b}", "--reference", "new", "--figure", "throughput", "--weights", "gpt2=3,resnet=1", "--json")
        self.assert_ran(process)
        compared = json.loads(process.stdout)
        self.assertEqual(compared["reference"], "new")
        self.assertEqual([f["figure"] for f in compared["figures"]], ["throughput"])
        self.assertEqual(sorted(row["weight"] for row in compared["figures"][0]["workloads"]), [0.25, 0.75])

    def test_another_batch_is_not_compared(self):
        report = json.loads(self.b.read_text())
        for record in report["records"]:
            record["workload"]["global_batch"] *= 2
        self.b.write_text(json.dumps(report))
        process = tool("compare", self.a, self.b)
        self.assert_ran(process, NOTHING)
        self.assertIn("global batch", process.stdout)
        self.assertIn("validation", process.stdout, "the figures do not follow from the samples any more")
        self.assertEqual(said_codes(process.stderr), ["global-batch-differs"])

    def test_rules(self):
        loose = {"rules": [{"name": "speed", "kind": "variance", "figure": "throughput", "most_below": 0.99}, {"name": "whole", "kind": "failure"}]}
        process = tool("compare", self.a, self.b, "--baseline", self.write("loose.json", loose))
        compared = json.loads(tool("compare", self.a, self.b, "--baseline", self.folder / "loose.json", "--json").stdout)
        statuses = [rule["status"] for rule in compared["rules"]]
        self.assertEqual((statuses.count("undecided"), statuses.count("kept")), (2, 1), "of one run of each no interval decides")
        self.assert_ran(process, NOTHING)
        strict = {"rules": [{"name": "impossible", "kind": "value", "figure": "throughput", "at_least": 1e12}]}
        process = tool("compare", self.a, self.b, "--baseline", self.write("strict.json", strict))
        self.assert_ran(process, 1)
        self.assertEqual(set(said_codes(process.stderr)), {"rule-violated"})
        self.assertIn("impossible", process.stderr)
        report = json.loads(self.b.read_text())
        plan = json.loads(report["plan"]["canonical_json"])
        del plan["points"][1], report["records"][1]
        text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
        report["plan"].update(canonical_json=text, sha256=hashlib.sha256(text.encode()).hexdigest())
        speed = {"rules": loose["rules"][:1]}
        process = tool("compare", self.a, self.write("part.json", report), "--baseline", self.write("speed.json", speed))
        self.assert_ran(process, NOTHING)
        self.assertIn("Rules: 0 violated, 1 undecided, 1 not checked, 0 kept", process.stdout)
        self.assertIn("rule-not-checked", said_codes(process.stderr))
        forged = json.loads(self.b.read_text())
        forged["records"][0]["summary"]["samples_per_s"]["value"] *= 3
        floor = {"rules": [{"name": "floor", "kind": "value", "figure": "throughput", "at_least": 1e-9}, {"name": "whole", "kind": "failure"}]}
        process = tool("compare", self.a, self.write("forged.json", forged), "--baseline", self.write("floor.json", floor))
        self.assert_ran(process, NOTHING)
        self.assertIn("rule-not-checked", said_codes(process.stderr))
        self.assertIn("/records/0", process.stderr)
        nowhere = {"rules": [{"name": "elsewhere", "kind": "value", "figure": "throughput", "at_least": 1, "points": ["bert"]}]}
        process = tool("compare", self.a, self.b, "--baseline", self.write("nowhere.json", nowhere))
        self.assert_ran(process, NOTHING)
        self.assertIn("elsewhere", process.stderr)
        self.refused(USAGE, ["code.json", "/rules/0/kind"], "compare", self.a, self.b, "--baseline",
                     self.write("code.json", {"rules": [{"name": "x", "kind": "lambda x: x > 0"}]}))

    def test_prices(self):
        prices = self.write("prices.json", PRICES)
        of = ("--price-of", "a=one", "--price-of", "b=two")
        process = tool("compare", self.a, self.b, "--prices", prices, *of)
        self.assert_ran(process)
        for word in ("Prices of a", "Prices of b", "100 EUR per node and month, electricity included", "basis of cost"):
            self.assertIn(word, process.stdout)
        self.refused(USAGE, ["prices.json", "error[no-price]", "--price-of a="], "compare", self.a, self.b, "--prices", prices)
        self.refused(USAGE, ["error[unknown-name]", "three"], "compare", self.a, self.b, "--prices", prices, "--price-of", "a=three", "--price-of", "b=two")
        self.refused(USAGE, ["c=one", "a, b"], "compare", self.a, self.b, "--prices", prices, "--price-of", "c=one")
        self.refused(USAGE, ["--prices"], "compare", self.a, self.b, "--figure", "cost")
        cost = tool("cost", self.a, "--prices", prices, "--price-of", "one", "--json")
        self.assert_ran(cost)
        costs = json.loads(cost.stdout)
        self.assertAlmostEqual(costs["records"][0]["cost_per"]["hour"]["total"]["value"], 100 / 730, 9)
        self.assertEqual(costs["records"][0]["basis"], "complete")
        text = tool("cost", self.a, "--prices", prices, "--price-of", "two").stdout
        self.assertIn("at least", text)

    def test_a_facility_meter_gives_the_pue(self):
        prices = self.write("prices.json", {"currency": "EUR", "systems": {"one": {"rent_per_month": 100}}})
        facility = self.write("facility.csv", "time,watts\n2020-01-01T00:00:00Z,1300\n2100-01-01T00:00:00Z,1300\n")
        it = self.write("it.csv", "time,watts\n2020-01-01T00:00:00Z,1000\n2100-01-01T00:00:00Z,1000\n")
        report = json.loads(self.a.read_text())
        report["context"]["started_at"], report["context"]["finished_at"] = "2026-03-01T10:00:00Z", "2026-03-01T10:10:00Z"
        self.a.write_text(json.dumps(report))
        process = tool("cost", self.a, "--prices", prices, "--facility-csv", facility, "--it-csv", it, "--json")
        self.assert_ran(process)
        price = json.loads(process.stdout)["price"]
        self.assertAlmostEqual(price["pue"], 1.3, 9)
        self.assertIn("measured: 1300 W", price["pue_source"])
        second = json.loads(self.b.read_text())  # of another day, on which the facility drew more
        second["context"]["started_at"], second["context"]["finished_at"] = "2026-03-02T10:00:00Z", "2026-03-02T10:20:00Z"
        second = self.write("second.json", second)
        warmer = self.write("warmer.csv", "time,watts\n" + "".join(f"2026-03-0{day}T{hour:02}:00:00Z,{watts}\n" for day, watts in ((1, 1300), (2, 1600))
                                                                   for hour in range(24)))
        cooled = self.write("cooled.csv", (self.folder / "warmer.csv").read_text().replace(",1300", ",1000").replace(",1600", ",1000"))
        process = tool("compare", f"x={self.a},{second}", f"y={self.b}", "--prices", prices, "--price-of", "x=one", "--price-of", "y=one",
                       "--facility-csv", f"x={warmer}", "--it-csv", f"x={cooled}", "--json")
        self.assertIn(process.returncode, (0, NOTHING), process.stderr)
        price = json.loads(process.stdout)["systems"][0]["cost"]["price"]
        self.assertAlmostEqual(price["pue"], (1300 * 600 + 1600 * 1200) / (1000 * 1800), 9)
        self.assertIn("along 2 runs", price["pue_source"])
        self.refused(USAGE, ["error[no-pue]"], "cost", self.a, "--prices", prices, "--facility-csv", it, "--it-csv", facility)
        self.refused(USAGE, ["--it-csv"], "cost", self.a, "--prices", prices, "--facility-csv", facility)
        short = self.write("short.csv", "time,watts\n2026-03-01T10:05:00Z,1300\n2026-03-01T10:06:00Z,1300\n")
        self.refused(USAGE, ["short.csv", "begins"], "cost", self.a, "--prices", prices, "--facility-csv", short, "--it-csv", it)

    def test_what_is_no_report(self):
        truncated = self.write("truncated.json", Compare.texts[0][:500])
        other = self.write("other.json", {"hello": 1})
        lines = self.write("records.jsonl", "".join(json.dumps(record) + "\n" for record in json.loads(Compare.texts[0])["records"]))
        report = json.loads(Compare.texts[0])
        missing = copy.deepcopy(report)
        del missing["records"][0]["workload"]["hash"]
        wrong = copy.deepcopy(report)
        wrong["records"][0]["trials"] = "many"
        empty = copy.deepcopy(report)
        empty["records"] = []
        for path, words in ((self.folder / "none.json", ["none.json", "No such file"]), (truncated, ["truncated.json", "not JSON"]),
                            (other, ["other.json", "schema_version"]), (lines, ["records.jsonl", "unfinished run"]),
                            (self.write("missing.json", missing), ["missing.json", "hash"]),
                            (self.write("wrong.json", wrong), ["wrong.json", "trials"])):
            with self.subTest(path=path.name):
                self.refused(USAGE, words, "compare", path, self.b)
                self.refused(USAGE, words, "compare", self.b, path)
        self.assert_ran(tool("compare", self.write("empty.json", empty), self.b), NOTHING)
        process = tool("compare", self.b, self.folder / "empty.json")
        self.assert_ran(process, NOTHING)
        self.refused(USAGE, ["error[duplicate-value]", "named A"], "compare", f"A={self.a}", f"A={self.b}")
        self.refused(USAGE, ["error[option-needs]"], "compare", self.a)
        self.refused(USAGE, ["error[unknown-name]", "zzzzzz"], "compare", self.a, self.b, "--figure", "zzzzzz,speed")
        self.refused(USAGE, ["error[unknown-name]", "a, b"], "compare", self.a, self.b, "--reference", "x")

    def test_control_characters_do_not_reach_the_terminal(self):
        report = json.loads(self.b.read_text())
        report["context"]["hosts"][0]["cpu"] = "\u001b[31mred\u202e"
        report["records"][0]["id"] = "\u001b]0;title\u0007"
        self.b.write_text(json.dumps(report))
        for form in ((), ("--json",), ("--markdown",), ("--csv",)):
            process = tool("compare", self.a, self.b, *form)
            self.assertNotIn("\u001b", process.stdout + process.stderr)
            self.assertNotIn("\u202e", process.stdout + process.stderr)


if __name__ == "__main__":
    unittest.main()
