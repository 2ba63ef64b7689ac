"""Joules of PyTorch's steps by the stand-in for NVML (tests/support/nvml), whose time is set here, so that they are exact."""
import contextlib
import ctypes
import importlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import support
from gpu_validate_script import SCRIPT, load

LIB = SCRIPT.parent / "lib"
UUIDS = ["11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"]
IDLE_W, LOADED_W = 70, 620  # of the stand-in's model


class Energy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "state"
        self.now = 1.0
        self.write()
        real = ctypes.CDLL
        for patch in (unittest.mock.patch.dict(os.environ, TRAINWATT_STANDIN_NVML=folder.name),
                      unittest.mock.patch.object(sys, "path", [str(LIB), *sys.path]),
                      unittest.mock.patch.object(ctypes, "CDLL", lambda name: real(str(support.STAND_IN / name)))):
            patch.start()
            self.addCleanup(patch.stop)
        self.energy = importlib.import_module("gpu_energy")

    def write(self, first="", second=""):
        """The first GPU is idle, the second one loaded."""
        self.state.write_text(f"frozen = 1\nfrozen_ns = {round(self.now * 1e9)}\n[gpu]\nuuid = GPU-{UUIDS[0]}\nload_percent = 0\n{first}"
                              f"[gpu]\nuuid = GPU-{UUIDS[1]}\nload_percent = 100\n{second}")

    def pass_by(self, seconds):
        self.now += seconds
        self.write()

    def joules(self, properties):
        counter = self.energy.GpuEnergy(properties)
        before = counter.millijoules()
        self.pass_by(10)
        return (counter.millijoules() - before) / 1e3

    def reason(self, properties):
        with self.assertRaises(self.energy.NoEnergy) as raised:
            self.energy.GpuEnergy(properties)
        return str(raised.exception)

    def test_the_gpu_is_found_by_its_uuid_or_its_bus(self):
        Properties = types.SimpleNamespace
        for properties, watts in ((Properties(uuid=UUIDS[0]), IDLE_W), (Properties(uuid=UUIDS[1]), LOADED_W), (Properties(uuid=f"GPU-{UUIDS[1]}"), LOADED_W),
                                  (Properties(name="NVIDIA H100", pci_domain_id=0, pci_bus_id=2, pci_device_id=0), LOADED_W),
                                  (Properties(name="NVIDIA H100", pci_domain_id=0, pci_bus_id=1, pci_device_id=0), IDLE_W)):
            self.assertAlmostEqual(self.joules(properties), 10 * watts, delta=0.01, msg=properties)

    def test_without_joules_there_is_a_reason(self):
        Properties = types.SimpleNamespace
        self.assertEqual(self.reason(Properties(uuid="33333333-0000-4000-8000-000000000000")), "nvmlDeviceGetHandleByUUID answers 6")
        self.assertIn("neither UUID nor PCI bus", self.reason(Properties(name="NVIDIA H100")))
        self.assertIn("not for a part (MIG)", self.reason(Properties(name="NVIDIA H100 MIG 1g.10gb", pci_domain_id=0, pci_bus_id=1, pci_device_id=0)))
        self.write(second="no_energy = 1\n")
        self.assertEqual(self.reason(Properties(uuid=UUIDS[1])), "nvmlDeviceGetTotalEnergyConsumption answers 3")
        with unittest.mock.patch.object(ctypes, "CDLL", side_effect=OSError("libnvidia-ml.so.1: cannot open")):
            self.assertEqual(self.reason(Properties(uuid=UUIDS[1])), "NVML cannot be opened: libnvidia-ml.so.1: cannot open")
        with unittest.mock.patch.object(ctypes, "CDLL", lambda name: types.SimpleNamespace(nvmlInit_v2=lambda: 0)):
            self.assertEqual(self.reason(Properties(uuid=UUIDS[1])), "this driver's NVML has no nvmlDeviceGetHandleByUUID")

    def test_short_spans_have_no_joules(self):
        span = {"joules": 100.0, "seconds": 2.0, "samples": 50}
        one = self.energy.joules_of_samples([span, {**span, "seconds": 1.9, "joules": 1e6}, {**span, "seconds": 6.0, "joules": 300.0, "samples": 150}])
        self.assertEqual((one["j_per_sample"], one["seconds"], one["samples"], one["uncertainty_share"]), (2.0, 8.0, 200, 0.025))
        for spans, text in (([], "no span"), ([{**span, "seconds": 1.9}], "no span"), ([{**span, "joules": 0.0}], "did not change")):
            with self.assertRaisesRegex(self.energy.NoEnergy, text):
                self.energy.joules_of_samples(spans)

    def lines(self, *args, device="cuda", seconds=1.0):
        """What torch_step.py prints on the second GPU, with steps of this many seconds."""
        test = self

        class Peer:
            def __init__(self, options):
                self.half = None

            def synchronize(self):
                pass

            def warm(self, arguments):
                test.pass_by(5)
                return seconds

            def block(self, arguments, steps):
                test.pass_by(seconds * steps)
                return seconds, 2.0

        torch = unittest.mock.MagicMock(__version__="0.0")
        torch.cuda.max_memory_allocated.return_value = 1
        torch.cuda.get_device_properties.return_value = types.SimpleNamespace(uuid=UUIDS[1])
        networks = types.SimpleNamespace(TRANSFORMERS={}, IMAGES={"resnet-50": 0})
        stand_ins = {"torch": torch, "torch.nn": torch.nn, "torch.nn.attention": torch.nn.attention, "torch_networks": networks}
        with unittest.mock.patch.dict(sys.modules, stand_ins), contextlib.redirect_stdout(io.StringIO()) as said, \
                unittest.mock.patch.object(sys, "argv", ["torch_step.py", "--model", "resnet-50", "--device", device, *args]):
            spec = importlib.util.spec_from_file_location("torch_step", LIB / "torch_step.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.Peer = Peer
            with unittest.mock.patch.object(module.time, "perf_counter", lambda: test.now):
                module.main()
        return [json.loads(line) for line in said.getvalue().splitlines()]

    def test_a_step_of_pytorch_has_the_joules_of_its_timed_blocks(self):
        # Three blocks of three steps of 1 s, then as many again, of eight samples: warm-up, which takes 5 s, is not among them.
        first, *_, last = self.lines()
        self.assertAlmostEqual(first["energy"]["j_per_sample"], LOADED_W / 8, delta=1e-3)
        self.assertEqual((first["energy"]["samples"], first["energy"]["seconds"]), (72, 9))
        self.assertAlmostEqual(last["energy"]["joules"], 18 * LOADED_W, delta=0.1)
        self.assertEqual((last["energy"]["samples"], last["energy"]["scope"], last["energy_reason"]), (144, "device", None))

    def test_a_step_of_pytorch_without_joules_has_the_reason(self):
        short = self.lines("--seconds", "0.02", seconds=0.01)[-1]
        self.assertEqual((short["energy"], short["energy_reason"]), (None, "no span of blocks took 2 s"))
        on_cpu = self.lines(device="cpu")[-1]
        self.assertEqual((on_cpu["energy"], on_cpu["energy_reason"]), (None, "the cpu device has no meter here"))
        with unittest.mock.patch.object(ctypes, "CDLL", side_effect=OSError("no such library")):
            without = self.lines()[-1]
        self.assertEqual((without["energy"], without["energy_reason"]), (None, "NVML cannot be opened: no such library"))
        self.assertEqual(without["samples_per_s"]["blocks"], [8.0] * 6)

    def test_joules_are_compared_where_both_are_of_the_gpu(self):
        compare = load().figures.compare_joules
        own, peer = {"scope": "device", "j_per_sample": 3.0, "uncertainty_share": 0.03}, {"scope": "device", "j_per_sample": 4.0, "uncertainty_share": 0.04}

        def compared(energy, theirs, **more):
            point = {"samples_per_s": 1.0, "energy": energy, "torch": {"energy": theirs, "energy_reason": "no NVML"}, **more}
            compare(point)
            return point

        both = compared(own, peer)
        self.assertEqual((both["joules_ratio_to_torch"], both["joules_ratio_uncertainty_share"], both["joules_reason"]), (0.75, 0.05, None))
        for energy, theirs, text in ((None, peer, "no meter counted"), ({**own, "scope": "node"}, peer, "of the node, not of the GPU"),
                                     (own, None, "PyTorch's steps have no joules: no NVML")):
            one = compared(energy, theirs)
            self.assertIsNone(one["joules_ratio_to_torch"])
            self.assertIn(text, one["joules_reason"])
        self.assertEqual(compared(None, None, energy_reason="no permission")["joules_reason"], "no permission")
        point = {"samples_per_s": 1.0, "energy": own}
        compare(point)
        self.assertNotIn("joules_reason", point, "without PyTorch there is nothing to compare with")


if __name__ == "__main__":
    unittest.main()
