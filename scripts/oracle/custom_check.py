#!/usr/bin/env python3
"""Compares exported float32 steps of networks that a file describes (--model custom) with PyTorch: custom_check.py FOLDER...

The network is built again from the file of layers in step.json, by PyTorch's operators in float64, and its loss and gradients are
computed from the exported weights and batch. The derivative of a ReLU at a unit near zero is that of the exported side, that
of a max pool goes to the exported element, as in torch_check.py. Prints a line "PASS …" or "FAIL …" for each folder.
Exit code 0: loss within 1e-5 and each gradient within 1e-4, 1: not, 77: NumPy or PyTorch is not installed."""

import json
import sys
from pathlib import Path

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import compare
import exported
import steps
import torch_pools

LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4


def channels_last(x):
    """Images are (batch, channels, height, width) here; linear layers and row norms want the channels last."""
    return x.movedim(1, -1) if x.dim() == 4 else x


def as_before(y, x):
    return y.movedim(-1, 1) if x.dim() == 4 else y


class Network:
    def __init__(self, layers_file, weights, relu):
        self.layers, self.w, self.sides = layers_file["layers"], weights, relu
        self.strays, self.places, self.farthest = 0, 0, 0.0  # units and windows that lie otherwise, all of them, distance

    def relu(self, x, name):
        """The value of a ReLU with the derivative of the exported side, where that was exported."""
        side = next((value for key, value in self.sides.items() if key.split("/")[-1] == f"relu.{name}" or key == f"{name}/output"), None)
        if side is None:
            return F.relu(x)
        passes = as_before(torch.from_numpy(np.array(side) > 0), x)
        strayed = passes != (x > 0)
        self.count(int(strayed.sum()), strayed.numel(), float(torch.where(strayed, x.detach().abs(), 0.0).max()))
        followed = torch.where(passes, x, 0.0)
        return followed + (F.relu(x) - followed).detach()

    def count(self, strays, places, farthest):
        self.strays, self.places = self.strays + strays, self.places + places
        self.farthest = farthest if not farthest <= self.farthest else self.farthest

    def max_pool(self, x, layer, name):
        """Likewise, with the exported element of each window."""
        sizes = layer["kernel"], layer.get("stride"), layer.get("padding", 0)
        places = next((value for key, value in self.sides.items() if key.split("/")[-1] == f"argmax.{name}"), None)
        if places is None:
            return F.max_pool2d(x, *sizes)
        y, (strays, farthest) = torch_pools.follow(x, places, *sizes)
        self.count(strays, y.numel(), farthest)
        return y

    def linear(self, x, name):
        return as_before(F.linear(channels_last(x), self.w[f"{name}.weight"], self.w.get(f"{name}.bias")), x)

    def attention(self, x, layer, name):
        packed = channels_last(self.linear(x, f"{name}.qkv"))
        rows = packed.flatten(1, -2)
        heads, kv_heads = layer["heads"], layer.get("kv_heads", layer["heads"])
        head_dim = rows.shape[-1] // (heads + 2 * kv_heads)
        q, k, v = (part.unflatten(-1, (-1, head_dim)).transpose(1, 2)
                   for part in rows.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=layer.get("causal", False), enable_gqa=True)
        attended = attended.transpose(1, 2).flatten(2).unflatten(1, packed.shape[1:-1])
        return self.linear(as_before(attended, x), f"{name}.out")

    def apply(self, layer, name, x, others):
        kind, w = layer["layer"], self.w
        if kind == "embedding":
            y = w[f"{name}.weight"][x]
            return y + w[f"{name}.positions"][: x.shape[1]] if layer.get("positions") else y
        if kind == "linear":
            return self.linear(x, name)
        if kind in ("convolution", "transposed_convolution"):
            run = F.conv2d if kind == "convolution" else F.conv_transpose2d
            return run(x, w[f"{name}.weight"], w.get(f"{name}.bias"), stride=layer.get("stride", 1), padding=layer.get("padding", 0), groups=layer.get("groups", 1))
        if kind == "upsample":
            factor = layer["factor"]
            return F.interpolate(x, scale_factor=tuple(factor) if isinstance(factor, list) else factor, mode="nearest")
        if kind == "batch_norm":
            rows = x if x.dim() != 3 else x.transpose(1, 2)
            y = F.batch_norm(rows, None, None, w[f"{name}.weight"], w[f"{name}.bias"], training=True, eps=layer.get("epsilon", 1e-5))
            y = y if x.dim() != 3 else y.transpose(1, 2)
            return self.relu(y, name) if layer.get("relu") else y
        if kind in ("layer_norm", "rms_norm"):
            rows, width, epsilon = channels_last(x), (w[f"{name}.weight"].numel(),), layer.get("epsilon", 1e-5)
            if kind == "rms_norm":
                return as_before(F.rms_norm(rows, width, w[f"{name}.weight"], eps=epsilon), x)
            return as_before(F.layer_norm(rows, width, w[f"{name}.weight"], w[f"{name}.bias"], eps=epsilon), x)
        if kind == "activation":
            return {"relu": lambda t: self.relu(t, name), "gelu": F.gelu, "tanh": torch.tanh}[layer["function"]](x)
        if kind == "swiglu":
            gate, up = channels_last(x).chunk(2, -1)
            return as_before(F.silu(gate) * up, x)
        if kind == "max_pool":
            return self.max_pool(x, layer, name)
        if kind == "average_pool":
            return F.avg_pool2d(x, layer["kernel"], layer.get("stride"), layer.get("padding", 0))
        if kind == "global_average_pool":
            return x.mean((2, 3)) if x.dim() == 4 else x.mean(1)
        if kind == "flatten":
            return channels_last(x).flatten(1)
        if kind == "attention":
            return self.attention(x, layer, name)
        if kind == "residual":
            return x + others[0]
        if kind == "concatenation":
            return torch.cat([x, *others], 1 if x.dim() == 4 else -1)
        exported.fail(1, "unsupported", f"no PyTorch for the layer {kind}")

    def loss(self, x, targets):
        values = {"input": x}
        for index, layer in enumerate(self.layers):
            name = layer.get("name", f"layer{index}")
            x = values[layer["from"]] if "from" in layer else x
            if layer["layer"] == "loss":
                logits = channels_last(self.linear(x, name)).flatten(0, -2)
                return F.cross_entropy(logits, targets.flatten(), label_smoothing=layer.get("label_smoothing", 0.0))
            if layer["layer"] == "mean_squared_error":
                return F.mse_loss(x, targets.double())
            others = layer.get("with", [])
            x = values[name] = self.apply(layer, name, x, [values[one] for one in ([others] if isinstance(others, str) else others)])
        exported.fail(1, "wrong-export", "the file has no loss")


def check(folder):
    step = json.loads((folder / "step.json").read_text())
    if step["model"]["kind"] != "custom" or step["precision"] != "float32":
        exported.fail(1, "wrong-export", f"{folder}: wanted a float32 step of --model custom, not {step['precision']} of {step['model']['kind']}")
    gradients = exported.load_file(folder / "gradients.safetensors")
    weights = {name: torch.from_numpy(value.copy()).double().requires_grad_()
               for name, value in exported.load_file(folder / "weights.safetensors").items() if name in gradients}
    batch = {name: torch.from_numpy(np.array(value)) for name, value in exported.load_file(folder / "batch.safetensors").items()}
    sides = folder / "relu.safetensors"
    network = Network(json.loads(step["model"]["layers_json"]), weights, exported.load_file(sides) if sides.exists() else {})
    inputs = batch["input_ids"] if "input_ids" in batch else batch["series" if "series" in batch else "images"].double()
    loss = network.loss(inputs, batch["labels" if "labels" in batch else "targets"])
    loss.backward()
    missing = sorted(name for name, weight in weights.items() if weight.grad is None)
    if missing or set(weights) != set(gradients):
        exported.fail(1, "wrong-export", f"{folder}: parameters that PyTorch's network does not have: {missing or sorted(set(weights) ^ set(gradients))}")
    references = {name: weight.grad.numpy() for name, weight in weights.items()}
    zero, whole = compare.vanishing(references), steps.global_norm(references)
    loss_error = abs(step["loss"] - loss.item()) / loss.item()
    worst, worst_name = 0.0, ""
    for name, ours in gradients.items():
        difference = compare.norm(ours - references[name])
        error = difference / (whole if name in zero else compare.norm(references[name]))
        if not error <= worst:
            worst, worst_name = error, name
    share, farthest = compare.Float32Tolerance.strays["pool_strays"]
    follows = network.strays <= share * network.places and network.farthest <= farthest
    good = loss_error <= LOSS_TOLERANCE and worst <= GRADIENT_TOLERANCE and follows
    print(f"{'PASS' if good else 'FAIL'} {step['model']['name']}, {sum(w.numel() for w in weights.values()):,} parameters: "
          f"loss {step['loss']:.7f} and {loss.item():.7f}, error {loss_error:.1e}; {len(weights)} gradients, worst {worst:.1e} "
          f"({worst_name}); {network.strays} ReLU units and max-pool windows differ from the export, by {network.farthest:.1e} at most", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if all([check(Path(folder)) for folder in sys.argv[1:]]) else 1)
