"""A buyer's kit from freeze to a signed offer, and what becomes of offers that somebody has touched."""
import ctypes
import hashlib
import io
import json
import re
import subprocess
import tarfile
import unittest

from support import Case, codes, run, said, said_codes, tool, validated

FOLDER = "trainwatt-offer/"


def unpacked(archive):
    """{name: bytes} of a tar.zst; Python 3.11 knows no zstd."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    packed = archive.read_bytes()
    room = ctypes.create_string_buffer(16 << 20)
    size = zstd.ZSTD_decompress(room, ctypes.c_size_t(len(room)), packed, ctypes.c_size_t(len(packed)))
    assert size <= len(room), "not one zstd frame"
    with tarfile.open(fileobj=io.BytesIO(room.raw[:size])) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def packed(archive, files, change=lambda info: None):
    """A tar.zst of {name: bytes}; `change` may make something else of a member's TarInfo."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in files:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            change(info)
            tar.addfile(info, io.BytesIO(text) if info.isreg() else None)
    size = buffer.tell()
    raw = (ctypes.c_char * size).from_buffer(buffer.getbuffer())
    room = ctypes.create_string_buffer(len(raw) + (1 << 16))
    size = zstd.ZSTD_compress(room, ctypes.c_size_t(len(room)), raw, ctypes.c_size_t(len(raw)), 3)
    archive.write_bytes(room.raw[:size])


def key(path, comment):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True)
    return path.with_suffix(".pub").read_text()


class Kit(Case):
    def setUp(self):
        super().setUp()
        self.kit = self.folder / "kit.json"
        self.offer = self.folder / "offer.tar.zst"

    def freeze(self, *args, **env):
        process = tool("freeze", "--model", "gpt2-tiny", "--seq-len", 16, "--precision", "float32", "--accumulate", "1,2", "--steps", 4, "--trials", 3,
                       "--warmup", 1, "--title", "Tender 7", "-o", self.kit, *args, **env)
        self.assert_ran(process)
        return json.loads(self.kit.read_text())["sha256"]

    def run_kit(self, out=None):
        self.assert_ran(run("--config", self.kit, "--out", out or self.out, ranks=2))

    def test_from_kit_to_offer(self):
        sha256 = self.freeze()
        planned = tool("plan", "--config", self.kit)
        self.assert_ran(planned)
        self.assertIn("gpt2-tiny/float32/mb8/t16/acc2/np1", planned.stdout)
        self.run_kit()
        report = self.report()
        self.assertEqual(report["plan"]["kit"], {"title": "Tender 7", "sha256": sha256})
        self.assertEqual(json.loads(report["plan"]["canonical_json"])["kit"], sha256)
        self.assertIn(sha256, tool("show", self.out / "report.json").stdout)
        self.assertEqual(validated(self.out / "report.json")["exit_code"], 0, "a report for a look is good, whatever rule it breaks")
        plain = validated(self.out / "report.json", "--kit", self.kit)
        self.assertEqual((plain["exit_code"], set(codes(plain["faults"]))), (1, {"rule_broken"}), "against a kit it is an offer")
        self.assertIn("offer_not_bundled", codes(plain["notes"]))

        self.assert_ran(tool("bundle", self.out, "-o", self.offer))
        again = self.folder / "again.tar.zst"
        self.assert_ran(tool("bundle", self.out, "-o", again))
        self.assertEqual(self.offer.read_bytes(), again.read_bytes(), "the same run makes the same bundle")
        refused = tool("bundle", self.out, "-o", again)
        self.assertEqual(refused.returncode, 2)
        self.assertEqual(said_codes(refused.stderr), ["file-exists"])
        files = unpacked(self.offer)
        self.assertEqual(sorted(files), [FOLDER + name for name in (
            "README.txt", "SHA256SUMS", "bundle.json", "environment.json", "power.csv", "records.jsonl", "report.json", "run.json")])
        self.assertEqual(files[FOLDER + "report.json"], (self.out / "report.json").read_bytes())
        self.assertIn(sha256, files[FOLDER + "README.txt"].decode())

        # Steps instead of windows break a rule, which is named; nothing else is wrong.
        process = tool("validate", self.offer, "--kit", self.kit)
        self.assert_ran(process, 1)
        found = validated(self.offer, "--kit", self.kit)
        self.assertEqual(set(codes(found["faults"])), {"rule_broken"}, process.stdout)
        self.assertEqual((found["consistent"], found["fit_for_publication"], found["kind"]), (True, False, "bundle"))
        rules = {rule["id"]: rule for rule in found["rules"]}
        self.assertIs(rules["window"]["kept"], False)
        self.assertIn("gpt2-tiny", rules["window"]["why"])
        self.assertEqual((rules["complete"]["kept"], rules["seeds"]["kept"], rules["seeds"]["state"]), (True, None, "does not apply"))
        # One table: of the offer, of its report and on its page.
        self.assertEqual(rules, {rule["id"]: rule for rule in validated(self.out / "report.json")["rules"]})
        of_offer = [(rule["id"], rule["state"]) for rule in rules.values() if rule["state"] in ("broken", "not checkable")]
        page = self.folder / "page.html"
        self.assert_ran(tool("html", self.out / "report.json", "-o", page))
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL).group(1))
        section = next(section for section in data["sections"] if section["id"] == "rules")
        text = json.dumps(section)
        for rule, state in of_offer:
            self.assertRegex(text, rf'"{rule}".{{0,40}}"{state}"')
        self.assertIn(sha256, process.stdout)
        self.assertEqual(tool("show", self.offer).stdout, tool("show", self.out / "report.json").stdout)

        # A byte of each file.
        for name in files:
            changed = dict(files)
            middle = len(changed[name]) // 2
            changed[name] = changed[name][:middle] + bytes([changed[name][middle] ^ 1]) + changed[name][middle + 1:]
            packed(self.folder / "changed.tar.zst", sorted(changed.items()))
            process = tool("validate", self.folder / "changed.tar.zst")
            self.assert_ran(process, 1)
            short = name.removeprefix(FOLDER)
            self.assertRegex(said(process), rf": {short}: was altered" if short != "SHA256SUMS" else "was altered|SHA256SUMS: ")
            self.assertNotEqual(tool("show", self.folder / "changed.tar.zst").returncode, 0)
        # One less, one more.
        for name in set(files) - {FOLDER + "SHA256SUMS"}:
            packed(self.folder / "changed.tar.zst", [item for item in sorted(files.items()) if item[0] != name])
            process = tool("validate", self.folder / "changed.tar.zst")
            self.assert_ran(process, 1)
            self.assertIn(name.removeprefix(FOLDER) + ": is missing", said(process))
        packed(self.folder / "changed.tar.zst", sorted(files.items()) + [(FOLDER + "more.json", b"{}")])
        self.assertIn("more.json: was added", said(tool("validate", self.folder / "changed.tar.zst")))

    def test_another_plan_is_not_the_kit(self):
        self.freeze()
        words = ("--model", "gpt2-tiny", "--seq-len", 16, "--precision", "float32", "--accumulate", "1,2", "--steps", 4, "--warmup", 1, "--trials", 3)
        self.assert_ran(run(*words, "--out", self.out))
        process = tool("validate", self.out / "report.json", "--kit", self.kit)
        self.assert_ran(process, 1)
        self.assertIn(("kit_differs", "/plan/kit"),
                      [(one["code"], one["where"]) for one in validated(self.out / "report.json", "--kit", self.kit)["faults"]])
        # Its SHA-256 above another plan, consistently.
        self.run_kit(self.folder / "kit-run")
        report = self.report(self.folder / "kit-run")
        plan = json.loads(report["plan"]["canonical_json"])
        plan["eager"] = True
        report["plan"]["canonical_json"] = json.dumps(plan, sort_keys=True, separators=(",", ":"))
        report["plan"]["sha256"] = hashlib.sha256(report["plan"]["canonical_json"].encode()).hexdigest()
        forged = self.folder / "forged.json"
        forged.write_text(json.dumps(report))
        self.assert_ran(tool("validate", forged))
        process = tool("validate", forged, "--kit", self.kit)
        self.assert_ran(process, 1)
        self.assertIn(("kit_differs", "/plan/canonical_json"),
                      [(one["code"], one["where"]) for one in validated(forged, "--kit", self.kit)["faults"]])

    def test_a_kit_is_run_as_it_is(self):
        sha256 = self.freeze()
        refused = tool("freeze", "--suite", "quick", "-o", self.kit)
        self.assertEqual(refused.returncode, 2)
        self.assertEqual(said_codes(refused.stderr), ["file-exists"])
        self.assert_one_line_error(run("--config", self.kit, "--steps", 2, "--seed", 3, "--out", self.out), 2, str(self.kit), "error[frozen-plan]", "--steps", "--seed")
        self.assert_one_line_error(run("--config", self.kit, "--recompute", "--eager", "--comm", "mpi", "--deterministic", "no", "--out", self.out), 2,
                                   "error[frozen-plan]", "--recompute, --comm, --eager, --deterministic")
        self.assert_one_line_error(run("--config", self.kit, "--precision", "bf16", "--out", self.out), 2, "error[frozen-plan]", "--precision")
        changed = json.loads(self.kit.read_text())
        changed["config"]["trials"] = 2
        self.kit.write_text(json.dumps(changed))
        self.assert_one_line_error(run("--config", self.kit, "--out", self.out), 2, str(self.kit), "error[kit-changed]", sha256)
        for command in (("plan", "--config", self.kit), ("validate", "--kit", self.kit, self.kit), ("freeze", "--config", self.kit, "-o", self.folder / "x")):
            process = tool(*command)
            self.assert_ran(process, 2)
            self.assertEqual(said_codes(process.stderr), ["kit-changed"])

    def test_what_is_not_good_is_bundled_by_force_alone(self):
        self.freeze()
        self.run_kit()
        report = self.report()
        report["records"][0]["summary"]["samples_per_s"]["value"] *= 2
        (self.out / "report.json").write_text(json.dumps(report))
        process = tool("bundle", self.out, "-o", self.offer)
        self.assert_ran(process, 1)
        self.assertEqual(said_codes(process.stderr), ["report-faulty"])
        self.assertIn("samples_per_s", process.stderr)
        self.assertFalse(self.offer.exists())
        self.assert_ran(tool("bundle", self.out, "-o", self.offer, "--force"))
        self.assertTrue(json.loads(unpacked(self.offer)[FOLDER + "bundle.json"])["forced"])
        self.assertIn(b"--force", unpacked(self.offer)[FOLDER + "README.txt"])
        process = tool("validate", self.offer)
        self.assert_ran(process, 1)
        self.assertIn("was made with --force over: ", said(process))
        self.assertIn("records.jsonl: ", said(process))

    def test_signatures(self):
        self.freeze()
        self.run_kit()
        vendor = key(self.folder / "vendor", "vendor@example.com")
        stranger = key(self.folder / "stranger", "stranger@example.com")
        signers, others = self.folder / "signers", self.folder / "others"
        signers.write_text(f'vendor@example.com namespaces="trainwatt" {vendor}')
        others.write_text(f"stranger@example.com {stranger}")
        self.assert_ran(tool("bundle", self.out, "-o", self.offer, "--sign", self.folder / "vendor"))
        process = tool("validate", self.offer, "--signers", signers)
        self.assertRegex(said(process), 'signature: Good "trainwatt" signature for vendor@example.com with ED25519 key SHA256:')
        self.assertEqual(set(codes(validated(self.offer, "--signers", signers)["faults"])), {"rule_broken"})
        self.assertIn("signature: not checked", said(tool("validate", self.offer)))
        process = tool("validate", self.offer, "--signers", others)
        self.assert_ran(process, 1)
        self.assertIn("signature_bad", codes(validated(self.offer, "--signers", others)["faults"]))

        # Somebody else's file under it, with sums that fit.
        files = unpacked(self.offer)
        files[FOLDER + "README.txt"] += b"and cheap\n"
        files[FOLDER + "SHA256SUMS"] = "".join(
            f"{hashlib.sha256(text).hexdigest()}  {name.removeprefix(FOLDER)}\n" for name, text in sorted(files.items())
            if "SHA256SUMS" not in name).encode()
        packed(self.folder / "changed.tar.zst", sorted(files.items()))
        process = tool("validate", self.folder / "changed.tar.zst", "--signers", signers)
        self.assert_ran(process, 1)
        found = codes(validated(self.folder / "changed.tar.zst", "--signers", signers)["faults"])
        self.assertIn("signature_bad", found)
        self.assertNotIn("altered", said(process))

        unsigned = self.folder / "unsigned.tar.zst"
        self.assert_ran(tool("bundle", self.out, "-o", unsigned))
        self.assertIn("signature_missing", codes(validated(unsigned, "--signers", signers)["faults"]))
        for process, words in ((tool("bundle", self.out, "-o", self.folder / "n", "--sign", signers), "--sign"),
                               (tool("bundle", self.out, "-o", self.folder / "n", "--sign", self.folder / "none"), "error[cannot-sign]"),
                               (tool("validate", self.offer, "--signers", self.folder / "none"), "cannot be read")):
            self.assert_ran(process, 2)
            self.assertIn(words, process.stderr)
        process = tool("validate", self.offer, "--signers", signers, PATH="/nowhere")
        self.assert_ran(process, 3)
        self.assertEqual(said_codes(process.stderr), ["no-ssh-keygen"])

    def test_hostile_archives(self):
        def kind(type_, link=""):
            def change(info):
                info.type, info.linkname = type_, link
            return change
        plain = [(FOLDER + "report.json", b"{}")]
        cases = [
            (plain, kind(tarfile.SYMTYPE, "/etc/passwd"), "not a regular file"), (plain, kind(tarfile.LNKTYPE, "x"), "not a regular file"),
            (plain, kind(tarfile.FIFOTYPE), "not a regular file"), (plain, kind(tarfile.DIRTYPE), "not a regular file"),
            ([("../report.json", b"{}")], None, "not in trainwatt-offer"), ([("/etc/report.json", b"{}")], None, "not in trainwatt-offer"),
            ([(FOLDER + "../../x", b"{}")], None, "not a valid file name"), ([(FOLDER + ".ssh", b"{}")], None, "not a valid file name"),
            ([(FOLDER + "a\x1b[31m", b"{}")], None, "not a valid file name"), (plain * 2, None, "twice"),
            ([(FOLDER + f"f{i}", b"") for i in range(100)], None, "too many files"),
            ([(FOLDER + "zeros", bytes(513 << 20))], None, "maximum 512 MiB"), ([], None, "empty"),
        ]
        for files, change, words in cases:
            packed(self.offer, files, change or (lambda info: None))
            for command, code in (("validate", 1), ("show", 2)):
                process = tool(command, self.offer)
                self.assert_ran(process, code)
                if command == "show":
                    self.assertEqual(process.stderr.count("\n"), 1, process.stderr)
                self.assertIn(words, process.stderr if command == "show" else said(process))
                self.assertNotIn("\x1b", process.stderr + process.stdout)
            self.assertEqual(codes(validated(self.offer)["faults"]), ["unreadable"])
        packed(self.offer, plain)
        whole = self.offer.read_bytes()
        for text in (whole[:-8], whole[:4], whole[:4] + b"\xff" * 40):
            self.offer.write_bytes(text)
            for command, code in (("validate", 1), ("show", 2)):  # as of a report that is no whole JSON
                process = tool(command, self.offer)
                self.assert_ran(process, code)
                if command == "show":
                    self.assertIn("tar.zst", process.stderr)
            self.assertEqual(codes(validated(self.offer)["faults"]), ["unreadable"])


if __name__ == "__main__":
    unittest.main()
