"""`cmake --install` and `cpack`: programs that run from a moved prefix without source and build folder, manuals and completion
from their own options, a library for find_package."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import unittest

from fake_node import Under
from support import mpirun

BUILD = pathlib.Path(os.environ["TRAINWATT_BIN"]).parent
SOURCE = pathlib.Path(__file__).resolve().parents[2]
REPORT = SOURCE / "tests/results/fixtures/good.json"
PROGRAMS = ["trainwatt", "trainwatt-train", "trainwatt-ops"]


def call(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, timeout=500, **options)


class Terminal:
    """A program at a terminal; the test presses the keys."""

    def __init__(self, *words):
        self.ours, theirs = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        env={**os.environ, "TERM": "dumb"})
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)

    def type(self, text):
        os.write(self.ours, text.encode())

    def wait_for(self, pattern):
        """The match; what was shown until then is forgotten. What does not come ends the test."""
        while not (found := re.search(pattern, self.shown)):
            if not select.select([self.ours], [], [], 120)[0]:
                raise AssertionError(f"{pattern} was not shown, but {self.shown!r}")
            self.shown += os.read(self.ours, 65536).decode(errors="replace")
        self.shown = self.shown[found.end():]
        return found


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-install-"))
        first = cls.folder / "first"
        done = call("cmake", "--install", BUILD, "--prefix", first)
        assert done.returncode == 0, done.stderr
        cls.prefix = first.rename(cls.folder / "moved")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def alone(self, *words):
        """Without what it was built from."""
        Under({}, {}).or_skip()
        hidden = [word for folder in {SOURCE, BUILD} for word in ("--tmpfs", folder)]
        return call("bwrap", "--dev-bind", "/", "/", *hidden, "--chdir", self.folder, *words)

    def test_programs_run_from_a_moved_prefix(self):
        programs = self.prefix / "bin"
        for name in PROGRAMS:
            done = self.alone(programs / name, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.alone(programs / "trainwatt-repeat", "2", "--", programs / "trainwatt-train", "--model", "gpt2-tiny",
                          "--steps", "2", "--trials", "1", "--device", "reference", "--micro-batch", "1", "--out", "runs")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for run in (1, 2):
            done = self.alone(programs / "trainwatt", "show", self.folder / f"runs/run-{run}/report.json")
            self.assertEqual(done.returncode, 0, done.stderr)
        # The next step after one run each names a command that is installed.
        done = self.alone(programs / "trainwatt", "compare", *(f"{name}={self.folder}/runs/run-{run}/report.json"
                                                               for name, run in (("A", 1), ("B", 2))), "--json")
        step = json.loads(done.stdout)["next_step"]
        self.assertEqual(step["code"], "repeat_runs", done.stdout)
        named = set(re.findall(r"(?<![/\w])trainwatt-\w+|scripts/\S+", done.stdout)) - {"trainwatt-train"}  # the program of the report
        self.assertEqual(named, {"trainwatt-repeat"})
        self.assertTrue((programs / "trainwatt-repeat").is_file())

    def test_manifest_lists_all_files(self):
        """By install_manifest*.txt an administrator removes an installation."""
        done = call("cmake", "--install", BUILD, "--prefix", self.folder / "programs", "--component", "programs")
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = (BUILD / "install_manifest_programs.txt").read_text().split()
        found = [str(file) for file in (self.folder / "programs").rglob("*") if file.is_symlink() or file.is_file()]
        self.assertEqual(sorted(listed), sorted(found))

    def test_relative_prefixes_and_the_root(self):
        """A relative one is one of the current folder, also below DESTDIR; / stays /."""
        staged = f"DESTDIR={self.folder}/staged"
        for words in (("cmake", "--install", BUILD, "--prefix", "relative"), (staged, "cmake", "--install", BUILD, "--prefix", "relative"),
                      (staged, "cmake", "-DCMAKE_INSTALL_PREFIX=/", "-DCMAKE_INSTALL_COMPONENT=tool", "-P", BUILD / "cmake_install.cmake")):
            done = call("env", "-C", self.folder, *words, *([] if "-P" in words else ["--component", "tool"]))
            self.assertEqual(done.returncode, 0, done.stderr)
        for place in ("relative", f"staged/{self.folder}/relative", "staged"):
            self.assertTrue((self.folder / place / "bin/trainwatt").is_file(), place)

    def test_nothing_names_the_build(self):
        for name in PROGRAMS:
            done = call("readelf", "-d", self.prefix / "bin" / name)
            paths = re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", done.stdout)
            self.assertEqual(len(paths), 1, done.stdout)
            self.assertTrue(paths[0].startswith("$ORIGIN/"), paths)
            self.assertNotIn(str(BUILD), paths[0])
        for file in self.prefix.rglob("*.cmake"):
            for folder in (BUILD, SOURCE):  # as a path, not as the end of include/trainwatt
                self.assertIsNone(re.search(rf"(?<![\w}}]){re.escape(str(folder))}(?!\w)", file.read_text()), file)

    def test_data(self):
        share = self.prefix / "share/trainwatt"
        for schema in ("report", "prices", "baseline", "config"):
            json.loads((share / f"schema/{schema}.schema.json").read_text())
        for file in ("prices/examples-usd.json", "scripts/slurm/sweep.sbatch", "scripts/slurm/launch",
                     "scripts/slurm/epilog.sh", "monitoring/grafana-dashboard.json"):
            self.assertTrue((share / file).is_file(), file)
        examples = sorted((share / "examples/custom").glob("*.json"))
        self.assertEqual([file.name for file in examples], sorted(file.name for file in (SOURCE / "models/custom/examples").glob("*.json")))
        for file in examples:
            done = call(self.prefix / "bin/trainwatt", "models", "custom", "--layers-file", file)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_texts_name_what_is_installed(self):
        """Links of the manuals lead somewhere; manuals and --help name no path of the source tree that has another one here."""
        doc = self.prefix / "share/doc/trainwatt"
        pages = sorted(doc.rglob("*.md"))
        self.assertIn(doc / "models/README.md", pages)
        links = 0
        for page in pages:
            text = page.read_text()
            for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", re.sub(r"`[^`\n]*`", "", text)):
                if not re.match("[a-z]+:", target):
                    links += 1
                    self.assertTrue((page.parent / target).exists(), f"{page}: {target}")
            for path in ("results/schema/", "results/prices/", "models/custom/examples", "scripts/repeat", "scripts/slurm/sweep"):
                self.assertIsNone(re.search(rf"(?<![\w/-]){path}", text), f"{page}: {path}")
            for path in re.findall(r"(?<![\w/-])share/trainwatt/[\w./-]*\w", text):
                self.assertTrue((self.prefix / path).exists(), f"{page}: {path}")
        self.assertGreater(links, 50)
        self.assertIn("share/trainwatt/prices/examples-usd.json", (doc / "README.md").read_text())
        texts = {name: call(self.prefix / "bin" / name, "--help").stdout for name in [*PROGRAMS, "trainwatt-repeat"]}
        for command in ("compare", "cost", "export", "html"):
            texts[command] = call(self.prefix / "bin/trainwatt", command, "--help").stdout
        for name, text in texts.items():
            self.assertIn("--", text, name)
            self.assertNotRegex(" ".join(text.split()), r"results/schema|scripts/", name)

    def test_manual_pages_have_all_options(self):
        for name in PROGRAMS:
            page = self.prefix / f"share/man/man1/{name}.1"
            text = page.read_text().replace("\\", "")
            options = set(re.findall(r"--[a-z][a-z0-9-]+", call(self.prefix / "bin" / name, "--help").stdout))
            missing = {option for option in options if option not in text and not option.startswith("--benchmark")}
            self.assertEqual(missing, set(), name)
            self.assertRegex(text, r"\.SH EXIT STATUS\n.*Exit codes: 0 ", name)
        commands = (self.prefix / "share/man/man1/trainwatt.1").read_text().replace("\\", "").split(".SH COMMANDS\n")[1]
        sections = {part.split("\n")[0]: part for part in re.split(r"^\.SS ", commands.split("\n.SH ")[0], flags=re.MULTILINE)[1:]}
        self.assertLess({"validate", "compare", "meter", "restore"}, set(sections))
        for name, section in sections.items():
            text = call(self.prefix / "bin/trainwatt", name, "--help").stdout
            missing = {option for option in re.findall(r"--[a-z][a-z0-9-]+", text) if option != "--help" and option not in section}
            self.assertEqual(missing, set(), name)
            last_line = text.rstrip().split("\n")[-1].strip()  # of the exit codes
            self.assertIn(last_line, " ".join(section.split()), name)
        self.assertIn("fIFILEfR\nreport.json, records.jsonl of an unfinished run", sections["validate"])
        repeat = (self.prefix / "share/man/man1/trainwatt-repeat.1").read_text().replace("\\", "")
        for word in (".SH NAME\ntrainwatt-repeat - runs one plan", "--dry-run", ".SH EXIT STATUS\n0 all runs"):
            self.assertIn(word, repeat)
        self.assertNotIn("scripts/", repeat)
        for name in [*PROGRAMS, "trainwatt-repeat"] if shutil.which("groff") else []:
            done = call("groff", "-Kutf8", "-man", "-ww", "-Tutf8", self.prefix / f"share/man/man1/{name}.1")
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_completion_of_bash(self):
        folder = self.prefix / "share/bash-completion/completions"

        def offered(program, *words):
            script = (f"source {folder}/{program}; COMP_WORDS=({program} {' '.join(repr(word) for word in words)}); "
                      f"COMP_CWORD={len(words)}; $(complete -p {program} | sed 's/.*-F \\([^ ]*\\) .*/\\1/') || true; "
                      "printf '%s\\n' \"${COMPREPLY[@]}\"")
            done = call("bash", "-euc", script)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.split()

        self.assertEqual(offered("trainwatt", "val"), ["validate"])
        self.assertIn("--prices", offered("trainwatt", "compare", "--p"))
        self.assertEqual(offered("trainwatt-train", "--micro"), ["--micro-batch"])
        self.assertEqual(offered("trainwatt-train", "--precision", "float32,bf"), ["float32,bf16"])
        self.assertIn("gpt2-tiny", offered("trainwatt-train", "--model", "gpt2-t"))
        self.assertIn("gpt2-tiny", offered("trainwatt-train", "--model", "=", "gpt2-t"))  # bash takes the "=" of --model=gpt2-t for a word
        self.assertIn("gpt2-tiny", offered("trainwatt-train", "--model", "="))
        self.assertEqual(offered("trainwatt", "plan", "--device", "cu"), ["cuda"])
        self.assertEqual(offered("trainwatt-ops", "--precision", "float32,bf"), ["float32,bf16"])
        self.assertEqual(offered("trainwatt-ops", "--device", "ref"), ["reference"])
        self.assertIn("gpt2-tiny", offered("trainwatt-ops", "--model", "gpt2-t"))
        self.assertEqual(offered("trainwatt-train", "--device", "cpu,ref"), [], "only one device can be given")

    def test_completion_of_zsh(self):
        """Tab is pressed behind each text in an interactive zsh."""
        folder = self.prefix / "share/zsh/site-functions"
        self.assertEqual(len(list(folder.iterdir())), len(PROGRAMS))
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        expected = {
            "trainwatt val": "trainwatt validate ",
            "trainwatt show --sort cost-to-t": "trainwatt show --sort cost-to-target ",
            "trainwatt compare --run-v": "trainwatt compare --run-variance=",
            "trainwatt compare --figure efficiency,cost-to-t": "trainwatt compare --figure efficiency,cost-to-target,",
            "trainwatt-train --micro": "trainwatt-train --micro-batch=",
            "trainwatt-train --device ref": "trainwatt-train --device reference ",
            "trainwatt-train --model=dlrm-t": "trainwatt-train --model=dlrm-tiny,",
            "trainwatt-train --precision float32,fp8": "trainwatt-train --precision float32,fp8,",
            "trainwatt-ops --mod": "trainwatt-ops --model=",
            "trainwatt-ops --device ref": "trainwatt-ops --device reference ",
        }
        with Terminal("zsh", "-f", "-i") as zsh:
            # zsh takes the comma or the space behind a completed word back where another key follows: ^X shows the line as it is.
            zsh.type(f"PS1= PS2= fpath=({folder} $fpath); autoload -Uz compinit; compinit -D -u; "
                     "show() { zle -I; print -r -- \"line<$BUFFER>\"; BUFFER= }; zle -N show; "
                     "bindkey '^X' show; bindkey '^I' complete-word; print rea''dy\n")
            zsh.wait_for("ready")
            for typed, line in expected.items():
                zsh.type(f"{typed}\t\x18")
                self.assertEqual(zsh.wait_for(r"line<(.*)>")[1], line)

    def test_completion_of_fish(self):
        files = {name: self.prefix / f"share/fish/vendor_completions.d/{name}.fish" for name in PROGRAMS}
        for file in files.values():
            self.assertTrue(file.is_file(), file)
        if not shutil.which("fish"):
            self.skipTest("no fish")
        for typed, word in (("trainwatt val", "validate"), ("trainwatt show --sort cost-to-t", "cost-to-target"),
                            ("trainwatt-train --device ref", "reference"), ("trainwatt-train --precision float32,fp8", "float32,fp8"),
                            ("trainwatt-ops --mod", "--model"), ("trainwatt-ops --device ref", "reference")):
            done = call("fish", "--no-config", "-c", f"source {files[typed.split()[0]]}; complete -C'{typed}'")
            self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()], [word], typed + done.stderr)

    def test_a_program_reads_a_report_with_the_library(self):
        build = self.folder / "example"
        done = call("cmake", "-S", self.prefix / "share/trainwatt/example", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = call("cmake", "--build", build)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = call(build / "read_report", REPORT)
        points = [record["id"] for record in json.loads(REPORT.read_text())["records"]]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(set(line.split(":")[0] for line in done.stdout.splitlines()) <= set(points), done.stdout)
        self.assertIn("samples/s", done.stdout)
        cut = self.folder / "cut.json"
        cut.write_text(REPORT.read_text()[:1000])
        for file in (cut, self.folder / "none.json"):
            done = call(build / "read_report", file)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertTrue(done.stderr.startswith("read_report: ") and str(file) in done.stderr, done.stderr)


class Packages(unittest.TestCase):
    def test_debian_packages(self):
        """The tool's package needs no MPI; both unpack into programs that start."""
        for program, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):  # cpack calls both
            if not shutil.which(program):
                self.skipTest(f"no {program} (Debian package {package})")
        with tempfile.TemporaryDirectory(prefix="trainwatt-deb-") as name:
            folder = pathlib.Path(name)
            done = call("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            needs = {}
            for package in folder.glob("*.deb"):
                fields = call("dpkg-deb", "--field", package, "Package", "Depends").stdout
                needs[re.search(r"Package: (\S+)", fields)[1]] = fields
                self.assertEqual(call("dpkg-deb", "--extract", package, folder / "root").returncode, 0)
            self.assertEqual(sorted(needs), ["libtrainwatt-dev", "trainwatt", "trainwatt-tool"])
            self.assertNotIn("mpi", needs["trainwatt-tool"])
            library, launcher = ("libmpich", "mpich") if "libmpich" in needs["trainwatt"] else ("libopenmpi", "openmpi-bin")
            self.assertIn(library, needs["trainwatt"])
            self.assertRegex(needs["trainwatt"], rf", {launcher}\b")
            for program in PROGRAMS:
                self.assertEqual(call(folder / "root/usr/bin" / program, "--version").returncode, 0, program)
            self.installs(folder)

    def installs(self, folder):
        """dpkg installs them into an empty folder, by a copy of its database of this machine: what they depend on is here, and none
        of their files belongs to another package. scripts/check-distributions installs them on bare systems."""
        here = pathlib.Path("/var/lib/dpkg")
        database = folder / "database"
        for name in ("info", "updates", "triggers"):  # no triggers: other packages' scripts cannot run in an empty folder
            (database / name).mkdir(parents=True)
        shutil.copy(here / "status", database)
        for file in (here / "info/format", *(here / "info").glob("*.list")):
            shutil.copy(file, database / "info")
        (folder / "installed").mkdir()
        as_root = [] if os.getuid() == 0 else ["bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--dev-bind", "/", "/"]
        if as_root:
            Under({}, {}).or_skip()
        dpkg = [*as_root, "dpkg", "--log=/dev/null", f"--admindir={database}", f"--instdir={folder / 'installed'}"]
        done = call(*dpkg, "--install", *folder.glob("*.deb"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for program in PROGRAMS:
            done = call(folder / "installed/usr/bin" / program, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
        done = call(*dpkg, "--remove", "trainwatt-tool")  # without the package that needs it
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("trainwatt depends on trainwatt-tool", done.stderr)
        done = call(*dpkg, "--purge", "trainwatt", "trainwatt-tool", "libtrainwatt-dev")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        left = [file for file in (folder / "installed").rglob("*") if not file.is_dir()]
        self.assertEqual(left, [])


class Tarball(unittest.TestCase):
    """scripts/package --tarball: programs that run from any folder with the libraries beside them, the C library, libstdc++ and MPI."""
    SYSTEM = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-tarball-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def package(self, *words, before=()):
        return call(*before, SOURCE / "scripts/package", *words)

    def test_runs_from_two_folders(self):
        if not shutil.which("patchelf"):
            self.skipTest("no patchelf")
        done = self.package("--tarball", "--build", BUILD, "--out", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        tarball, = self.folder.glob("*.tar.gz")
        self.assertEqual([entry.name for entry in self.folder.iterdir()], [tarball.name])
        self.assertIn(str(tarball), done.stdout)
        for place in ("one", "an other"):
            folder = self.folder / place
            folder.mkdir()
            self.assertEqual(call("tar", "--extract", "--file", tarball, "--directory", folder).returncode, 0)
            tree, = folder.iterdir()
            self.runs(tree)
        self.tells_what_it_needs(tree)
        self.tells_licences(tree)

    @staticmethod
    def loaded(file):
        return dict(re.findall(r"^\t(\S+) (?:=> (.*) )?\(0x", call("ldd", file).stdout, re.MULTILINE))

    def runs(self, tree):
        packed = {file.name for file in (tree / "lib/trainwatt").iterdir()}
        for name in PROGRAMS:
            program = tree / "bin" / name
            self.assertIn("[$ORIGIN/../lib/trainwatt]", call("readelf", "-d", program).stdout)
            loaded = self.loaded(program)
            of_mpi = {library for mpi in loaded if mpi.startswith("libmpi") for library in {mpi, *self.loaded(loaded[mpi])}}
            for library in packed & loaded.keys() - of_mpi:  # MPI's own libraries may come first with the machine's copies
                self.assertTrue(loaded[library].startswith(str(tree)), (name, library, loaded[library]))
            others = {library for library in loaded if not library.startswith("/")} - packed - of_mpi
            self.assertLessEqual(others, self.SYSTEM, name)
        hidden = [word for folder in {SOURCE, BUILD} for word in ("--tmpfs", folder)]
        Under({}, {}).or_skip()
        done = call("bwrap", "--dev-bind", "/", "/", *hidden, "--chdir", tree, *mpirun(2), tree / "bin/trainwatt-train",
                    "--model", "gpt2-tiny", "--steps", "2", "--trials", "1", "--micro-batch", "1", "--out", "out")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(call(tree / "bin/trainwatt", "validate", tree / "out/report.json").returncode, 0)

    def tells_what_it_needs(self, tree):
        text = (tree / "README.md").read_text()
        self.assertNotIn("@", text)
        files = [file for folder in ("bin", "lib/trainwatt") for file in (tree / folder).iterdir() if file.is_file() and not file.is_symlink()]
        needed = call("readelf", "--version-info", *files).stdout.split("Version needs section")
        versions = {tuple(map(int, found.split("."))) for part in needed[1:] for found in re.findall(r"Name: GLIBC_([0-9.]+)", part)}
        self.assertIn("glibc " + ".".join(map(str, max(versions))), text)
        for family in ("GLIBCXX_3", "CXXABI_1"):
            self.assertIn(family, text)
        self.assertIn("libmpi", text)

    def tells_licences(self, tree):
        rows = re.findall(r"^\| (\S.*?) \| (\S+) \| (\S.*?) \|$", (tree / "README.md").read_text().split("## Libraries")[1], re.MULTILINE)
        packages = {library: package for library, package, _ in rows}
        for file in (tree / "lib/trainwatt").rglob("*.so*"):
            self.assertIn(file.name, packages)
        for library in ("CLI11", "nlohmann_json", "valijson"):
            self.assertIn(library, packages)
        if shutil.which("dpkg-query"):
            for library, package in packages.items():
                if ".so" in library:
                    self.assertTrue((tree / f"share/doc/trainwatt/licences/{package}/copyright").is_file(), library)

    def test_bad_input(self):
        if not shutil.which("patchelf"):
            self.skipTest("no patchelf")
        file = self.folder / "file"
        file.touch()
        unfinished = self.folder / "build"
        unfinished.mkdir()
        shutil.copy(BUILD / "CMakeCache.txt", unfinished)
        for words, code, text in (
                (("--tarbal",), 2, "--tarbal"), ((), 2, "--tarball"), (("--tarball", "--out"), 2, "--out"),
                (("--tarball", "--build", self.folder / "none"), 3, "error[build-missing]"),
                (("--tarball", "--build", unfinished), 3, "error[build-missing]"),
                (("--tarball", "--build", BUILD, "--out", file / "below"), 3, "error[output-not-writable]")):
            done = self.package(*words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        out = self.folder / "full"
        out.mkdir()
        Under({}, {}).or_skip()
        done = call("bwrap", "--dev-bind", "/", "/", "--size", "3000000", "--tmpfs", out, "sh", "-c", '"$@"; echo "exit $?"; ls -A "$0"', out,
                    SOURCE / "scripts/package", "--tarball", "--build", BUILD, "--out", out)
        self.assertIn("error[not-packed]", done.stderr)
        self.assertEqual(done.stdout, "exit 3\n")


if __name__ == "__main__":
    unittest.main()
