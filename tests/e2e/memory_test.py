"""A node whose memory holds the network, but not the operands of its products timed alone."""
import subprocess
import unittest

from fake_node import Under
from support import BIN, HANG, Case, environment, tool


class Memory(Case):
    def test_without_room_for_the_ceiling_it_alone_is_missing(self):
        meminfo = self.folder / "meminfo"
        node = Under(files={"/proc/meminfo": meminfo})
        meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable: 1638400 kB\n")
        node.or_skip()
        # The head's logits, of which training keeps but a chunk.
        network = ["--model", "gpt2-124m", "--layers", "1", "--recompute", "--micro-batch", "32", "--seq-len", "64"]
        process = subprocess.run([*node.command(), str(BIN / "trainwatt-train"), *network, "--steps", "1", "--warmup", "0",
                                  "--out", str(self.out)],
                                 capture_output=True, text=True, timeout=HANG, env=environment(OMP_NUM_THREADS=2))
        self.assert_ran(process)
        self.assert_ran(tool("validate", self.out / "report.json"))
        [record] = self.report()["records"]
        self.assertEqual(record["verdict"]["status"], "valid")
        summary = record["summary"]
        self.assertIsNone(summary["of_ceiling"])
        self.assertIsNone(summary["ceiling_flops_per_s"])
        for word in ("alone needs", "1.6 GiB are available"):
            self.assertIn(word, summary["of_ceiling_reason"])
            self.assertIn(word, process.stderr)


if __name__ == "__main__":
    unittest.main()
