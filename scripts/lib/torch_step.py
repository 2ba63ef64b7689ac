"""Training steps of PyTorch on the workloads of gpu-validate and bench-cpu, for comparison.

    python3 torch_step.py --model gpt2-124m|gpt2-1558m|…|resnet-50 --precision float32|tf32|bf16|fp16 --micro-batch N
                          [--seq-len 1024] [--seconds 2] [--blocks 3] [--ways NAME,...] [--device cuda|cpu] [--threads N]
                          [--no-compile] [--compile-only]

The same work as in trainwatt: same shapes, GPT-2's vocabulary padded to a multiple of 64, tied embedding, no dropout, AdamW and
clipping at 1 (GPT-2), SGD with momentum and label smoothing 0.1 (ResNet-50). PyTorch's fastest options: torch.compile, fused
optimizers, scaled dot-product attention, autocast in 16 bits, channels-last for images. Written from the papers and PyTorch's
documentation.

GPT-2 in 16 bits is run in each of these ways, and the fastest counts (--ways selects some):
    16-bit         residual stream in 16 bits, as in trainwatt; autocast alone keeps it in float32, like the embedding
    16-bit-cudnn   the same, with cuDNN's attention preferred to FlashAttention-2, PyTorch's default (on a GPU)
    float32        autocast alone

Each way is timed in --blocks blocks of --seconds, after warm-up, and the fastest in as many blocks again. A block's result is the
median of its steps, timed without waiting between them. After each way, all results so far are printed as one line of JSON; the
last line counts. Exit code 1: no way ran with a finite loss.
"""
import argparse
import contextlib
import json
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# layers, width, heads
GPT2 = {"gpt2-tiny": (2, 128, 4), "gpt2-124m": (12, 768, 12), "gpt2-355m": (24, 1024, 16), "gpt2-774m": (36, 1280, 20),
        "gpt2-1558m": (48, 1600, 25)}
VOCABULARY = {"gpt2-tiny": 128}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, scale):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, scale):
        x = x + self.attention(self.norm1(x), scale)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, tokens):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.01)

    def forward(self, tokens, targets, half=None, scale=None):
        """half: type of the residual stream, if not the embedding's. scale: of attention, None for the default."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        if half is not None:
            x = x.to(half)
        for layer in self.layers:
            x = layer(x, scale)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Bottleneck(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        out = 4 * channels
        self.conv1, self.norm1 = nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)  # v1.5: the stride is in the 3 x 3
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv3, self.norm3 = nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1 or channels_in != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        stages, channels_in = [], 64
        for stage, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(blocks):
                stages.append(Bottleneck(channels_in, channels, 2 if stage > 0 and block == 0 else 1))
                channels_in = 4 * channels
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(2048, classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.stem(images))), 3, 2, 1)
        x = self.stages(x).mean(dim=(2, 3))
        return F.cross_entropy(self.head(x), labels, label_smoothing=0.1)


def build(options):
    """The network, its optimizer, one fixed batch, and the norm at which gradients are clipped (None: no clipping). Learning rates are
    small, so that the loss on one batch stays finite over hundreds of steps."""
    if options.model == "resnet-50":
        network = ResNet50().to(memory_format=torch.channels_last)
        images = torch.randn(options.micro_batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (options.micro_batch,))
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        return network, optimizer, (images, labels), None
    layers, width, heads = GPT2[options.model]
    vocabulary = VOCABULARY.get(options.model, 50304)
    network = Gpt2(layers, width, heads, vocabulary, options.seq_len)
    tokens = torch.randint(0, min(vocabulary, 50257), (options.micro_batch, options.seq_len + 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    return network, optimizer, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), 1.0


def ways_of(options, half):
    """name → (further arguments of the network, context manager of its step)."""
    if options.model == "resnet-50" or half is None:
        return {"plain": ({}, contextlib.nullcontext)}
    ways = {"16-bit": ({"half": half}, contextlib.nullcontext)}
    if options.device == "cuda":
        width, heads = GPT2[options.model][1:]
        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        # The explicit scale equals the default but makes the graph different: PyTorch's cache is keyed by the graph and not by the
        # order of kernels, so without it one way would get the other's code.
        ways["16-bit-cudnn"] = ({"half": half, "scale": (width // heads) ** -0.5}, lambda: sdpa_kernel(order, set_priority=True))
    ways["float32"] = ({}, contextlib.nullcontext)
    if options.ways:
        ways = {name: ways[name] for name in options.ways.split(",") if name in ways}
    return ways


class Peer:
    def __init__(self, options):
        self.options, self.device = options, options.device
        self.half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
        with torch.device(self.device):
            self.network, self.optimizer, self.batch, self.clip = build(options)
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
        with torch.autocast(self.device, dtype=self.half) if self.half else contextlib.nullcontext():
            loss = self.run(*self.batch, **arguments)
        self.scaler.scale(loss).backward()
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
        """Compiles and lets cuDNN choose; then runs 3 to 20 steps, within 3 s. Returns the seconds of a step."""
        self.block(arguments, 1)
        begin, seconds = time.perf_counter(), []
        while len(seconds) < 20 and (len(seconds) < 3 or time.perf_counter() - begin < 3):
            seconds.append(self.block(arguments, 1)[0])
        return statistics.median(seconds)


def spread(rates):
    return {"median": statistics.median(rates), "min": min(rates), "max": max(rates), "blocks": rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, choices=[*GPT2, "resnet-50"])
    parser.add_argument("--precision", default="bf16", choices=["float32", "tf32", "bf16", "fp16"])
    parser.add_argument("--micro-batch", type=int, default=8)
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
        sys.exit("torch_step: PyTorch sees no GPU")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    peer = Peer(options)
    ways = ways_of(options, peer.half)
    result = {
        "model": options.model, "precision": options.precision, "micro_batch": options.micro_batch,
        "seq_len": None if options.model == "resnet-50" else options.seq_len, "compiled": not options.no_compile,
        "torch": torch.__version__, "way": None, "samples_per_s": None, "ways": {}}

    def time_way(name, rates):
        """Adds blocks of this way; False if it does not run or its loss is not finite."""
        arguments, surroundings = ways[name]
        try:
            with surroundings():
                seconds = peer.warm(arguments)
                if options.compile_only:
                    return
                for _ in range(options.blocks):
                    step, loss = peer.block(arguments, max(3, round(options.seconds / seconds)))
                    rates.append(options.micro_batch / step)
            if not math.isfinite(loss):
                raise ValueError(f"the loss is {loss}")
            result["ways"][name] = {"samples_per_s": spread(rates), "loss": loss}
        except Exception as error:  # a way that does not run only loses its own result
            print(f"torch_step: {name}: {error}", file=sys.stderr)
            result["ways"][name] = {"error": str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__}

    def tell():
        good = {name: way["samples_per_s"] for name, way in result["ways"].items() if "error" not in way}
        if not good:
            return None
        result["way"] = max(good, key=lambda name: good[name]["median"])
        result["samples_per_s"] = good[result["way"]]
        result["peak_bytes"] = torch.cuda.max_memory_allocated() if options.device == "cuda" else None
        print(json.dumps(result), flush=True)
        return result["way"]

    rates = {name: [] for name in ways}
    for name in ways:
        time_way(name, rates[name])
        tell()
    if options.compile_only:
        return
    best = tell()
    if best is None:
        sys.exit("torch_step: no way ran with a loss that is finite")
    if len(ways) > 1:
        time_way(best, rates[best])
        tell()


if __name__ == "__main__":
    main()
