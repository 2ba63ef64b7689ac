"""A made-up /sys/class under a program: RAPL counters that run at stated powers, AMD GPUs at constant ones."""
import contextlib
import os
import pathlib
import subprocess
import threading
import time
import unittest

from support import HANG

RANGE_UJ = 262_143_328_850
WIDTH = 32
CPUS = pathlib.Path("/sys/devices/system/cpu")


def packages_of(cpus):
    return {file.read_text() for file in cpus.glob("cpu[0-9]*/topology/physical_package_id")}


def in_packages(folder, count, cpus=CPUS):
    """{place: folder} under which the cores of `cpus` lie in `count` packages of one die, by turns. What is not topology stays
    the machine's own, by links to what is bound at `<folder>/real`."""
    tree, real = folder / "cpu", folder / "real"
    real.mkdir(parents=True)
    cores, members = {}, [[] for _ in range(count)]
    for path in sorted(cpus.glob("cpu[0-9]*/topology"), key=lambda path: int(path.parent.name[3:])):
        siblings = (path / "thread_siblings_list").read_text()
        members[cores.setdefault(siblings, len(cores)) % count].append(int(path.parent.name[3:]))
    for entry in cpus.iterdir():
        (tree / entry.name).parent.mkdir(exist_ok=True)
        if not (entry / "topology").is_dir():
            (tree / entry.name).symlink_to(real / entry.name)
            continue
        core = cores[(entry / "topology/thread_siblings_list").read_text()]
        mask = f"{sum(1 << cpu for cpu in members[core % count]):x}"
        words = ",".join(mask[max(0, end - 8):end] for end in range(len(mask) % 8 or 8, len(mask) + 1, 8))
        told = {"physical_package_id": core % count, "die_id": 0, "core_id": core}
        for group in ("package_cpus", "core_siblings", "die_cpus"):
            told |= {group: words, f"{group}_list": ",".join(map(str, members[core % count]))}
        (tree / entry.name / "topology").mkdir(parents=True)
        for file in (entry / "topology").iterdir():
            (tree / entry.name / "topology" / file.name).write_text(f"{told.get(file.name, file.read_text().strip())}\n")
        for other in entry.iterdir():
            if other.name != "topology":
                (tree / entry.name / other.name).symlink_to(real / entry.name / other.name)
    return {str(real): cpus, str(CPUS): tree}


class Under:
    """Puts folders in the place of those of /sys: `classes` by their names in /sys/class, `drivers` of /sys/bus/pci; and
    `files` in the place of files."""

    def __init__(self, classes=None, drivers=None, files=None):
        self.classes, self.drivers, self.single = classes or {}, drivers or {}, files or {}

    def command(self):
        """What stands before a command that is to see this node."""
        words = ["bwrap", "--dev-bind", "/", "/"]
        for parent, ours in ((pathlib.Path("/sys/class"), self.classes), (pathlib.Path("/sys/bus/pci/drivers"), self.drivers)):
            if not ours:
                continue
            words += ["--tmpfs", str(parent)]
            for entry in sorted(os.listdir(parent)):
                if entry not in ours:
                    words += ["--ro-bind", str(parent / entry), str(parent / entry)]
            for entry, folder in ours.items():
                words += ["--bind", str(folder), str(parent / entry)]
        for place, file in self.single.items():
            words += ["--ro-bind", str(file), place]
        return [*words, "--"]

    def or_skip(self):
        """Skips the test where this cannot be."""
        try:
            done = subprocess.run([*self.command(), "true"], capture_output=True, timeout=HANG)
            why = "bubblewrap may not mount here (a chroot or container without mount rights)" if done.returncode else ""
        except FileNotFoundError:
            why = "bubblewrap (bwrap) is not installed"
        if why:
            raise unittest.SkipTest(why)


class FakeAmdNode(Under):
    """AMD GPUs by PCI address, with the watts that each shows; ROCm numbers them in this order."""

    def __init__(self, folder, watts):
        self.folder = pathlib.Path(folder)
        super().__init__({"hwmon": self.folder / "hwmon", "kfd": self.folder / "kfd"}, {"amdgpu": self.folder / "driver"})
        for number, (address, power) in enumerate(watts.items()):
            domain, bus, place = address.split(":")
            location = int(bus, 16) << 8 | int(place.split(".")[0], 16) << 3
            (self.folder / "pci" / address).mkdir(parents=True)
            self.write(f"hwmon/hwmon{number}/name", "amdgpu")
            self.write(f"hwmon/hwmon{number}/power1_label", "PPT")
            self.write(f"hwmon/hwmon{number}/power1_average", round(power * 1e6))
            self.write(f"kfd/kfd/topology/nodes/{number}/properties",
                       f"simd_count 304\nlocation_id {location}\ndomain {int(domain, 16)}\nunique_id {number + 1}")
            (self.folder / "driver").mkdir(exist_ok=True)
            for link in (f"hwmon/hwmon{number}/device", f"driver/{address}"):
                (self.folder / link).symlink_to(self.folder / "pci" / address)

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(f"{text}\n")


class FakeNode(Under):
    """One package with dram and core inside it, also where the machine has several. `watts` by zone: a number, or what says the watts of now. `period`: seconds
    between two updates of the counters. They may be stopped, which loses joules, and set to another value."""

    def __init__(self, folder, watts, cap_watts=None, period=0.005, start_uj=1e9, cpus=CPUS):
        """`cpus`: the machine's, which are shown as of one package: a driver shows zones of all packages. `cap_watts`: the package's long-term limit, which can then be set, up to 400 W. `start_uj`: where the counters
        begin; far from their end, since a wrap widens the uncertainty, which would hide other errors."""
        self.tree = pathlib.Path(folder)
        self.period, self.stopped, self.set_by_uj = period, threading.Event(), 0
        files, beside = {}, pathlib.Path(f"{folder}-cpus")
        if len(packages_of(cpus)) > 1:
            files = in_packages(beside / "one", 1, cpus)
            if (events := pathlib.Path("/sys/bus/event_source/devices")).is_dir():  # perf's counters are of the real packages
                (beside / "none").mkdir()
                files[str(events)] = beside / "none"
        super().__init__({"powercap": self.tree}, files=files)
        self.zones = {}
        self.cap = self.tree / "intel-rapl" / "intel-rapl:0" / "constraint_0_power_limit_uw"
        top = self.tree / "intel-rapl" / "intel-rapl:0"
        for number, (name, power) in enumerate(watts.items()):
            path = top if number == 0 else top / f"intel-rapl:0:{number - 1}"
            path.mkdir(parents=True)
            for file, text in (("name", name), ("enabled", "1"), ("max_energy_range_uj", RANGE_UJ), ("energy_uj", 1)):
                (path / file).write_text(f"{text:\n<{WIDTH}}" if file == "energy_uj" else f"{text}\n")
            watts_now = power if callable(power) else lambda power=power: power
            if number == 0 and cap_watts is not None:
                for file, text in (("name", "long_term"), ("power_limit_uw", cap_watts * 1_000_000),
                                   ("max_power_uw", 400_000_000), ("time_window_us", 999_424)):
                    (path / f"constraint_0_{file}").write_text(f"{text}\n")
            self.zones[path / "energy_uj"] = (start_uj, watts_now)
        self.files = {path: os.open(path, os.O_WRONLY) for path in self.zones}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def cap_watts(self):
        """The limit of now; None while somebody is writing it. libpowercap writes its whole buffer; the number ends at a 0."""
        text = self.cap.read_bytes().split(b"\0")[0].strip()
        return int(text) / 1e6 if text else None

    def set_cap(self, watts):
        """As another program does, behind the run's back."""
        self.cap.write_text(f"{round(watts * 1e6)}\n")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.ended.set()
        self.thread.join()
        for file in self.files.values():
            os.close(file)

    def run(self):
        with contextlib.suppress(OSError):  # this thread alone, where it may: it is to be late for nobody's load
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        before, counts = time.monotonic(), {path: first for path, (first, _) in self.zones.items()}
        due = before
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            due = max(due + self.period, now)
            passed, before = now - before, now
            moved, self.set_by_uj = self.set_by_uj, 0
            for path, (_, watts_now) in self.zones.items():
                counts[path] += moved + (0 if self.stopped.is_set() else 1e6 * watts_now() * passed)
                value = round(counts[path]) % RANGE_UJ
                # In place, as the kernel: readers keep the file open. One call of one length shows the old or the new line.
                os.pwrite(self.files[path], f"{value:\n<{WIDTH}}".encode(), 0)
