"""Inception-v3 (arXiv 1512.00567) with torchvision's names and layouts, auxiliary head included: NCHW, weights (out, in, kh, kw)."""

import jax
import jax.numpy as jnp

import inception_units
from arithmetic import Jumps

BATCH_NORM_EPSILON = 1e-3
BATCH_NORM_MOMENTUM = 0.1


def convolve(x, weight, stride, padding):
    """NHWC in and out, weight (out, in, kh, kw), padding (rows, columns): one matrix product for each position of the kernel, as in resnet.py."""
    rows, columns = weight.shape[2:]
    x = jnp.pad(x, ((0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)))
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    total = 0
    for i in range(rows):
        for j in range(columns):
            window = x[:, i:i + (height - 1) * stride + 1:stride, j:j + (width - 1) * stride + 1:stride, :]
            total = total + window @ weight[:, :, i, j].T
    return total


def average_pool(x, kernel, stride, padding):
    """Padding counts."""
    pads = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, kernel, kernel, 1), (1, stride, stride, 1), pads) / kernel**2


def loss(weights, batch, shape, arithmetic):
    """Mean label-smoothed cross-entropy plus auxiliary_weight times the auxiliary head's; further results as in resnet.py."""
    rounded = arithmetic.activation
    statistics, jumps = {}, Jumps(batch, arithmetic)

    def batch_norm(x, name):
        mean = x.mean((0, 1, 2))
        variance = ((x - mean) ** 2).mean((0, 1, 2))
        count = x.size // x.shape[-1]
        for key, value in (("running_mean", mean), ("running_var", variance * count / (count - 1))):
            old = batch["buffers"][f"{name}.{key}"]
            statistics[f"{name}.{key}"] = (1 - BATCH_NORM_MOMENTUM) * old + BATCH_NORM_MOMENTUM * value
        return (x - mean) * (weights[name + ".weight"] / jnp.sqrt(variance + BATCH_NORM_EPSILON)) + weights[name + ".bias"]

    def unit(x, name, stride=1, padding=None):
        """padding None: half the kernel."""
        weight = arithmetic.weight(weights[name + ".conv.weight"])
        half = tuple(size // 2 for size in weight.shape[2:])
        return jumps.relu(batch_norm(rounded(convolve(x, weight, stride, half if padding is None else padding)), name + ".bn"), name)

    def module(x, name):
        kind = inception_units.kind_of(name)
        outputs, parts = {"x": x}, []
        for part, source, stride, joined in inception_units.UNITS[kind]:
            if source == "pooled" and source not in outputs:
                outputs[source] = rounded(average_pool(x, 3, 1, 1))
            outputs[part] = unit(outputs[source], f"{name}.{part}", stride, (0, 0) if stride == 2 else None)
            if joined:
                parts.append(outputs[part])
        if kind in "BD":
            parts.append(jumps.max_pool(x, name))
        return jnp.concatenate(parts, axis=-1)

    def cross_entropy(features, name):
        logits = features @ arithmetic.weight(weights[name + ".weight"]).T + arithmetic.weight(weights[name + ".bias"])
        log_p = jax.nn.log_softmax(logits, axis=-1)
        hit = jnp.take_along_axis(log_p, batch["labels"][:, None], axis=-1)[:, 0]
        smoothing = shape["label_smoothing"]
        return -((1 - smoothing) * hit + smoothing * log_p.mean(-1)), logits

    x = rounded(batch["images"].transpose(0, 2, 3, 1))
    for index, (name, padding, pool) in enumerate(inception_units.STEM):
        x = unit(x, name, shape["stem_stride"] if index == 0 else 1, (padding, padding))
        if pool and shape["stem_pools"]:
            x = jumps.max_pool(x, name)
    auxiliary = None
    for name in inception_units.modules(weights):
        if inception_units.kind_of(name) == "D":
            seen = unit(rounded(average_pool(x, 5, 3, 0)), "AuxLogits.conv0")
            auxiliary = rounded(unit(seen, "AuxLogits.conv1", 1, (0, 0)).mean((1, 2)))
        x = module(x, name)
    losses, logits = cross_entropy(rounded(x.mean((1, 2))), "fc")
    losses = losses + shape["auxiliary_weight"] * cross_entropy(auxiliary, "AuxLogits.fc")[0]
    return losses.mean(), {"losses": losses, "logits": logits, "statistics": statistics, "margin": jumps.margin(), "strays": jumps.strays}
