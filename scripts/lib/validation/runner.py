"""Starts gpu-validate's processes, ends them in time, and reads their results."""
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from validation.plan import ENDING


class Failed(Exception):
    pass


class LeftOut(Exception):
    """Skipped because something it needs is missing: not a failure."""


def say(text):
    print(f"gpu-validate: {text}", flush=True)


def without_libraries(folders):
    """Removes folders with CUDA libraries from a library path: PyTorch brings its own and must not find others first. Folders with the
    driver stay."""
    def foreign(folder):
        try:
            names = os.listdir(folder)
        except OSError:
            return False
        return any(name.startswith(("libcudnn", "libcublas", "libnccl")) for name in names) and "libcuda.so.1" not in names
    return ":".join(folder for folder in folders.split(":") if folder and not foreign(folder))


class Compiling:
    """Compiles goals with PyTorch in the background, into a cache, because this takes longer than measuring. One after another, the
    most important first: two of the large networks would not fit into the GPU's memory."""

    def __init__(self, start):
        self.stopped, self.running, self.commands = threading.Event(), [], queue.SimpleQueue()
        self.thread = threading.Thread(target=self.work, args=(start,), daemon=True)
        self.thread.start()

    def add(self, command):
        self.commands.put(command)

    def work(self, start):
        while (command := self.commands.get()) and not self.stopped.is_set():
            process = start(command)
            self.running.append(process)
            process.wait()

    def end(self, seconds, kill):
        """Waits for at most `seconds`, then ends what is still running."""
        self.commands.put(None)
        self.thread.join(seconds)
        self.stopped.set()
        kill(self.running)
        self.thread.join(1)


class Runner:
    """Requires these attributes of the derived class: options (build, budget), start, limit, shares, reserved, work, environment,
    and for a GPU is_exclusive and memory_mib."""

    def left(self):
        now = time.monotonic()
        return min(self.options.budget - self.reserved - (now - self.start), self.limit - now if self.limit else float("inf"))

    def allowed(self, what, without_share=0):
        """Seconds for an item with a share: all time left except the shares of later items, at least its own share. An item without a
        share gets `without_share`."""
        names = [name for name, _ in self.shares]
        if what not in names:
            return without_share
        at = names.index(what)
        return max(self.shares[at][1], self.left() - sum(seconds for _, seconds in self.shares[at + 1:]))

    def gpus(self):
        """How many GPUs the driver lists and this process may see; 1 if the driver's tool does not say."""
        if shutil.which("nvidia-smi") is None:
            return 1
        done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False)
        listed = len(re.findall(r"^GPU \d+:", done.stdout, re.M))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return max(1, listed if visible is None else min(listed, len(visible.split(","))))

    def program(self, name):
        for folder in ("bin", "tests", "."):
            path = os.path.join(self.options.build, folder, name)
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return os.path.abspath(path)
        return None

    def begin(self, command, output, environment=None):
        return subprocess.Popen(command, env=environment or self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, cwd=self.work, start_new_session=True)

    def run_beside(self, commands, log, limit=None, environment=None):
        """Runs all commands in parallel; returns the exit code (None: timeout) and output of each. The output also goes to the log."""
        seconds = min(limit or self.left(), self.left())
        if seconds <= 0:
            raise Failed("no time was left")
        deadline, processes, results = time.monotonic() + seconds, [], []
        with contextlib.ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in commands]
            try:
                for command, output in zip(commands, outputs):
                    processes.append(self.begin(command, output, environment))
                for process in processes:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(max(0, deadline - time.monotonic()))
                codes = [process.poll() for process in processes]
            finally:
                self.end(processes)
            with open(os.path.join(self.work, log), "a", encoding="utf-8") as file:
                for command, output, code in zip(commands, outputs, codes):
                    output.seek(0)
                    text = output.read().decode(errors="replace")
                    results.append((code, text))
                    file.write(f"$ {' '.join(command)}\n{text}\n"
                               f"[{'timeout after %.0f s' % seconds if code is None else f'exit code {code}'}]\n\n")
        return results

    def run_each(self, commands, log, shares, environment=None):
        """As run_beside, but one after another; each gets its share of the time left, beside those of the ones after it."""
        results = []
        for at, command in enumerate(commands):
            try:
                limit = max(0, self.left()) * shares[at] / sum(shares[at:])
                results.append(self.run(command, log, limit, environment))
            except Failed:  # no time was left
                results.append((None, ""))
        return results

    def run(self, command, log, limit=None, environment=None):
        return self.run_beside([command], log, limit, environment)[0]

    @staticmethod
    def end(processes):
        """Ends running processes and their children with SIGTERM, so that they write reports of finished points, then with SIGKILL."""
        for which in (signal.SIGTERM, signal.SIGKILL):
            alive = [process for process in processes if process.poll() is None]
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, which)
            deadline = time.monotonic() + ENDING
            for process in alive:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.01, deadline - time.monotonic()))

    def records(self, folder):
        """The records of a run: from its report, or the finished ones."""
        try:
            with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
                return json.load(file)["records"]
        except (OSError, ValueError, LookupError):
            pass
        records = []
        try:
            with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as file:
                for line in file:
                    records.append(json.loads(line))
        except (OSError, ValueError):
            pass
        return records
