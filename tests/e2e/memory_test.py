"""Nodes whose memory is too small for a network, or for the operands of its products timed alone."""
import json
import re
import subprocess
import unittest

from fake_node import Under
from support import BIN, HANG, Case, environment, mpirun, tool

MIB = 1024


class Memory(Case):
    def node(self, total_kib, available_kib):
        """The words before a command that is to see this much memory."""
        meminfo = self.folder / "meminfo"
        node = Under(files={"/proc/meminfo": meminfo})
        meminfo.write_text(f"MemTotal: {total_kib} kB\nMemAvailable: {available_kib} kB\n")
        node.or_skip()
        return node.command()

    def train(self, node, *options, ranks=1, out=None):
        launch = [] if ranks == 1 else mpirun(ranks)
        command = [*launch, *node, str(BIN / "trainwatt-train"), *map(str, options), "--out", str(out or self.out)]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS=2))

    def refused(self, process, code):
        self.assertEqual(process.returncode, code, process.stderr)
        self.assertIn("error[out-of-memory]", process.stderr)
        self.assertFalse(self.out.exists(), "refused before anything is made")

    def test_without_room_for_the_ceiling_it_alone_is_missing(self):
        # The head's logits, of which training keeps but a chunk.
        network = ["--model", "gpt2-124m", "--layers", "1", "--recompute", "--micro-batch", "32", "--seq-len", "64"]
        process = self.train(self.node(8192 * MIB, 1600 * MIB), *network, "--steps", "1", "--warmup", "0")
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        [record] = self.report()["records"]
        self.assertEqual(record["verdict"]["status"], "valid")
        summary = record["summary"]
        self.assertIsNone(summary["of_ceiling"])
        self.assertIsNone(summary["ceiling_flops_per_s"])
        for word in ("alone needs", "1.6 of 8.0 GiB are available"):
            self.assertIn(word, summary["of_ceiling_reason"])
            self.assertIn(word, process.stderr)

    def test_own_sizes_that_the_node_cannot_hold_end_with_2_and_name_those_that_fit(self):
        network = ["--model", "gpt2-tiny", "--steps", "1", "--warmup", "0", "--micro-batch"]
        node = self.node(1024 * MIB, 1024 * MIB)
        shared = self.train(node, *network, 10000, ranks=2)
        self.refused(shared, 2)
        self.assertIn("2 ranks × ", shared.stderr)
        process = self.train(node, *network, 10000)
        self.refused(process, 2)
        most = int(re.search(r"--micro-batch N with N up to (\d+)", process.stderr).group(1))
        self.refused(self.train(node, *network, most + 1), 2)
        self.assert_ran(self.train(node, *network, most))

    def test_memory_that_others_use_ends_with_3(self):
        options = ["--model", "gpt2-tiny", "--micro-batch", "10000", "--steps", "1"]
        process = self.train(self.node(1 << 40, 1024 * MIB), *options)
        self.refused(process, 3)
        self.assertIn("or end what else uses memory there", process.stderr)

    def test_sizes_of_a_suite_are_not_the_users(self):
        none = self.node(1 * MIB, 1 * MIB)
        self.refused(self.train(none, "--suite", "quick"), 3)
        # One point that fits is measured, the other one is recorded.
        process = self.train(self.node(1024 * MIB, 1024 * MIB), "--model", "gpt2-tiny", "--micro-batch", "1,10000",
                             "--steps", "1", "--warmup", "0")
        self.assert_ran(process)
        statuses = {record["workload"]["micro_batch"]: record["verdict"]["status"] for record in self.report()["records"]}
        self.assertEqual(statuses, {1: "valid", 10000: "failed"})

    def test_a_micro_batch_that_is_declared_for_a_kit_is_the_users(self):
        config, kit = self.folder / "config.json", self.folder / "kit.json"
        config.write_text(json.dumps({"model": "gpt2-tiny", "micro_batch": "auto", "global_batch": 65536, "steps": 1, "warmup_steps": 0}))
        self.assert_ran(tool("freeze", "--config", config, "--title", "memory", "-o", kit))
        node = self.node(1024 * MIB, 1024 * MIB)
        self.refused(self.train(node, "--config", kit, "--micro-batch", 16384), 2)
        self.refused(self.train(self.node(1 * MIB, 1 * MIB), "--config", kit, "--micro-batch", 16384), 3)


if __name__ == "__main__":
    unittest.main()
