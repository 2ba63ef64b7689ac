#!/usr/bin/env python3
"""Compares exported training steps with PyTorch, as check.py does with JAX: torch_check.py FOLDER...

For machines with PyTorch; uses a GPU if there is one. The networks are written again with PyTorch's operators (convolutions,
norms, attention), in float64; bf16's yardstick rounds weights and activations as in arithmetic.py. Prints a line "PASS …" or
"FAIL …" for each folder. Exit code 0: all within tolerance, 1: not, 77: NumPy is not installed."""

import sys

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import compare
import exported
import inception_units
import steps
import torch_pools


class Exact:
    dtype = torch.float64

    def activation(self, x):
        return x

    def weight(self, w):
        return w


class Bf16:
    dtype = torch.float32

    def activation(self, x):
        return x.to(torch.bfloat16).to(self.dtype)  # and, in the backward pass, its gradient

    def weight(self, w):
        return w + (self.activation(w) - w).detach()


def gpt2(weights, batch, shape, arithmetic):
    """Losses of all tokens; the rest is a ResNet's."""
    rounded, w = arithmetic.activation, {name: arithmetic.weight(value) for name, value in weights.items()}

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return rounded(F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps=1e-5))

    tokens = batch["input_ids"]
    x = rounded(w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]])
    for layer in range(1 + max(int(name.split(".")[1]) for name in w if name.startswith("h."))):
        h = f"h.{layer}."
        packed = rounded(linear(norm(x, h + "ln_1"), h + "attn.c_attn"))
        q, k, v = (part.unflatten(-1, (shape["heads"], -1)).transpose(1, 2) for part in packed.chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = rounded(x + linear(rounded(attended), h + "attn.c_proj"))
        up = rounded(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"))
        x = rounded(x + linear(rounded(F.gelu(up, approximate="tanh")), h + "mlp.c_proj"))
    logits = norm(x, "ln_f") @ w["wte.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none"), {}, {}


def llama(weights, batch, shape, arithmetic):
    """As gpt2(). Rotary positions by complex numbers."""
    rounded, w = arithmetic.activation, {name: arithmetic.weight(value) for name, value in weights.items()}
    tokens, head_dim = batch["input_ids"], shape["width"] // shape["heads"]

    plain = shape["rope_theta"] ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    share = ((shape["rope_original_seq"] * plain / (2 * torch.pi) - shape["rope_low_factor"]) /
             (shape["rope_high_factor"] - shape["rope_low_factor"])).clamp(0, 1)
    frequency = plain * share + plain / shape["rope_factor"] * (1 - share)
    angles = torch.outer(torch.arange(tokens.shape[1], dtype=torch.float64), frequency)
    turn = torch.polar(torch.ones_like(angles), angles).to(tokens.device)[None, :, None]

    def rotated(x):
        half = head_dim // 2
        y = torch.complex(x[..., :half], x[..., half:]) * turn.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64)
        return rounded(torch.cat([y.real, y.imag], -1))

    def norm(x, name):
        return rounded(F.rms_norm(x, x.shape[-1:], w[name + ".weight"], eps=1e-5))

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(shape["layers"]):
        h = f"model.layers.{layer}."

        def linear(x, name):
            return x @ w[f"{h}{name}.weight"].T

        n = norm(x, h + "input_layernorm")
        q, k, v = (rounded(linear(n, f"self_attn.{part}_proj")).unflatten(-1, (-1, head_dim)) for part in "qkv")
        attended = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (rotated(q), rotated(k), v)), is_causal=True,
                                                  enable_gqa=True).transpose(1, 2).flatten(2)
        x = rounded(x + linear(rounded(attended), "self_attn.o_proj"))
        n = norm(x, h + "post_attention_layernorm")
        gate, up = rounded(linear(n, "mlp.gate_proj")), rounded(linear(n, "mlp.up_proj"))
        x = rounded(x + linear(rounded(F.silu(gate) * up), "mlp.down_proj"))
    logits = norm(x, "model.norm") @ w["model.embed_tokens.weight" if shape["tied_head"] else "lm_head.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none"), {}, {}


def bert(weights, batch, shape, arithmetic):
    """As gpt2(). Losses of masked tokens and of sequences, scaled so that their mean is the sum of both means."""
    rounded, w = arithmetic.activation, {name: arithmetic.weight(value) for name, value in weights.items()}

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return rounded(F.layer_norm(x, x.shape[-1:], w[name + ".LayerNorm.weight"], w[name + ".LayerNorm.bias"], eps=1e-12))

    tokens, table = batch["input_ids"], w["bert.embeddings.word_embeddings.weight"]
    x = rounded(table[tokens] + w["bert.embeddings.position_embeddings.weight"][: tokens.shape[1]])
    x = norm(rounded(x + w["bert.embeddings.token_type_embeddings.weight"][batch["token_type_ids"]]), "bert.embeddings")
    for layer in range(shape["layers"]):
        h = f"bert.encoder.layer.{layer}."
        q, k, v = (rounded(linear(x, f"{h}attention.self.{part}")).unflatten(-1, (shape["heads"], -1)).transpose(1, 2)
                   for part in ("query", "key", "value"))
        attended = rounded(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = norm(rounded(x + linear(attended, h + "attention.output.dense")), h + "attention.output")
        up = rounded(F.gelu(rounded(linear(x, h + "intermediate.dense"))))
        x = norm(rounded(x + linear(up, h + "output.dense")), h + "output")
    masked = batch["labels"] >= 0
    hidden = rounded(F.gelu(rounded(linear(x[masked], "cls.predictions.transform.dense"))))
    logits = norm(hidden, "cls.predictions.transform") @ table.T + w["cls.predictions.bias"]
    of_tokens = F.cross_entropy(logits, batch["labels"][masked], reduction="none")
    pooled = rounded(torch.tanh(rounded(linear(x[:, 0], "bert.pooler.dense"))))
    of_sequences = F.cross_entropy(linear(pooled, "cls.seq_relationship"), batch["next_sentence_label"], reduction="none")
    places = len(of_tokens) + len(of_sequences)
    return torch.cat([of_tokens * (places / len(of_tokens)), of_sequences * (places / len(of_sequences))]), {}, {}


def dlrm(weights, batch, shape, arithmetic):
    """As resnet(), of clicks (facebookresearch/dlrm)."""
    rounded, strays = arithmetic.activation, {}

    def linear(x, name):
        return rounded(F.linear(x, arithmetic.weight(weights[name + ".weight"]), arithmetic.weight(weights[name + ".bias"])))

    def mlp(x, name, layers):
        for place in (f"{name}.{2 * index}" for index in range(layers)):
            x = linear(x, place)
            if place not in batch["relu"]:
                x = F.relu(x)
                continue
            passes = batch["relu"][place]
            strayed = passes != (x > 0)
            strays[place] = (int(strayed.sum()), float(torch.where(strayed, x.detach().abs(), 0.0).max()))
            followed = torch.where(passes, x, 0.0)
            x = followed + (F.relu(x) - followed).detach()
        return x

    dense = mlp(rounded(batch["dense"]), "bot_l", len(shape["bottom"]))
    bags = [rounded(F.embedding_bag(batch["indices"][:, table], weights[f"emb_l.{table}.weight"], mode="sum"))
            for table in range(len(shape["table_rows"]))]
    features = torch.stack([dense, *bags], 1)
    i, j = torch.tril_indices(len(bags) + 1, len(bags) + 1, offset=-1)
    pairs = rounded(torch.bmm(features, features.transpose(1, 2))[:, i, j])
    logits = linear(mlp(torch.cat([dense, pairs], 1), "top_l", len(shape["top"])), f"top_l.{2 * len(shape['top'])}")[:, 0]
    return F.binary_cross_entropy_with_logits(logits, batch["labels"].to(logits.dtype), reduction="none"), {}, strays


def max_pool(x, name, batch, strays, padding=0):
    if name not in batch["pools"]:
        return F.max_pool2d(x, 3, 2, padding)
    y, strays[name] = torch_pools.follow(x, batch["pools"][name], 3, 2, padding)
    return y


def resnet(weights, batch, shape, arithmetic):
    """Losses of all images, running statistics, and what of its ReLUs and max pool lies on the other side than exported (README.md)."""
    rounded, statistics, strays = arithmetic.activation, {}, {}

    def conv(x, name, stride=1):
        weight = arithmetic.weight(weights[name + ".weight"])
        return rounded(F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2))

    def batch_norm(x, name):
        running = [batch["buffers"][f"{name}.{key}"].clone() for key in ("running_mean", "running_var")]
        y = F.batch_norm(x, *running, weights[name + ".weight"], weights[name + ".bias"], training=True, momentum=0.1, eps=1e-5)
        statistics[f"{name}.running_mean"], statistics[f"{name}.running_var"] = running
        return y

    def relu(x, name):
        if name not in batch["relu"]:
            return rounded(F.relu(x))
        passes = batch["relu"][name].permute(0, 3, 1, 2)
        strayed = passes != (x > 0)
        strays[name] = (int(strayed.sum()), float(torch.where(strayed, x.detach().abs(), 0.0).max()))
        followed = torch.where(passes, x, 0.0)
        return rounded(followed + (F.relu(x) - followed).detach())  # value of ReLU, derivative of the exported side

    def bottleneck(x, name, stride):
        shortcut = x
        if f"{name}.downsample.0.weight" in weights:
            shortcut = rounded(batch_norm(conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1"))
        y = relu(batch_norm(conv(x, f"{name}.conv1"), f"{name}.bn1"), f"{name}.bn1")
        y = relu(batch_norm(conv(y, f"{name}.conv2", stride), f"{name}.bn2"), f"{name}.bn2")
        return relu(batch_norm(conv(y, f"{name}.conv3"), f"{name}.bn3") + shortcut, name)

    x = relu(batch_norm(conv(rounded(batch["images"]), "conv1", shape["stem_stride"]), "bn1"), "bn1")
    if shape["stem_pool"]:
        x = max_pool(x, "maxpool", batch, strays, 1)
    stage = 1
    while f"layer{stage}.0.conv1.weight" in weights:
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in weights:
            x = bottleneck(x, f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1)
            block += 1
        stage += 1
    logits = rounded(x.mean((2, 3))) @ arithmetic.weight(weights["fc.weight"]).T + arithmetic.weight(weights["fc.bias"])
    losses = F.cross_entropy(logits, batch["labels"], reduction="none", label_smoothing=shape["label_smoothing"])
    return losses, statistics, strays


def inception(weights, batch, shape, arithmetic):
    """As resnet()."""
    rounded, statistics, strays = arithmetic.activation, {}, {}

    def unit(x, name, stride=1, padding=None):
        weight = arithmetic.weight(weights[name + ".conv.weight"])
        half = tuple(size // 2 for size in weight.shape[2:])
        x = rounded(F.conv2d(x, weight, stride=stride, padding=half if padding is None else padding))
        bn = name + ".bn"
        running = [batch["buffers"][f"{bn}.{key}"].clone() for key in ("running_mean", "running_var")]
        x = F.batch_norm(x, *running, weights[bn + ".weight"], weights[bn + ".bias"], training=True, momentum=0.1, eps=1e-3)
        statistics[f"{bn}.running_mean"], statistics[f"{bn}.running_var"] = running
        if name not in batch["relu"]:
            return rounded(F.relu(x))
        passes = batch["relu"][name].permute(0, 3, 1, 2)
        strayed = passes != (x > 0)
        strays[name] = (int(strayed.sum()), float(torch.where(strayed, x.detach().abs(), 0.0).max()))
        followed = torch.where(passes, x, 0.0)
        return rounded(followed + (F.relu(x) - followed).detach())

    def module(x, name):
        kind = inception_units.kind_of(name)
        outputs, parts = {"x": x, "pooled": rounded(F.avg_pool2d(x, 3, 1, 1))}, []
        for part, source, stride, joined in inception_units.UNITS[kind]:
            outputs[part] = unit(outputs[source], f"{name}.{part}", stride, 0 if stride == 2 else None)
            parts += [outputs[part]] if joined else []
        return torch.cat(parts + ([max_pool(x, name, batch, strays)] if kind in "BD" else []), 1)

    def losses_of(features, name):
        logits = rounded(features) @ arithmetic.weight(weights[name + ".weight"]).T + arithmetic.weight(weights[name + ".bias"])
        return F.cross_entropy(logits, batch["labels"], reduction="none", label_smoothing=shape["label_smoothing"])

    x = rounded(batch["images"])
    for index, (name, padding, pool) in enumerate(inception_units.STEM):
        x = unit(x, name, shape["stem_stride"] if index == 0 else 1, padding)
        x = max_pool(x, name, batch, strays) if pool and shape["stem_pools"] else x
    for name in inception_units.modules(weights):
        if inception_units.kind_of(name) == "D":
            seen = unit(rounded(F.avg_pool2d(x, 5, 3)), "AuxLogits.conv0")
            auxiliary = losses_of(unit(seen, "AuxLogits.conv1", 1, 0).mean((2, 3)), "AuxLogits.fc")
        x = module(x, name)
    return losses_of(x.mean((2, 3)), "fc") + shape["auxiliary_weight"] * auxiliary, statistics, strays


def run(export, arithmetic, device):
    def on_device(array, real=True):
        tensor = torch.from_numpy(np.array(array)).to(device)
        return tensor.to(arithmetic.dtype) if real else tensor

    def to_numpy(tensors):
        return steps.to_float64({name: value.detach().cpu().numpy() for name, value in tensors.items()})

    weights = {name: on_device(value).requires_grad_() for name, value in export.weights.items()}
    batch = {name: on_device(value, name in ("images", "dense")) for name, value in export.batch.items()}
    batch["buffers"] = {name: on_device(value) for name, value in export.buffers.items()}
    for jumps in ("relu", "pools"):
        batch[jumps] = {name: on_device(value, False) for name, value in getattr(export, jumps).items()}
    losses, statistics, strays = OF_KIND[export.kind](weights, batch, export.shape, arithmetic)
    losses.mean().backward()
    gradients = {name: value.grad for name, value in weights.items()}
    return steps.Step(float(losses.mean().detach()), losses.detach().double().cpu().numpy(), to_numpy(gradients), to_numpy(statistics),
                      0.0, strays)


OF_KIND = {"bert": bert, "dlrm": dlrm, "gpt2": gpt2, "inception": inception, "llama": llama, "resnet": resnet}


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    good = True
    for folder in sys.argv[1:]:
        export = exported.read_export(folder)
        truth = run(export, Exact(), device)
        tolerance = (compare.Float32Tolerance() if export.precision == "float32" else
                     compare.Bf16Tolerance(export, truth, run(export, Bf16(), device)))
        findings = compare.compare(export, truth, tolerance)
        wrong = [finding for finding in findings if not finding.good]
        worst = max(findings, key=lambda finding: finding.error / finding.tolerance if finding.tolerance else finding.error)
        print(f"{'FAIL' if wrong else 'PASS'} {export.model} {export.precision}: {len(findings) - len(wrong)} of {len(findings)} findings are "
              f"within tolerance; worst {worst.what} {worst.name} {worst.error:.1e}, allowed {worst.tolerance:.1e}", flush=True)
        good = good and not wrong
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
