"""Training steps of PyTorch on the workloads of gpu-validate and bench-cpu, for comparison.

    python3 torch_step.py --model gpt2-124m|llama3.2-1b|resnet-50|… --precision float32|tf32|bf16|fp16 --micro-batch N
                          [--accumulate 1] [--layers N] [--seq-len 1024] [--seconds 2] [--blocks 3] [--ways NAME,...] [--device cuda|cpu] [--threads N]
                          [--no-compile] [--compile-only]

The same work as in trainwatt (torch_networks.py): same shapes, GPT-2's vocabulary padded to a multiple of 64, no dropout, AdamW and
clipping at 1 (GPT-2, Llama, BERT), SGD with momentum and label smoothing 0.1 (ResNet-50; Inception-v3 with its auxiliary
head). PyTorch's fastest options: torch.compile, fused
optimizers, scaled dot-product attention, autocast in 16 bits, channels-last for images.

Transformers in 16 bits are run in each of these ways, and the fastest counts (--ways selects some):
    16-bit         residual stream in 16 bits, as in trainwatt; autocast alone keeps it in float32, like the embedding
    16-bit-cudnn   the same, with cuDNN's attention preferred to FlashAttention-2, PyTorch's default (on a GPU)
    float32        autocast alone

Each way is timed in --blocks blocks of --seconds, after warm-up, and the fastest, or the only one, in as many blocks again. A block's result is the
median of its steps, timed without waiting between them. On a GPU, NVML's energy counter is read around these blocks, warm-up excluded:
"energy" has the joules of a sample, or is null with "energy_reason". After each way, all results so far are printed as one line of JSON;
the last line counts. Exit code 1: no way ran with a finite loss.
"""
import contextlib
import json
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_networks
from errors import Parser, fail
from gpu_energy import GpuEnergy, NoEnergy, joules_of_samples


def ways_of(options, half):
    """name → (further arguments of the network, context manager of its step)."""
    if options.model in torch_networks.IMAGES or half is None:
        return {"plain": ({}, contextlib.nullcontext)}
    ways = {"16-bit": ({"half": half}, contextlib.nullcontext)}
    if options.device == "cuda":
        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        # The explicit scale equals the default but makes the graph different: PyTorch's cache is keyed by the graph and not by the
        # order of kernels, so without it one way would get the other's code.
        ways["16-bit-cudnn"] = ({"half": half, "scale": torch_networks.head_dim(options.model) ** -0.5}, lambda: sdpa_kernel(order, set_priority=True))
    ways["float32"] = ({}, contextlib.nullcontext)
    if options.ways:
        ways = {name: ways[name] for name in options.ways.split(",") if name in ways}
    return ways


class Peer:
    def __init__(self, options):
        self.options, self.device = options, options.device
        self.half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
        with torch.device(self.device):
            self.network, self.optimizer, self.batch, self.clip = torch_networks.build(options)
        self.run = self.network if options.no_compile else torch.compile(self.network)
        self.scaler = torch.amp.GradScaler(self.device, enabled=options.precision == "fp16")

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def mark(self):
        if self.device != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end):
        return end - begin if self.device != "cuda" else begin.elapsed_time(end) / 1e3

    def step(self, arguments):
        for _ in range(self.options.accumulate):
            with torch.autocast(self.device, dtype=self.half) if self.half else contextlib.nullcontext():
                loss = self.run(*self.batch, **arguments)
            self.scaler.scale(loss / self.options.accumulate).backward()
        if self.clip:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def block(self, arguments, steps):
        """The median step's seconds, and the last loss. The host waits once, at the end."""
        marks = [self.mark()]
        for _ in range(steps):
            loss = self.step(arguments)
            marks.append(self.mark())
        self.synchronize()
        return statistics.median(map(self.between, marks, marks[1:])), float(loss.detach())

    def warm(self, arguments):
        """Compiles and lets cuDNN choose; then runs steps for 3 s, at most 20 and at least one. Returns the seconds of a step."""
        self.block(arguments, 1)
        begin, seconds = time.perf_counter(), []
        while len(seconds) < 20 and (not seconds or time.perf_counter() - begin < 3):
            seconds.append(self.block(arguments, 1)[0])
        return statistics.median(seconds)


class Meter:
    """Energy of spans of steps on PyTorch's GPU; each with the reason where there is none."""

    def __init__(self, options):
        self.counter, self.reason = None, "the cpu device has no meter here"
        if options.device == "cuda":
            try:
                self.counter = GpuEnergy(torch.cuda.get_device_properties(torch.cuda.current_device()))
            except NoEnergy as error:
                self.reason = str(error)

    def read(self):
        """(seconds, millijoules) now, when all that was enqueued is done; millijoules are None without a counter."""
        millijoules = None
        if self.counter:
            try:
                millijoules = self.counter.millijoules()
            except NoEnergy as error:
                self.counter, self.reason = None, str(error)
        return time.perf_counter(), millijoules

    def span(self, begin, end, samples):
        return None if None in (begin[1], end[1]) else {"joules": (end[1] - begin[1]) / 1e3, "seconds": end[0] - begin[0], "samples": samples}

    def energy_of(self, spans):
        """{"energy", "energy_reason"} of a way."""
        try:
            if not spans or None in spans:
                raise NoEnergy(self.reason)
            return {"energy": joules_of_samples(spans), "energy_reason": None}
        except NoEnergy as error:
            return {"energy": None, "energy_reason": str(error)}


def spread(rates):
    return {"median": statistics.median(rates), "min": min(rates), "max": max(rates), "blocks": rates}


def main():
    parser = Parser(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, choices=[*torch_networks.TRANSFORMERS, *torch_networks.IMAGES])
    parser.add_argument("--precision", default="bf16", choices=["float32", "tf32", "bf16", "fp16"])
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of an optimizer step")
    parser.add_argument("--layers", type=int, help="keep only the first N layers of a transformer")
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a block")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each way, and again of the fastest")
    parser.add_argument("--ways", default="", help="run only these of the ways above")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's)")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--compile-only", action="store_true", help="fill PyTorch's cache of compiled code, and exit")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        fail(1, "device-unusable", "PyTorch sees no GPU; see nvidia-smi, or use --device cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    peer = Peer(options)
    meter = Meter(options)
    ways = ways_of(options, peer.half)
    result = {
        "model": options.model, "precision": options.precision, "micro_batch": options.micro_batch,
        "accumulate": options.accumulate, "layers": options.layers,
        "seq_len": None if options.model in torch_networks.IMAGES else options.seq_len, "compiled": not options.no_compile,
        "torch": torch.__version__, "way": None, "samples_per_s": None, "ways": {}}

    def time_way(name, rates, spans):
        """Adds blocks of this way and the span of their energy."""
        arguments, surroundings = ways[name]
        try:
            with surroundings():
                seconds = peer.warm(arguments)
                if options.compile_only:
                    return
                peer.synchronize()
                begin, samples = meter.read(), options.micro_batch * options.accumulate
                steps = max(3, round(options.seconds / seconds))
                for _ in range(options.blocks):
                    step, loss = peer.block(arguments, steps)
                    rates.append(samples / step)
                spans.append(meter.span(begin, meter.read(), samples * steps * options.blocks))
            if not math.isfinite(loss):
                raise ValueError(f"the loss is {loss}")
            result["ways"][name] = {"samples_per_s": spread(rates), "loss": loss, **meter.energy_of(spans)}
        except Exception as error:  # a way that does not run only loses its own result
            print(f"torch_step.py: warning[way-failed]: {name}: {error}", file=sys.stderr)
            result["ways"][name] = {"error": str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__}

    def tell():
        good = {name: way["samples_per_s"] for name, way in result["ways"].items() if "error" not in way}
        if not good:
            return None
        result["way"] = max(good, key=lambda name: good[name]["median"])
        result["samples_per_s"] = good[result["way"]]
        result.update({key: result["ways"][result["way"]][key] for key in ("energy", "energy_reason")})
        result["peak_bytes"] = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        print(json.dumps(result), flush=True)
        return result["way"]

    rates, spans = {name: [] for name in ways}, {name: [] for name in ways}
    for name in ways:
        time_way(name, rates[name], spans[name])
        tell()
    if options.compile_only:
        return
    best = tell()
    if best is None:
        fail(1, "nothing-measured", "no way ran with a finite loss; the reason of each is above")
    time_way(best, rates[best], spans[best])
    tell()


if __name__ == "__main__":
    main()
