"""Files that nobody wrote in good faith: one line, code 2 (or 1 of `validate`), bounded memory, whatever is in them."""
import copy
import json
import os
import pathlib
import resource
import subprocess
import unittest

from support import BIN, HANG, Case, environment, said, tool

FIXTURES = pathlib.Path(__file__).parent.parent / "results" / "fixtures"
GOOD, TARGET = FIXTURES / "good.json", FIXTURES / "good_target.json"
PRICES = {"currency": "EUR", "electricity_per_kwh": 0.3, "carbon_g_per_kwh": 300, "systems": {"a": {"rent_per_month": 260}}}


def places_of(report):
    """The way to each value, of lists to the first alone."""
    places = []

    def walk(value, path):
        places.append(path)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ():
            walk(item, path + [key])
    walk(report, [])
    return places


def with_value(report, path, value):
    report = copy.deepcopy(report)
    place = report
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return report


MEMORY = 2 << 30
SANITIZED = bool(os.environ.get("TRAINWATT_SANITIZE"))


def bounded(*args, **kwargs):
    """The tool with 2 GiB of address space, which no sanitizer can live in."""
    limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return subprocess.run([str(BIN / "trainwatt"), *map(str, args)], capture_output=True, timeout=HANG, env=environment(), preexec_fn=limit, **kwargs)


class Hostile(Case):
    def setUp(self):
        super().setUp()
        self.good = json.loads(GOOD.read_text())
        self.file = self.folder / "report.json"

    def assert_refused(self, words, *command):
        """`validate` and `show` say what, shortly, and end with 1 or 2."""
        for name in command or ("validate", "show"):
            process = bounded(name, self.file)
            self.assertIn(process.returncode, (1, 2), process.stderr[-500:])
            text = said(process) if name == "validate" and process.returncode == 1 else process.stderr.decode()
            self.assertLess(process.stderr.count(b"\n"), 4, process.stderr[-500:])
            self.assertIn(words, text)
            if name == "validate":
                self.assertLess(text.count("fault["), 4, text[-500:])
            self.assertNotIn(b"\x1b", process.stderr)
            self.assertNotIn(b"\x1b", process.stdout)

    def changed(self, change):
        report = copy.deepcopy(self.good)
        change(report)
        self.file.write_text(json.dumps(report))

    def test_sizes(self):
        with open(self.file, "wb") as file:
            file.truncate(1 << 30)  # zeros, sparse
        self.assert_refused("maximum 256 MiB", "show")
        self.file.write_text("[" * 1_000_000)
        self.assert_refused("more than 64 levels")
        self.file.write_text('{"a":' * 1_000_000)
        self.assert_refused("more than 64 levels")
        self.file.write_text("[" + "0," * 20_000_000 + "0]")
        self.assert_refused("more than 16777216 values", "validate")
        self.file.write_text("{" + ",".join(f'"{i}":0' for i in range(100_000)) + "}")
        self.assert_refused("more than 65536 keys")
        self.file.write_text('"' + "a" * (100 << 20) + '"')
        self.assert_refused("report", "validate")

    def test_what_is_no_plain_file(self):
        for path, words in (("/dev/zero", "neither a file nor a pipe"), (self.folder, "folder"), (self.folder / "none", "No such file")):
            process = bounded("validate", path)
            self.assertEqual(process.returncode, 2)
            self.assertIn(words.encode(), process.stderr)
        process = bounded("validate", "/dev/stdin", input=b"\0" * 1000)
        self.assertEqual(process.returncode, 2, process.stderr)
        process = subprocess.run(["bash", "-c", '"$0" validate <(yes)', str(BIN / "trainwatt")], capture_output=True, timeout=HANG)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn(b"maximum 256 MiB", process.stderr)
        os.mkfifo(self.folder / "report.json")
        process = bounded("bundle", self.folder, "-o", self.folder / "x.tar.zst")
        self.assertEqual(process.returncode, 2)
        self.assertIn(b"not a regular file", process.stderr)

    def test_unreadable(self):
        self.file.write_text("{}")
        self.file.chmod(0)
        self.folder.chmod(0o755)
        command = [str(BIN / "trainwatt"), "validate", str(self.file)]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
        if process.returncode == 127 or "setpriv" in process.stderr:
            self.skipTest("setpriv does not work here")
        self.assert_ran(process, 2)
        self.assertIn("Permission denied", process.stderr)

    def test_texts(self):
        good = GOOD.read_text()
        for old, new, words in (
                ('"schema_version": "1.0"', '"schema_version": "2.0"', "a newer trainwatt does"),
                ('"schema_version": "1.0"', '"schema_version": 1e999', "out of range"),
                ('"schema_version": "1.0"', '"schema_version": NaN', "syntax error"),
                ('"schema_version": "1.0"', '"schema_version": -Infinity', "syntax error"),
                ('"schema_version": "1.0"', '"schema_version": "1.0", "schema_version": "1.0"', "occurs twice"),
                ('"schema_version": "1.0"', '"schema_version": "1.\xff"', "invalid"),
                ('"schema_version": "1.0"', '"schema_version": "1.\xc3', "invalid"),
                ('"schema_version": "1.0"', '"schema_version": "1\0.0"', "control character"),
                ('"records": [', '"records": [null, ', "records/0")):
            self.assertIn(old, good)
            self.file.write_bytes(good.replace(old, new, 1).encode("latin-1" if "\xff" in new or "\xc3" in new else "utf-8", "replace"))
            self.assert_refused(words)
        for end in (1, 100, len(good) // 2, len(good) - 3):
            self.file.write_text(good[:end])
            self.assert_refused("not JSON")

    def test_every_type_everywhere(self):
        """Each value of the report in turn as something else: refused or taken, never a crash."""
        files = []
        for number, path in enumerate(places_of(self.good)[1::3]):
            files.append(self.folder / f"{number}.json")
            files[-1].write_text(json.dumps(with_value(self.good, path, (None, -1, "\x1b[31m", [], {}, True, 1e300, 2**63)[number % 8])))
        process = bounded("validate", *files)
        self.assertIn(process.returncode, (1, 2))
        self.assertNotIn(b"\x1b", process.stderr + process.stdout)

    def assert_read_by_all(self, number, good):
        """By every subcommand that makes figures of a report: no crash, and what is refused is refused by the name of the file."""
        prices = self.folder / "prices.json"
        prices.write_text(json.dumps(PRICES))
        for command in (["compare", good, self.file, "--json", "--prices", prices], ["cost", self.file, "--prices", prices],
                        ["html", good, self.file, "-o", self.folder / f"{number}c.html", "--prices", prices],
                        ["html", self.file, "-o", self.folder / f"{number}.html", "--prices", prices]):
            process = bounded(*command)
            self.assertIn(process.returncode, (0, 2, 4), f"{command}: {process.stderr[-500:]}")
            self.assertNotIn(b"\x1b", process.stderr + process.stdout)
            if process.returncode == 2:
                self.assertIn(self.file.name.encode(), process.stderr)

    def test_every_type_everywhere_in_figures(self):
        """The same in reports that are held against others, priced and drawn."""
        for good in (GOOD, TARGET):
            report = json.loads(good.read_text())
            for number, path in enumerate([path for path in places_of(report) if len(path) > 2][::9]):
                self.file.write_text(json.dumps(with_value(report, path, (None, -1, "\x1b[31m", [], {}, 0, 1e300, 2**62)[number % 8])))
                with self.subTest(report=good.name, path=path):
                    self.assert_read_by_all(f"{good.stem}{number}", good)

    def test_samples_that_contradict_the_summary(self):
        """The summary says that a target was reached, and of the samples one does not: figures are taken of these alone."""
        report = json.loads(TARGET.read_text())
        target = ["records", 0, "target"]
        floor_gone, stricter = with_value(report, [*target, "floor"], 0), with_value(report, [*target, "value"], report["records"][0]["target"]["value"] / 1000)
        for number, changed in enumerate((floor_gone, stricter, with_value(report, target, None), with_value(report, ["records", 0, "trials", 0, "target_run"], None),
                                          with_value(report, ["records", 0, "trials"], []))):
            self.file.write_text(json.dumps(changed))
            with self.subTest(number=number):
                self.assertEqual(bounded("validate", self.file).returncode, 1)
                self.assert_read_by_all(number, TARGET)
                compared = json.loads(bounded("compare", TARGET, self.file, "--json").stdout)
                self.assertTrue(next(d for d in compared["differences"] if d["what"] == "validation")["blocking"])
                ratios = [row["systems"][1]["ratio"] for figure in compared["figures"] for row in figure["workloads"]]
                self.assertEqual(set(ratios), {None})
                if number < 2 or number == 4:
                    shown = bounded("show", self.file)
                    self.assertEqual(shown.returncode, 0, shown.stderr)
                    self.assertIn(b"did not reach" if number < 2 else b"no_trials", shown.stdout)

    def test_a_newer_minor_version_is_read(self):
        def change(report):
            report["schema_version"] = "1.7"
            report["more"] = {"a": 1}
            report["records"][0]["summary"]["more"] = 1
        self.changed(change)
        process = bounded("validate", self.file)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn('/schema_version: "1.7" is newer than 1.0', said(process))
        self.assertEqual(bounded("show", self.file).returncode, 0)

    def test_long_strings(self):
        def change(report):
            report["records"][0]["verdict"]["flags"] = ["a" * 1_000_000]
            report["context"]["started_at"] = "2" * 1_000_000
        self.changed(change)
        process = bounded("validate", self.file)
        self.assertEqual(process.returncode, 1, process.stderr[-300:])

    def test_many_violations(self):
        """Each was kept, and each pair of equal flags was one."""
        self.changed(lambda report: report["records"][0]["verdict"].update(flags=["not_observed"] * 100_000))
        self.assert_refused("occurs twice", "validate")
        self.changed(lambda report: report["records"][0]["trials"][0].update(step_time_s=["x"] * 2_000_000))
        process = bounded("validate", self.file)
        self.assertEqual(process.returncode, 1, process.stderr[-300:])
        self.assertIn("there are more violations", said(process))
        self.changed(lambda report: report["records"][0]["trials"][0].update(step_time_s=[1.0] * 2_000_000 + ["x"]))
        self.assert_refused("a value behind the first 100000", "validate")

    def test_a_million_samples(self):
        def change(report):
            trial = report["records"][0]["trials"][0]
            trial["step_time_s"] = [1e-5 * (1 + i % 7) for i in range(1_000_000)]
            trial["loss"] = [5 - i * 1e-6 for i in range(1_000_000)]
            trial["gradient_norm"] = [1.0] * 1_000_000
        self.changed(change)
        for command in ("validate", "show"):
            self.assertIn(bounded(command, self.file).returncode, (0, 1))

    def test_names_with_markup_and_escapes(self):
        def change(report):
            report["context"]["hosts"][0]["name"] = "<img src=x onerror=alert(1)>\x1b]0;owned\x07\u202e"
            report["context"]["warnings"] = ["\x1b[2J\x9b31m=cmd()"]
        self.changed(change)
        process = bounded("show", self.file)
        self.assertEqual(process.returncode, 0, process.stderr)
        for escape in (b"\x1b", b"\x07", b"\xc2\x9b", "\u202e".encode()):
            self.assertNotIn(escape, process.stdout)
        self.assertEqual(bounded("export", self.file, "--to", "markdown", "-o", self.folder / "t").returncode, 0)
        self.assertNotRegex((self.folder / "t" / "report.md").read_text(), r"(?<!\\)<img")

    def test_plans_and_kits(self):
        for text, words in (('{"model":' + "[" * 400_000, b"more than 64 levels"), ("[" * 1000, b"more than 64 levels"), ('{"kit_version": "9.0"}', b"newer"),
                            ('{"kit_version": 1}', b"/kit_version"), ('{"kit_version": "1.0"}', b"damaged"), ('{"model": 1e999}', b"error[bad-config]"),
                            (" " * (2 << 20), b"1 MiB"), ('{"kit_version": "1.0", "sha256": "x"}', b"was changed")):
            self.file.write_text(text)
            process = bounded("plan", "--config", self.file)
            self.assertEqual(process.returncode, 2, process.stderr)
            self.assertEqual(process.stderr.count(b"\n"), 1)
            self.assertIn(words, process.stderr)
        self.file.write_text("[" * 500_000)
        process = bounded("plan", "--model", "gpt2-tiny", "--on", self.file)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.file.write_text('{"knobs": [{"kind": "gpu_clock_mhz", "values": ' + "[" * 100_000 + "]" * 100_000 + "}]}")
        process = bounded("plan", "--model", "gpt2-tiny", "--site", self.file)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn(b"more than 16 levels", process.stderr)


if __name__ == "__main__":
    unittest.main()
