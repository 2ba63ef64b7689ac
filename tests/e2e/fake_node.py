"""A made-up /sys/class/powercap under a program, whose counters run at stated powers."""
import os
import pathlib
import subprocess
import threading
import time

CLASS = pathlib.Path("/sys/class/powercap")
RANGE_UJ = 262_143_328_850
WIDTH = 32


class FakeNode:
    """One package with dram and core inside it; the package's counter wraps soon. `watts` by zone."""

    def __init__(self, folder, watts):
        self.tree = pathlib.Path(folder)
        self.zones = {}
        top = self.tree / "intel-rapl" / "intel-rapl:0"
        for number, (name, power) in enumerate(watts.items()):
            path = top if number == 0 else top / f"intel-rapl:0:{number - 1}"
            path.mkdir(parents=True)
            for file, text in (("name", name), ("enabled", "1"), ("max_energy_range_uj", RANGE_UJ), ("energy_uj", 1)):
                (path / file).write_text(f"{text:\n<{WIDTH}}" if file == "energy_uj" else f"{text}\n")
            self.zones[path / "energy_uj"] = (RANGE_UJ - round(power * 5e6), power)
        self.files = {path: os.open(path, os.O_WRONLY) for path in self.zones}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.ended.set()
        self.thread.join()
        for file in self.files.values():
            os.close(file)

    def run(self):
        start = time.monotonic()
        while not self.ended.wait(0.005):
            for path, (first, power) in self.zones.items():
                value = (first + round(power * 1e6 * (time.monotonic() - start))) % RANGE_UJ
                # In place, as the kernel: readers keep the file open. One call of one length shows the old or the new line.
                os.pwrite(self.files[path], f"{value:\n<{WIDTH}}".encode(), 0)

    def command(self):
        """What stands before a command that is to see this node."""
        kept = [word for entry in sorted(os.listdir("/sys/class")) if f"/sys/class/{entry}" != str(CLASS)
                for word in ("--ro-bind", f"/sys/class/{entry}", f"/sys/class/{entry}")]
        return ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/sys/class", *kept, "--bind", str(self.tree), str(CLASS), "--"]

    def why_not(self):
        try:
            done = subprocess.run([*self.command(), "true"], capture_output=True, timeout=20)
        except FileNotFoundError:
            return "bubblewrap (bwrap) is not installed"
        return "bubblewrap may not mount here (a chroot or container without mount rights)" if done.returncode else ""
