"""Joules of one NVIDIA GPU by NVML's counter, without packages."""
import ctypes
import re

# The counter steps every 20 to 100 ms, so a reading may be as late as this: at both ends of a span.
LATE_SECONDS = 0.1
SHORTEST_SECONDS = 2  # a span below has no joules


class NoEnergy(Exception):
    """Why there are no joules."""


def name_of(properties):
    """(NVML's function, its argument) that finds the device with these properties of PyTorch. The order of NVML's indices may be another
    one, and CUDA_VISIBLE_DEVICES does not change it."""
    if uuid := getattr(properties, "uuid", None):
        text = str(uuid)
        return "nvmlDeviceGetHandleByUUID", text if re.match(r"(GPU|MIG)-", text) else f"GPU-{text}"
    if " MIG " in f"{getattr(properties, 'name', '')} ":  # its bus is the whole GPU's, whose counter has the other parts too
        raise NoEnergy("NVML counts for a whole GPU, not for a part (MIG)")
    numbers = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if None in numbers:
        raise NoEnergy("this PyTorch does not say which GPU it uses: neither UUID nor PCI bus")
    return "nvmlDeviceGetHandleByPciBusId_v2", "{:08X}:{:02X}:{:02X}.0".format(*numbers)


class GpuEnergy:
    """The counter of one GPU. Raises NoEnergy with the reason if there is none."""

    def __init__(self, properties):
        find, name = name_of(properties)
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NoEnergy(f"NVML cannot be opened: {error}") from None
        self.handle = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call(find, name.encode(), ctypes.byref(self.handle))
        self.millijoules()

    def call(self, function, *arguments):
        try:
            code = getattr(self.library, function)(*arguments)
        except AttributeError:
            raise NoEnergy(f"this driver's NVML has no {function}") from None
        if code != 0:
            raise NoEnergy(f"{function} answers {code}")

    def millijoules(self):
        """Since the driver was loaded."""
        value = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value


def joules_of_samples(spans):
    """What a sample costs over all spans, each {"joules", "seconds", "samples"}, or raises NoEnergy. The uncertainty is that of late
    readings, as if power were even."""
    long = [span for span in spans if span["seconds"] >= SHORTEST_SECONDS]
    if not long:
        raise NoEnergy(f"no span of blocks took {SHORTEST_SECONDS} s")
    joules, seconds, samples = (sum(span[key] for span in long) for key in ("joules", "seconds", "samples"))
    if joules <= 0:
        raise NoEnergy("the energy counter did not change")
    return {"scope": "device", "method": "nvml counter", "j_per_sample": joules / samples, "joules": joules, "seconds": seconds,
            "samples": samples, "uncertainty_share": LATE_SECONDS * len(long) / seconds}
