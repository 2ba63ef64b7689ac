"""scripts/lib/torch_step.py without PyTorch: how many blocks each way gets, and what is printed of them."""
import contextlib
import importlib.util
import io
import json
import sys
import types
import unittest
import unittest.mock

from gpu_validate_script import SCRIPT

RATES = {"16-bit": 20.0, "float32": 10.0, "plain": 10.0}


class Peer:
    """Steps of the rate that RATES has for the way; `fails_from`: the block from which on none runs."""
    fails_from = None

    def __init__(self, options):
        self.half = None if options.precision == "float32" else "half"
        self.blocks = 0

    def synchronize(self):
        pass

    def warm(self, arguments):
        self.rate = RATES["16-bit" if arguments else "float32"]
        return 1.0

    def block(self, arguments, steps):
        self.blocks += 1
        if self.fails_from is not None and self.blocks >= self.fails_from:
            raise RuntimeError("out of memory")
        return 8 / self.rate, 2.0


class TorchStep(unittest.TestCase):
    def lines(self, *args, peer=Peer):
        """The output for these options; modules stand in for PyTorch."""
        torch = unittest.mock.MagicMock(__version__="0.0")
        networks = types.SimpleNamespace(TRANSFORMERS={"gpt2-124m": 0}, IMAGES={"resnet-50": 0})
        stand_ins = {"torch": torch, "torch.nn": torch.nn, "torch.nn.attention": torch.nn.attention, "torch_networks": networks}
        lib = SCRIPT.parent / "lib"
        with unittest.mock.patch.dict(sys.modules, stand_ins), unittest.mock.patch.object(sys, "path", [str(lib), *sys.path]), \
                unittest.mock.patch.object(sys, "argv", ["torch_step.py", "--device", "cpu", *args]), \
                contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
            spec = importlib.util.spec_from_file_location("torch_step", lib / "torch_step.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.Peer = peer
            module.main()
        return [json.loads(line) for line in said.getvalue().splitlines()]

    def test_a_network_with_one_way_has_as_many_blocks_as_the_fastest_of_several(self):
        one, several = self.lines("--model", "resnet-50")[-1], self.lines("--model", "gpt2-124m")[-1]
        self.assertEqual((one["way"], one["samples_per_s"]["blocks"]), ("plain", [10.0] * 6))
        self.assertEqual((several["way"], several["samples_per_s"]["blocks"]), ("16-bit", [20.0] * 6))
        self.assertEqual(several["ways"]["float32"]["samples_per_s"]["blocks"], [10.0] * 3)
        self.assertEqual(len(self.lines("--model", "resnet-50", "--blocks", "1")[-1]["samples_per_s"]["blocks"]), 2)

    def test_blocks_that_fail_later_leave_those_before_them(self):
        peer = type("Failing", (Peer,), {"fails_from": 4})
        self.assertEqual(self.lines("--model", "resnet-50", peer=peer)[-1]["samples_per_s"]["blocks"], [10.0] * 3)


if __name__ == "__main__":
    unittest.main()
