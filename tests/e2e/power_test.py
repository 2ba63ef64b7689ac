"""Metering under a launcher, and settings that a run without a GPU cannot make."""
import contextlib
import json
import os
import signal
import subprocess
import types
import unittest
import unittest.mock
import uuid

from fake_node import CPUS, FakeAmdNode, FakeNode, Under, in_packages, packages_of
from support import BIN, HANG, Case, FakeGpus, children_of, environment, eventually, mpirun, mpirun_each, only_root, run, said_codes, tool


class Power(Case):
    def test_one_process_of_a_node_meters_until_all_have_ended(self):
        command = [*mpirun(3), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sh", "-c",
                   "sleep 0.$OMPI_COMM_WORLD_RANK; exit 0"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_ran(process)
        reports = list(self.out.rglob("report.json"))
        self.assertEqual(len(reports), 1, process.stderr)
        report = json.loads(reports[0].read_text())
        self.assertGreaterEqual(report["records"][0]["trials"][0]["window_s"], 0.2, "the slowest process's")
        self.assertEqual(tool("validate", reports[0]).returncode, 0)

    def meter_on_gpus(self, variables):
        """Two tasks of a node with three GPUs, each with its own environment, as a scheduler starts them."""
        (self.folder / "nvml").mkdir()
        gpus = FakeGpus(self.folder / "nvml", 3)
        meters = [["env", *(f"{key}={value}" for key, value in variables(rank, gpus).items()), BIN / "trainwatt", "meter", "--parse",
                   "--out", self.out, "--", "sh", "-c", "sleep 0.5; echo samples=6400"] for rank in range(2)]
        process = subprocess.run(mpirun_each(*meters), capture_output=True, text=True, timeout=HANG,
                                 env=environment(**gpus.environment))
        self.assert_ran(process)
        [report] = self.out.rglob("report.json")
        self.assert_ran(tool("validate", report))
        return gpus, json.loads(report.read_text())["records"][0]

    def test_metered_gpus_are_those_of_all_tasks_of_a_node(self):
        gpus, record = self.meter_on_gpus(lambda rank, gpus: {"CUDA_VISIBLE_DEVICES": gpus.uuids[2 * rank]})
        rows = [row for row in record["trials"][0]["energy"] if row["scope"] == "device"]
        self.assertEqual(sorted(row["domain"] for row in rows if row["counted"]),
                         [f"nvml:{gpus.uuids[0]}", f"nvml:{gpus.uuids[2]}"])
        self.assertIn("not_visible", [row["reason"] for row in rows])
        self.assertIsNotNone(record["summary"]["samples_per_j"]["device"])

    def test_a_gpu_that_only_another_task_can_address_takes_the_joules(self):
        """A cgroup shows each task its own GPU alone: those that read would have half the joules, and all samples."""
        gpus, record = self.meter_on_gpus(lambda rank, gpus: {"TRAINWATT_STANDIN_NVML_ONLY": rank})
        self.assertIsNone(record["summary"]["energy_j"]["device"])
        self.assertIsNone(record["summary"]["samples_per_j"]["device"])
        self.assertIn(f"nvml:{gpus.uuids[1]}: not_addressable", record["summary"]["energy_reason"])
        self.assertEqual(record["trials"][0]["samples"], 6400)

    def test_ranks_of_a_node_that_address_the_same_gpu_read_it_once(self):
        (self.folder / "nvml").mkdir()
        gpus = FakeGpus(self.folder / "nvml", 2)
        process = run("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--window", 0.5, "--trials", 2, "--out", self.out, ranks=4,
                      **gpus.environment)
        self.assert_ran(process)
        for trial in self.report()["records"][0]["trials"]:
            domains = [row["domain"] for row in trial["energy"] if row["domain"].startswith("nvml:")]
            self.assertEqual(sorted(domains), sorted(f"nvml:{uuid}" for uuid in gpus.uuids), "each once")
            series = [(row["domain"], row["quantity"]) for row in trial["series"]]
            self.assertEqual(len(series), len(set(series)), series)

    def test_a_command_that_fails_under_a_launcher_fails_it(self):
        command = [*mpirun(2), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sh", "-c",
                   "exit $((3 * OMPI_COMM_WORLD_RANK))"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assertEqual(process.returncode, 3, process.stderr)

    def test_a_knob_that_is_not_there_is_said_for_each_point(self):
        process = run("--model", "gpt2-tiny", "--steps", 2, "--gpu-clock", "found,1305", "--out", self.out, ranks=2)
        self.assert_ran(process)
        found, wanted = self.report()["records"]
        self.assertEqual(found["verdict"]["status"], "valid")
        self.assertEqual(wanted["verdict"]["status"], "unsupported")
        self.assertIn("not_applied", wanted["verdict"]["flags"])
        self.assertIn("gpu_clock_mhz 1305", wanted["verdict"]["reasons"][0])
        self.assertEqual(wanted["trials"], [])
        self.assertEqual(tool("validate", self.out / "report.json").returncode, 0)

    def test_a_run_of_which_no_point_could_be_set_says_why_it_fails(self):
        process = run("--model", "gpt2-tiny", "--steps", 2, "--gpu-clock", 1305, "--out", self.out)
        for args in ((), ("--resume", self.out)):  # once more of a run that is complete
            if args:
                process = run(*args)
            self.assert_ran(process, 3)
            self.assertEqual(said_codes(process.stderr), ["setting-refused"])
            self.assertIn("gpu_clock_mhz 1305", process.stderr)

    def test_gpus_that_numbers_may_not_name_are_not_set(self):
        (self.folder / "nvml").mkdir()
        gpus = FakeGpus(self.folder / "nvml", 2)
        with open(self.folder / "nvml" / "state", "a") as file:
            file.write("name = Stand-in T4\n")  # the second one
        process = run("--device", "cpu", "--model", "gpt2-tiny", "--steps", 2, "--gpu-clock", 1305, "--out", self.out,
                      **gpus.environment, CUDA_VISIBLE_DEVICES=1)
        self.assert_one_line_error(process, 2, "CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
        self.assertEqual(gpus.all("lock_mhz"), [0, 0])
        process = run("--device", "cpu", "--model", "gpt2-tiny", "--steps", 2, "--out", self.out, **gpus.environment, CUDA_VISIBLE_DEVICES=1)
        self.assert_ran(process)
        self.assertIsNone(self.report()["records"][0]["summary"]["energy_j"]["device"])

    def test_a_gpu_cut_into_instances_is_flagged(self):
        (self.folder / "nvml").mkdir()
        gpus = FakeGpus(self.folder / "nvml", 1, mig=1)
        process = run("--device", "cpu", "--model", "gpt2-tiny", "--steps", 2, "--out", self.out, **gpus.environment)
        self.assert_ran(process)
        report = self.report()
        self.assertIn("shared_device", report["records"][0]["verdict"]["flags"])
        self.assertTrue(any("MIG is on" in warning for warning in report["context"]["warnings"]))

    def test_an_export_sets_nothing_and_says_so(self):
        process = run("--model", "gpt2-tiny", "--gpu-clock", 1305, "--export-step", self.out)
        self.assert_one_line_error(process, 2, "--export-step", "--gpu-clock")

    def test_set_points_that_are_none(self):
        for value in ("fast", "0", "1:2", "5:1:1", "1:1000000:0.001", "-3"):
            with self.subTest(value=value):
                process = run("--model", "gpt2-tiny", "--steps", 2, f"--gpu-clock={value}", "--out", self.out)
                self.assert_one_line_error(process, 2, "--gpu-clock", value)


class OneNode(Case):
    def test_four_ranks_of_a_node_read_each_sensor_once(self):
        watts = {"package-0": 100, "dram": 20, "core": 60}
        with FakeNode(self.folder / "powercap", watts) as node:
            node.or_skip()
            command = [*node.command(), *mpirun(4), str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--threads", "1",
                       "--window", "0.5", "--trials", "2", "--out", str(self.out)]
            process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_ran(process)
        report = self.report()
        rapl = [meter["domain"] for meter in report["context"]["meters"] if meter["domain"].startswith("rapl:")]
        self.assertEqual(len(rapl), len(set(rapl)), "each sensor once")
        self.assertIn("rapl:package-0", rapl)
        [record] = report["records"]
        self.assertEqual(len(record["trials"]), 2)
        for trial in record["trials"]:
            # Counted, not put into a dictionary, where a second reader's row would lie on the first's.
            domains = [row["domain"] for row in trial["energy"] if row["domain"].startswith("rapl:")]
            self.assertEqual(sorted(domains), sorted(rapl))
            [package] = [row for row in trial["energy"] if row["domain"] == "rapl:package-0"]
            # Two readers' sum would be 200 W, four readers' 400 W; a counter may be late where the machine is busy.
            self.assertAlmostEqual(package["energy_j"] / package["window_s"], watts["package-0"], delta=50)


class TwoSockets(Case):
    def test_a_fake_node_has_one_package_on_a_machine_with_two(self):
        two = Under(files=in_packages(self.folder / "two", 2))
        two.or_skip()
        if len(packages_of(self.folder / "two/cpu")) < 2:
            self.skipTest("one core cannot be shown as two packages")
        # A driver that hides a package is found, so that the packages that are seen are really two.
        for name, cpus, sockets in (("one", self.folder / "two/cpu", 1), ("hidden", CPUS, 2)):
            with self.subTest(name=name), FakeNode(self.folder / name, {"package-0": 100}, cpus=cpus) as node:
                node.or_skip()
                command = [*two.command(), *node.command(), str(BIN / "trainwatt"), "meter", "--out", str(self.folder / f"{name}-out"),
                           "--", "sleep", "1"]
                self.assert_ran(subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment()))
            report = self.folder / f"{name}-out/report.json"
            self.assertEqual(json.loads(report.read_text())["context"]["hosts"][0]["sockets"], sockets)
            validated = tool("validate", report)
            self.assert_ran(validated, 0 if sockets == 1 else 1)
            self.assertEqual("fault[packages_missing]" in validated.stdout, sockets == 2)


class TwoMachines(Case):
    def test_joules_of_two_machines_are_added_up(self):
        """Told apart by their boot ids: each has a reader of its own, and the total is that of both."""
        watts = ({"package-0": 100, "dram": 20}, {"package-0": 300, "dram": 40})
        with contextlib.ExitStack() as stack:
            trains = []
            for number, zones in enumerate(watts):
                boot = self.folder / f"boot{number}"
                boot.write_text(f"{uuid.uuid4()}\n")
                node = stack.enter_context(FakeNode(self.folder / f"powercap{number}", zones))
                node.single["/proc/sys/kernel/random/boot_id"] = boot
                node.or_skip()
                trains.append([*node.command(), BIN / "trainwatt-train", "--model", "gpt2-tiny", "--threads", "1",
                               "--window", "0.5", "--trials", "2", "--out", self.out])
            process = subprocess.run(mpirun_each(*trains), capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        report = self.report()
        hosts = {meter["host"] for meter in report["context"]["meters"]}
        self.assertEqual(len(hosts), 2, hosts)
        [record] = report["records"]
        for trial in record["trials"]:
            for scope, domain, powers in (("package", "rapl:package-0", (100, 300)), ("dram", "rapl:dram", (20, 40))):
                rows = [row for row in trial["energy"] if row["scope"] == scope and row["counted"]]
                self.assertEqual({row["host"] for row in rows}, hosts)
                self.assertEqual(len(rows), 2, [row["domain"] for row in rows])
                means = sorted(row["energy_j"] / row["window_s"] for row in rows)
                for mean, power in zip(means, powers):  # no sum of them, nor one for the other
                    self.assertAlmostEqual(mean, power, delta=0.4 * power)
        sums = [sum(row["energy_j"] for row in trial["energy"] if row["scope"] == "package" and row["counted"])
                for trial in record["trials"]]
        total = record["summary"]["energy_j"]["package"]["value"]
        self.assertTrue(min(sums) <= total * (1 + 1e-9) and total <= max(sums) * (1 + 1e-9), (sums, total))
        self.assertIsNotNone(record["summary"]["samples_per_j"]["package"])


class Leftover(Case):
    def test_a_killed_meter_can_be_repeated(self):
        """It has left an empty folder, which is nobody's; while it lives the folder is its own."""
        command = [str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--"]
        with subprocess.Popen([*command, "sleep", "60"], env=environment(), stderr=subprocess.DEVNULL,
                              start_new_session=True) as first:
            try:
                self.assertTrue(eventually(lambda: children_of(first.pid, "sleep")))
                self.assertEqual(os.listdir(self.out), [])
                second = tool("meter", "--out", self.out, "--", "true")
                self.assert_ran(second, 125)
                self.assertEqual(said_codes(second.stderr), ["file-exists"])
            finally:
                os.killpg(first.pid, signal.SIGKILL)
        again = tool("meter", "--out", self.out, "--", "true")
        self.assert_ran(again)
        self.assertEqual(os.listdir(self.out), ["report.json"])
        refused = tool("meter", "--out", self.out, "--", "true")
        self.assert_ran(refused, 125)
        self.assertEqual(said_codes(refused.stderr), ["file-exists"])


class Wraps(Case):
    def test_a_counter_that_wraps_is_counted_on_and_flagged(self):
        # A round takes three seconds, and the window holds more than one. Who reads the counter may be late by as much as a
        # round takes at the highest power that there may be, a kilowatt.
        watts, range_uj = 1000, 3_000_000_000
        with (unittest.mock.patch("fake_node.RANGE_UJ", range_uj),
              FakeNode(self.folder / "powercap", {"package-0": watts}) as node):
            node.or_skip()
            command = [*node.command(), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sleep", "4"]
            process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        [record] = self.report()["records"]
        self.assertIn("wrapped", record["verdict"]["flags"])
        [row] = [row for row in record["trials"][0]["energy"] if row["domain"] == "rapl:package-0"]
        self.assertGreaterEqual(row["wraps"], 1)
        self.assertGreater(row["energy_j"], range_uj * 1e-6)


class ForeignSettings(Case):
    """A package's cap that somebody changes under a run, on the made-up power tree."""

    def setUp(self):
        only_root()
        super().setUp()
        (self.folder / "run").mkdir(mode=0o700)
        self.env = {"TRAINWATT_RUN_DIR": self.folder / "run" / "trainwatt"}
        self.node = FakeNode(self.folder / "powercap", {"package-0": 60}, cap_watts=150)
        self.node.or_skip()

    def start_capped(self, *options):
        """Returns while the cap of the only point is in force."""
        process = self.start("--device", "cpu", "--model", "gpt2-tiny", "--threads", 1, "--trials", 1, *options, "--out", self.out,
                             command=self.node.command(), **self.env)
        self.assertTrue(eventually(lambda: self.node.cap_watts() == 80 or process.poll() is not None))
        self.assertIsNone(process.poll())
        return process

    def stopped(self, process):
        """The run itself stands still meanwhile, not the sandbox that started it."""
        [run_itself] = children_of(process.pid, "trainwatt-train")
        return self.held(types.SimpleNamespace(pid=run_itself))

    def assert_not_applied(self, process, found):
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 4, out + err)
        [record] = self.report()["records"]
        self.assertEqual(record["verdict"]["status"], "invalid")
        self.assertIn("not_applied", record["verdict"]["flags"])
        self.assertEqual(record["setting"]["cpu_power_limit_w"]["accepted"], 80)
        self.assertIsNone(record["summary"]["samples_per_s"])
        [change] = record["trials"][0]["setting_changes"]
        self.assertEqual((change["setting"], change["domain"], change["requested"], change["found"]),
                         ("cpu_power_limit_w", "rapl:package-0", True, f"limit_uw = {found}"))
        self.assert_ran(tool("validate", self.out / "report.json"))

    def test_a_cap_that_stays_is_read_back_as_set(self):
        with self.node:
            process = self.start_capped("--cpu-power-limit", 80, "--window", 1)
            out, err = process.communicate(timeout=HANG)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(self.node.cap_watts(), 150)
        [record] = self.report()["records"]
        self.assertEqual(record["verdict"]["status"], "valid")
        self.assertEqual(record["trials"][0]["setting_changes"], [])

    def test_a_cap_that_another_program_writes_in_the_middle(self):
        with self.node:
            process = self.start_capped("--cpu-power-limit", 80, "--window", 2)
            with self.stopped(process):
                self.node.set_cap(120)
            self.assert_not_applied(process, 120_000_000)
            self.assertEqual(self.node.cap_watts(), 120, "it is somebody else's")

    def test_restore_all_under_a_run(self):
        with self.node:
            process = self.start_capped("--cpu-power-limit", 80, "--window", 2)
            with self.stopped(process):
                restored = subprocess.run([*self.node.command(), str(BIN / "trainwatt"), "restore", "--all"], capture_output=True,
                                          text=True, timeout=HANG, env=environment(**self.env))
                self.assert_ran(restored)
                self.assertEqual(self.node.cap_watts(), 150)
            self.assert_not_applied(process, 150_000_000)

    def test_a_guardian_that_has_died_is_warned_of_at_the_next_point(self):
        with self.node:
            process = self.start_capped("--cpu-power-limit", "80,100", "--window", 1)
            with self.stopped(process):
                [run_itself] = children_of(process.pid, "trainwatt-train")
                [guardian] = children_of(run_itself, "trainwatt-train")  # it has the name of whom it guards
                os.kill(guardian, signal.SIGKILL)
            out, err = process.communicate(timeout=HANG)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(self.node.cap_watts(), 150)
        [line] = [line for line in self.report()["context"]["warnings"] if line.startswith("guardian_died: ")]
        self.assertIn(line, err)


class Amd(Case):
    def test_amd_gpus_that_a_command_may_not_use_are_not_its(self):
        ours, another, integrated = (f"amdgpu:0000:{bus}:00.0" for bus in ("c1", "c6", "04"))
        node = FakeAmdNode(self.folder / "amd", {ours[7:]: 250, another[7:]: 700, integrated[7:]: 0})
        (self.folder / "amd/hwmon/hwmon2/in1_input").write_text("700\n")  # the northbridge's voltage: an APU
        node.or_skip()
        process = subprocess.run([*node.command(), str(BIN / "trainwatt"), "meter", "--out", str(self.out), "--", "sleep", "2"],
                                 capture_output=True, text=True, timeout=HANG, env=environment(ROCR_VISIBLE_DEVICES=0))
        self.assert_ran(process)
        record = self.report()["records"][0]
        rows = {row["domain"]: row for row in record["trials"][0]["energy"]}
        self.assertEqual([domain for domain, row in rows.items() if row["counted"]], [ours])
        self.assertEqual(rows[another]["reason"], "not_visible")
        self.assertEqual(rows[integrated]["reason"], "unsupported")
        row = rows[ours]
        self.assertAlmostEqual(row["energy_j"], 250 * row["window_s"], delta=0.01 * row["energy_j"])
        self.assertIsNotNone(record["summary"]["energy_j"]["device"])


if __name__ == "__main__":
    unittest.main()
