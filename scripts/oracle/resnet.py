"""ResNet v1.5 (arXiv 1512.03385; stride in the 3×3) with torchvision's names and layouts: NCHW, weights (out, in, kh, kw)."""

import jax
import jax.numpy as jnp

from arithmetic import Jumps

BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.1


def convolve(x, weight, stride):
    """NHWC in and out, weight (out, in, k, k), padding k // 2: one matrix product for each position of the kernel.

    XLA's float64 convolution on CPU is a plain loop, 50 times slower than its matrix product."""
    kernel = weight.shape[2]
    pad = kernel // 2
    x = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    height = (x.shape[1] - kernel) // stride + 1
    width = (x.shape[2] - kernel) // stride + 1
    total = 0
    for i in range(kernel):
        for j in range(kernel):
            window = x[:, i : i + (height - 1) * stride + 1 : stride, j : j + (width - 1) * stride + 1 : stride, :]
            total = total + window @ weight[:, :, i, j].T
    return total


def loss(weights, batch, shape, arithmetic):
    """Mean label-smoothed cross-entropy, and further results of a step (training mode):

    "losses", "logits": of each image. "statistics": running means and variances after the batch. "margin", "strays": of the ReLUs and
    the max pool (Jumps), whose derivatives follow batch["relu"] and batch["pools"] (NHWC).
    """
    rounded = arithmetic.activation
    statistics, jumps = {}, Jumps(batch, arithmetic)

    def conv(x, name, stride=1):
        return rounded(convolve(x, arithmetic.weight(weights[name + ".weight"]), stride))

    def batch_norm(x, name):
        mean = x.mean((0, 1, 2))
        variance = ((x - mean) ** 2).mean((0, 1, 2))
        count = x.size // x.shape[-1]
        for key, value in (("running_mean", mean), ("running_var", variance * count / (count - 1))):
            old = batch["buffers"][f"{name}.{key}"]
            statistics[f"{name}.{key}"] = (1 - BATCH_NORM_MOMENTUM) * old + BATCH_NORM_MOMENTUM * value
        scale = weights[name + ".weight"] / jnp.sqrt(variance + BATCH_NORM_EPSILON)
        return (x - mean) * scale + weights[name + ".bias"]

    def bottleneck(x, name, stride):
        shortcut = x
        if f"{name}.downsample.0.weight" in weights:
            shortcut = rounded(batch_norm(conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1"))
        y = jumps.relu(batch_norm(conv(x, f"{name}.conv1"), f"{name}.bn1"), f"{name}.bn1")
        y = jumps.relu(batch_norm(conv(y, f"{name}.conv2", stride), f"{name}.bn2"), f"{name}.bn2")
        return jumps.relu(batch_norm(conv(y, f"{name}.conv3"), f"{name}.bn3") + shortcut, name)

    x = rounded(batch["images"].transpose(0, 2, 3, 1))
    x = jumps.relu(batch_norm(conv(x, "conv1", shape["stem_stride"]), "bn1"), "bn1")
    if shape["stem_pool"]:
        x = jumps.max_pool(x, "maxpool", 1)
    stage = 1
    while f"layer{stage}.0.conv1.weight" in weights:
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in weights:
            x = bottleneck(x, f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1)
            block += 1
        stage += 1
    x = rounded(x.mean((1, 2)))
    logits = x @ arithmetic.weight(weights["fc.weight"]).T + arithmetic.weight(weights["fc.bias"])
    log_p = jax.nn.log_softmax(logits, axis=-1)
    hit = jnp.take_along_axis(log_p, batch["labels"][:, None], axis=-1)[:, 0]
    smoothing = shape["label_smoothing"]
    losses = -((1 - smoothing) * hit + smoothing * log_p.mean(-1))
    return losses.mean(), {"losses": losses, "logits": logits, "statistics": statistics, "margin": jumps.margin(),
                           "strays": jumps.strays}
