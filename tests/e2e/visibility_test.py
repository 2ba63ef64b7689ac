"""Ranks of one node that see different GPUs: each GPU is set by one hand and read by one reader, and none is forgotten."""
import subprocess
import unittest

from support import (BIN, HANG, Case, FakeGpus, SiteTool, children_of, environment, eventually, mpirun_each, only_root, ranks_of,
                     tool)

RANKS, GPUS = 4, 5  # the last GPU is nobody's


class Visibility(Case):
    def setUp(self):
        only_root()
        super().setUp()
        (self.folder / "nvml").mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.gpus = FakeGpus(self.folder / "nvml", GPUS)
        with open(self.folder / "nvml" / "state", "a") as file:
            file.write("hot = 1\n")  # the last one
        self.env = {**self.gpus.environment, "TRAINWATT_RUN_DIR": self.folder / "run" / "trainwatt"}

    def command(self, variables, *args):
        """One application for each rank, with its own environment, as a scheduler starts tasks."""
        train = [BIN / "trainwatt-train", "--device", "cpu", "--model", "gpt2-tiny", "--threads", "1", "--micro-batch", "1", *args,
                 "--out", self.out]
        return mpirun_each(*(["env", *(f"{key}={value}" for key, value in variables(rank).items()), *train] for rank in range(RANKS)))

    def check(self, variables):
        site = SiteTool(self.folder / "site", "cpu_governor", "schedutil", values=["performance"])
        process = subprocess.run(self.command(variables, "--gpu-clock", "found,1305", "--window", 1, "--trials", 1,
                                              "--site", site.file, "--cpu-governor", "performance"),
                                 capture_output=True, text=True, timeout=HANG, env=environment(**self.env))
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        ours = sorted(f"nvml:{uuid}" for uuid in self.gpus.uuids[:RANKS])
        found, wanted = self.report()["records"]
        self.assertEqual(found["verdict"]["status"], "valid", found["verdict"])
        self.assertEqual(wanted["verdict"]["status"], "valid", wanted["verdict"])
        devices = wanted["setting"]["gpu_clock_mhz"]["devices"]
        self.assertEqual(sorted(device["domain"] for device in devices), ours, "each once, the hidden one not")
        self.assertEqual({device["accepted"] for device in devices}, {1305})
        self.assertEqual({device["observed"] for device in devices}, {1305}, "seen under load, whoever reads it")
        governors = wanted["setting"]["cpu_governor"]["devices"]
        self.assertEqual([(device["domain"], device["accepted"]) for device in governors], [("site", "performance")],
                         "by the first rank alone, and no other is asked for it")
        self.assertEqual([device["observed"] for device in governors], ["performance"])
        self.assertNotIn("not_observed", wanted["verdict"]["flags"])
        self.assertEqual(site.value.read_text(), "schedutil\n")
        for record in (found, wanted):
            counted = [row["domain"] for row in record["trials"][0]["energy"] if row["scope"] == "device" and row["counted"]]
            self.assertEqual(sorted(counted), ours, "one reader for each")
            self.assertIsNotNone(record["summary"]["energy_j"]["device"])
            self.assertNotIn("throttled", record["verdict"]["flags"], "a neighbour's heat")
            seen = {row["domain"] for row in record["trials"][0]["counters"] if row["domain"].startswith("nvml:")}
            self.assertEqual(sorted(seen), ours)
            self.assertGreater(record["trials"][0]["clock_skew_s"], 0)
        self.assertEqual(self.gpus.all("lock_mhz"), [0] * GPUS)
        self.assertEqual([resets > 0 for resets in self.gpus.all("resets")], [True] * RANKS + [False])
        self.assertEqual(self.journals(), [])

    def journals(self):
        return list((self.folder / "run").rglob("settings.json"))

    def test_visible_devices_of_each_rank(self):
        """The driver lists all GPUs to all ranks: the first reads and sets them."""
        self.check(lambda rank: {"CUDA_VISIBLE_DEVICES": self.gpus.uuids[rank]})

    def test_devices_that_only_their_rank_can_address(self):
        """A cgroup shows each task its own GPU alone, as number 0."""
        self.check(lambda rank: {"CUDA_VISIBLE_DEVICES": 0, "TRAINWATT_STANDIN_NVML_ONLY": rank})

    def kill_ranks(self, with_guardians):
        """Of a job with a GPU for each task, while all clocks are locked."""
        process = subprocess.Popen(
            self.command(lambda rank: {"TRAINWATT_STANDIN_NVML_ONLY": rank}, "--gpu-clock", 1305, "--window", 600),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**self.env), start_new_session=True)
        self.addCleanup(self.end, process)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz")[:RANKS] == [1305] * RANKS or process.poll() is not None))
        self.assertIsNone(process.poll())
        self.assertEqual(len(self.journals()), RANKS)
        ranks = ranks_of(process)
        self.assertEqual(len(ranks), RANKS)
        guardians = [guardian for rank in ranks for guardian in children_of(rank, "trainwatt-train")]
        self.kill_together(process, (guardians if with_guardians else []) + ranks)
        process.communicate(timeout=HANG)

    def test_killed_ranks_are_put_back_each_by_its_guardian(self):
        self.kill_ranks(with_guardians=False)
        self.assertTrue(eventually(lambda: self.gpus.all("lock_mhz") == [0] * GPUS and not self.journals()))

    def test_what_killed_ranks_have_left_is_put_back_by_those_that_can_address_it(self):
        """Ranks of the next job see other GPUs than those of the same number before; who finds no device is silent."""
        self.kill_ranks(with_guardians=True)
        self.assertEqual(self.gpus.all("lock_mhz")[:RANKS], [1305] * RANKS)
        self.out = self.folder / "next"
        process = subprocess.run(
            self.command(lambda rank: {"TRAINWATT_STANDIN_NVML_ONLY": RANKS - 1 - rank}, "--gpu-clock", "990",
                         "--window", 1, "--trials", 1),
            capture_output=True, text=True, timeout=HANG, env=environment(**self.env))
        self.assert_ran(process)
        said = [line for line in process.stderr.splitlines() if "warning[settings]: restored: " in line]
        self.assertEqual(len(said), RANKS, process.stderr)
        for uuid in self.gpus.uuids[:RANKS]:
            self.assertEqual(len([line for line in said if uuid in line and ": reset" in line]), 1, process.stderr)
        self.assertEqual(self.gpus.all("lock_mhz"), [0] * GPUS)
        self.assertEqual(self.journals(), [])


if __name__ == "__main__":
    unittest.main()
