"""Training steps of PyTorch on the workloads of gpu-validate: the peer that its ratios are against. One JSON line a workload.

    python3 torch_step.py --model gpt2-124m|gpt2-1558m|…|resnet-50 --precision float32|tf32|bf16|fp16 --micro-batch N
                          [--seq-len 1024] [--seconds 5] [--device cuda|cpu] [--threads N] [--no-compile] [--compile-only]

The same work as ours: same shapes, GPT-2's vocabulary padded to a multiple of 64, tied embedding, no dropout, AdamW and clipping
at 1 (GPT-2), SGD with momentum and label smoothing 0.1 (ResNet-50). PyTorch at its best: torch.compile, fused optimizers, scaled
dot-product attention (flash), autocast in 16 bits, channels-last for images. Written from the papers and PyTorch's documentation.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# layers, width, heads
GPT2 = {"gpt2-tiny": (2, 128, 4), "gpt2-124m": (12, 768, 12), "gpt2-355m": (24, 1024, 16), "gpt2-774m": (36, 1280, 20),
        "gpt2-1558m": (48, 1600, 25)}
VOCABULARY = {"gpt2-tiny": 128}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, tokens):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.01)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
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


def build(options, device):
    """The network, its optimizer, one fixed batch, and the norm at which gradients are clipped (None: not)."""
    if options.model == "resnet-50":
        network = ResNet50().to(device, memory_format=torch.channels_last)
        images = torch.randn(options.micro_batch, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (options.micro_batch,), device=device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
        return network, optimizer, (images, labels), None
    layers, width, heads = GPT2[options.model]
    vocabulary = VOCABULARY.get(options.model, 50304)
    network = Gpt2(layers, width, heads, vocabulary, options.seq_len).to(device)
    tokens = torch.randint(0, min(vocabulary, 50257), (options.micro_batch, options.seq_len + 1), device=device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    return network, optimizer, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, choices=[*GPT2, "resnet-50"])
    parser.add_argument("--precision", default="bf16", choices=["float32", "tf32", "bf16", "fp16"])
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--threads", type=int, help="of the CPU (PyTorch's choice)")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--compile-only", action="store_true", help="fill PyTorch's cache of compiled code, and end")
    options = parser.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_step: PyTorch sees no GPU")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"

    network, optimizer, batch, clip = build(options, device)
    step_network = network if options.no_compile else torch.compile(network)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)
    scaler = torch.amp.GradScaler(device, enabled=options.precision == "fp16")

    def synchronize():
        if device == "cuda":
            torch.cuda.synchronize()

    def step():
        with torch.autocast(device, dtype=half) if half else contextlib.nullcontext():
            loss = step_network(*batch)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(1 if options.compile_only else 5):  # compiles, and lets cuDNN choose
        loss = step()
    synchronize()
    if options.compile_only:
        return
    # Blocks of steps without a wait inside, as ours are timed.
    start = time.perf_counter()
    step()
    synchronize()
    block = max(1, int(0.2 / max(1e-4, time.perf_counter() - start)))
    rates, begin = [], time.perf_counter()
    while time.perf_counter() - begin < options.seconds or len(rates) < 3:
        start = time.perf_counter()
        for _ in range(block):
            loss = step()
        synchronize()
        rates.append(block * options.micro_batch / (time.perf_counter() - start))
    print(json.dumps({
        "model": options.model, "precision": options.precision, "micro_batch": options.micro_batch,
        "seq_len": None if options.model == "resnet-50" else options.seq_len, "compiled": not options.no_compile,
        "samples_per_s": {"median": statistics.median(rates), "min": min(rates), "max": max(rates), "blocks": len(rates)},
        "loss": float(loss.detach()), "torch": torch.__version__,
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None}))


if __name__ == "__main__":
    main()
