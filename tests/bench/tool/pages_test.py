"""Checks the pages: every command in the README and the manuals uses subcommands and options of the programs and scripts, the table
of options in bench/README.md has all of trainwatt-train's, and the README stays short. Commands of programs that
were not built are not checked."""
import functools
import os
import pathlib
import re
import subprocess
import unittest

BIN = pathlib.Path(os.environ["TRAINWATT_TOOL"]).parent
ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"{room}/README.md" for room in (
    "bench", "comm", "power", "results", "models", "scripts", "tests", "scripts/slurm", "scripts/monitoring", "scripts/oracle", "scripts/packaging", "results/reference"))]
README_LINES = 145  # what can be read in three minutes
SCRIPT = re.compile(r"(?:[\w.-]+/)*(scripts/(?:quickstart|test|repeat|gpu-validate|bench-cpu|check-oracle|package))\b(.*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z_-]*")
CALL = re.compile(r"(?<![\w/.-])(?:build-gpu/bin/)?(trainwatt(?:-train|-ops)?) (.*)")


@functools.lru_cache(None)
def help_of(program, *subcommand):
    done = subprocess.run([BIN / program, *subcommand, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def options_of(program, *subcommand):
    """None where the program was not built; nothing where it has no such subcommand."""
    if not (BIN / program).exists():
        return None
    if subcommand and not re.search(rf"^  {subcommand[0]} ", help_of(program), re.MULTILINE):
        return set()
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z][a-z_-]*)", help_of(program, *subcommand), re.MULTILINE))


def commands(text):
    """Lines of code blocks, and code within lines, that begin with one of our programs or scripts, a launcher or sbatch."""
    lines, blocks = [], re.split(r"^```.*$", text, flags=re.MULTILINE)
    for number, part in enumerate(blocks):
        found = part.replace("\\\n", " ").splitlines() if number % 2 else re.findall(r"`([^`]+)`", part.replace("\n", " "))
        lines += [line for line in found if re.match(r"(trainwatt|mpirun|srun|sbatch|echo|scripts/[\w-]+|python3 -m tarfile)\b", line)]
    return lines


def call_of(line):
    """Program, subcommand and options of a command as it is shown; None where it is of none of ours."""
    line = re.sub(r"\s#\s.*", "", line)
    if line.startswith("sbatch"):
        if not (script := re.search(r"\.sbatch (.*)", line)):
            return None
        program, rest = "trainwatt-train", script.group(1)
    elif call := CALL.search(line):
        program, rest = call.groups()
    else:
        return None
    rest = re.split(r" -- |[;|>]", rest)[0]
    words = rest.split() if program == "trainwatt" else []
    subcommand = tuple(words[:1]) if words and not words[0].startswith("-") else ()
    return program, subcommand, [option for option in OPTION.findall(rest) if not option.startswith("--benchmark_")]


@functools.lru_cache(None)
def help_of_script(script):
    done = subprocess.run([ROOT / script, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def scripts_of(line):
    """(script, options) of each script that the line calls; those of scripts/repeat end at --."""
    found = []
    for part in re.split(r"&&|;", re.sub(r"\s#\s.*", "", line)):
        if call := SCRIPT.search(part):
            found.append((call.group(1), OPTION.findall(call.group(2).split(" -- ")[0])))
    return found


class Pages(unittest.TestCase):
    def test_commands_have_options_that_exist(self):
        checked = 0
        for page in PAGES:
            for line in commands((ROOT / page).read_text()):
                call = call_of(line)
                known = call and options_of(call[0], *call[1])
                if not known:
                    self.assertFalse(call and known is not None, f"{page}: {call and call[:2]} is not known: {line}")
                    continue
                checked += 1
                for option in call[2]:
                    self.assertIn(option, known, f"{page}: {line}")
        self.assertGreater(checked, 90, "the patterns no longer find the commands of the pages")

    def test_scripts_have_options_that_exist(self):
        checked = set()
        for page in PAGES:
            for line in commands((ROOT / page).read_text()):
                for script, options in scripts_of(line):
                    known = help_of_script(script)
                    checked.add(script)
                    for option in options:
                        self.assertRegex(known, rf"[\[ ]{option}(?![\w-])", f"{page}: {line}")
        self.assertEqual(len(checked), 7, checked)
        self.assertEqual(scripts_of("there && gpu-validate/scripts/gpu-validate --out o --buget 3   # --no"),
                         [("scripts/gpu-validate", ["--out", "--buget"])])
        self.assertNotRegex(help_of_script("scripts/gpu-validate"), "--buget")

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)

    def test_what_does_not_exist_is_found(self):
        for line, call in (("mpirun -np 2 trainwatt-train --modle x --out y   # --no", ("trainwatt-train", (), ["--modle", "--out"])),
                           ("trainwatt meter --out d --parse -- python3 train.py --lr 1", ("trainwatt", ("meter",), ["--out", "--parse"])),
                           ("sbatch --time=1 scripts/slurm/sweep.sbatch --suite q", ("trainwatt-train", (), ["--suite"])),
                           ("echo '{}' >plan.json; trainwatt-train --config p", ("trainwatt-train", (), ["--config"]))):
            self.assertEqual(call_of(line), call)
        self.assertEqual(options_of("trainwatt", "shwo"), set())


class TrainingOptions(unittest.TestCase):
    """For builds with trainwatt-train."""

    def test_the_table_has_every_option_of_training(self):
        known = options_of("trainwatt-train")
        self.assertIsNotNone(known, f"no trainwatt-train in {BIN}")
        text = (ROOT / "bench" / "README.md").read_text()
        section = text.split("\n## Options of trainwatt-train\n")[1].split("\n## ")[0]
        shown = {option for row in section.splitlines() if row.startswith("| `-") for option in OPTION.findall(row.split(" | ")[0])}
        shown |= set(OPTION.findall(" ".join(row.split(" | ")[0] for row in section.splitlines() if "--suite NAME" in row)))
        self.assertEqual(known - shown, {"--help", "--version"})
        self.assertEqual(shown - known, set())


if __name__ == "__main__":
    unittest.main()
