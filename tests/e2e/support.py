"""Runs the built programs as a user would, and reads what they leave behind."""
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("TRAINWATT_BIN", "build/bin")).resolve()
STAND_IN = BIN.parent / "tests" / "nvml"
HANG = 300  # seconds, after which a program that has not ended hangs: many times what a slow, busy machine needs


def environment(**extra):
    env = dict(os.environ, **{k: str(v) for k, v in extra.items()})
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


@functools.cache
def mpirun_unbound():
    """mpirun for more ranks than cores, which are not bound. Open MPI refuses that by default, other MPIs have no such option."""
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=HANG).stdout
    return ["mpirun", *(["--oversubscribe"] if "Open MPI" in said else []), "--bind-to", "none"]


def mpirun(ranks):
    return [*mpirun_unbound(), "-np", str(ranks)]


def mpirun_each(*commands):
    """mpirun of a rank for each of these commands, as a scheduler starts tasks. A shell chooses by its rank, because the mpirun of
    Debian 13 (Open MPI 5.0.7) crashes where several commands are given with ":" between them."""
    cases = " ".join(f"{rank}) exec {shlex.join(map(str, command))} ;;" for rank, command in enumerate(commands))
    return [*mpirun(len(commands)), "sh", "-c", f"case ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} in {cases} esac"]


def run(*args, ranks=None, **env):
    """trainwatt-train ARGS, under mpirun where `ranks` is given. Returns the finished process with text output."""
    command = (mpirun(ranks) if ranks else []) + [str(BIN / "trainwatt-train"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(**env))


def tool(*args, **env):
    return subprocess.run([str(BIN / "trainwatt"), *map(str, args)], capture_output=True, text=True, timeout=HANG,
                          env=environment(**env))


def said(process):
    """What `trainwatt validate` printed, whose lines are wrapped, as one line."""
    out = process.stdout if isinstance(process.stdout, str) else process.stdout.decode("utf-8", "replace")
    return " ".join(out.split())


def validated(path, *args):
    """What `trainwatt validate --json` says of one file: "faults", "notes", "rules", "consistent", …"""
    process = tool("validate", path, "--json", *args)
    found = json.loads(process.stdout)
    assert process.returncode == found["exit_code"], process.stderr
    return found["files"][0]


def codes(found):
    return [one["code"] for one in found]


def said_codes(text, kind="error"):
    """The codes of the errors, or warnings, that a program printed, in their order."""
    return re.findall(rf"^(?:\S+: )?trainwatt[a-z -]*: {kind}\[([a-z0-9-]+)\]: ", text, re.M)


class FakeGpus:
    """GPUs behind the stand-in driver (tests/support/nvml/stand_in.hpp), their state in a folder."""

    def __init__(self, folder, count, **values):
        self.folder = pathlib.Path(folder)
        self.uuids = [f"GPU-{i:08d}-0000-4000-8000-000000000000" for i in range(count)]
        lines = [f"{key} = {value}\n" for key, value in values.items()]
        text = "".join("[gpu]\nuuid = " + uuid + "\n" + "".join(lines) for uuid in self.uuids)
        (self.folder / "state").write_text(text)

    @property
    def environment(self):
        return {"LD_LIBRARY_PATH": STAND_IN, "TRAINWATT_STANDIN_NVML": self.folder}

    @contextlib.contextmanager
    def locked(self):
        """The file of the state, while no process is at it."""
        with open(self.folder / "state", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def set(self, key, value):
        """For each GPU, once anything has written the whole state."""
        with self.locked() as file:
            text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", file.read(), flags=re.MULTILINE)
            assert count == len(self.uuids), key
            file.seek(0)
            file.write(text)
            file.truncate()
            file.flush()

    def all(self, key):
        """What stands there for each GPU; read by rename-free writers under a lock."""
        with self.locked() as file:
            text = file.read()
        values = []
        for gpu in text.split("[gpu]\n")[1:]:
            lines = dict(line.split(" = ", 1) for line in gpu.splitlines())
            values.append(int(lines.get(key, 0)))
        return values


class SiteTool:
    """A site's own command for one knob (power/knob/site.hpp) whose value stands in a file. While `hold` is there, putting
    back waits."""

    def __init__(self, folder, kind, found, **entry):
        folder.mkdir()
        self.value, self.hold, self.file = folder / "value", folder / "hold", folder / "site.json"
        self.value.write_text(f"{found}\n")
        tool = folder / "tool"
        tool.write_text('#!/bin/sh\ncd "${0%/*}" || exit\ncase $1 in\n  get) cat value ;;\n'
                        '  reset) while [ -e hold ]; do sleep 0.02; done; echo "$2" >value ;;\n'
                        '  set) echo "$2" >value ;;\nesac\n')
        tool.chmod(0o755)
        self.file.write_text(json.dumps({"knobs": [{
            "kind": kind, "get": [str(tool), "get"], "set": [str(tool), "set", "{value}"],
            "reset": [str(tool), "reset", "{value}"], **entry}]}))
        self.file.chmod(0o644)


def ranks_of(process):
    """The processes of trainwatt-train that mpirun started (MPICH's by a proxy); their guardians are their own children."""
    starters = [process.pid, *children_of(process.pid, "hydra_pmi_proxy")]
    return [rank for starter in starters for rank in children_of(starter, "trainwatt-train")]


def children_of(parent, name=None):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    program = file.read().split(b"\0")[0].decode(errors="replace")
                with open(f"/proc/{entry}/stat") as file:
                    its_parent = file.read().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if its_parent == str(parent) and (name is None or program.endswith(name)):
                found.append(int(entry))
    return found


def states_of(process):
    """The state of each of its threads, as /proc has it."""
    for stat in pathlib.Path("/proc", str(process), "task").glob("*/stat"):
        try:
            yield stat.read_text().rsplit(")", 1)[1].split()[0]
        except OSError:  # it has ended
            continue


def eventually(condition, seconds=HANG):
    """Waits for what another process does; false only where it hangs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def only_root(why="as the driver's settings do"):
    if os.geteuid() != 0:
        raise unittest.SkipTest(f"needs root, {why}")


class Case(unittest.TestCase):
    """A test with a folder of its own; `out` does not exist yet."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainwatt-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"

    def start(self, *args, command=(), session=True, **env):
        """trainwatt-train ARGS behind `command`. Its own session: a signal to the group never reaches the test."""
        process = subprocess.Popen([*map(str, command), str(BIN / "trainwatt-train"), *map(str, args)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**env),
                                   start_new_session=session)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for_records(self, process, count=1, out=None):
        records = (out or self.out) / "records.jsonl"
        if not eventually(lambda: process.poll() is not None or (
                records.exists() and records.read_text().count("\n") >= count)) or process.poll() is not None:
            process.kill()
            self.fail(process.communicate())

    def assert_judged(self, cell, *reports):
        """A ratio of one run of each has an interval over trials and no verdict; where a machine was busy or trials drift, a range."""
        flags = {flag for report in reports for record in json.loads(report.read_text())["records"]
                 for flag in record["verdict"]["flags"] if flag in ("busy_host", "steal", "drift", "steps_disagree", "above_ceiling")}
        if flags and cell["verdict"] == "no claim":
            self.assertIn(cell["code"], flags)
            self.assertFalse(cell["is_interval"])
        else:
            self.assertEqual((cell["verdict"], cell["code"], cell["interval_over"]), ("single_run", "single_run", "trials"), cell)
            self.assertTrue(cell["is_interval"])

    @contextlib.contextmanager
    def held(self, process, gpus=None):
        """Stands still meanwhile, in the state that it was met in; in no call of the driver of these GPUs, for which others
        would wait."""
        with gpus.locked() if gpus else contextlib.nullcontext():
            os.kill(process.pid, signal.SIGSTOP)
            stands = eventually(lambda: set(states_of(process.pid)) <= set("TZ"))
        try:
            self.assertTrue(stands)
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def kill_together(self, launcher, victims):
        """Before the launcher can end the others because one is gone."""
        with self.held(launcher):
            for victim in victims:
                os.kill(victim, signal.SIGKILL)

    def report(self, out=None):
        return json.loads(((out or self.out) / "report.json").read_text())

    def assert_ran(self, process, code=0):
        self.assertEqual(process.returncode, code, f"\nstdout:\n{process.stdout}\nstderr:\n{process.stderr}")

    def assert_one_line_error(self, process, code, *words):
        """One line of ours on stderr, with a code, these words, and this exit code."""
        self.assert_ran(process, code)
        ours = [line for line in process.stderr.splitlines() if re.match(r"trainwatt-train: error\[[a-z0-9-]+\]: ", line)]
        self.assertEqual(len(ours), 1, process.stderr)
        for word in words:
            self.assertIn(word, ours[0])
        self.assertFalse(self.out.exists(), "a refused run leaves nothing behind")
