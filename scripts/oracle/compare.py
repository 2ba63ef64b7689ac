"""Compares what was exported with what the framework computes: tensor by tensor, by normalised error ‖a − b‖ / ‖b‖."""

import math
from dataclasses import dataclass

import numpy as np

import step as stepping


@dataclass
class Finding:
    what: str
    name: str
    error: float
    tolerance: float
    note: str = ""

    @property
    def good(self):
        return bool(self.error <= self.tolerance)  # NaN is not good


def norm(x):
    return float(np.linalg.norm(np.asarray(x, np.float64).ravel()))


def split_packed(tensors):
    """c_attn packs query, key and value: compared apart, because the key's bias is a case of its own (see vanishing)."""
    parts = {}
    for name, value in tensors.items():
        if ".c_attn." in name:
            for part, piece in zip("query key value".split(), np.split(np.asarray(value), 3, axis=-1)):
                parts[f"{name}[{part}]"] = piece
        else:
            parts[name] = value
    return parts


def vanishing(gradients):
    """Names of the tensors whose true gradient is zero.

    A bias on the keys adds the same number to all scores of a row, and softmax does not see it: its gradient is exactly
    zero, in floating point the sum of many roundings. A relative error against it would compare noise with noise, so it is
    normalised by the whole gradient. Recognised by a float64 gradient 1e-9 under the others (root mean square)."""
    count = sum(g.size for g in gradients.values())
    typical = stepping.global_norm(gradients) / math.sqrt(count)
    return {name for name, g in gradients.items() if norm(g) / math.sqrt(g.size) < 1e-9 * typical}


def gradient_errors(gradients, truth):
    """Normalised error of each (split) tensor, and of "all" of them as one vector."""
    exact, other = split_packed(truth), split_packed(gradients)
    whole, zero = stepping.global_norm(exact), vanishing(exact)
    errors = {name: norm(other[name] - g) / (whole if name in zero else norm(g)) for name, g in exact.items()}
    errors["all"] = stepping.global_norm({name: other[name] - g for name, g in exact.items()}) / whole
    return errors, zero


def statistic_errors(updated, truth):
    """Running means are normalised by the channels' deviation too, so that a mean near zero is no division by it."""
    errors = {}
    for name, reference in truth.items():
        scale = norm(reference)
        if name.endswith("running_mean"):
            scale = math.hypot(scale, 0.1 * math.sqrt(np.sum(truth[name.replace("running_mean", "running_var")])))
        errors[name] = norm(updated[name] - reference) / scale
    return errors


class Float32Tolerance:
    """Loss 1e-5 relative, each gradient and each updated weight 1e-4.

    ResNet-50 at its initialisation amplifies a rounding error a hundredfold up to its last stage (measured on its batch
    statistics: 5e-8 in stage 1, 5e-6 in stage 4, in JAX's float32 as in ours), which leaves float32 at 1e-4 in that stage's
    gradients: 9e-5 for JAX, 1.2e-4 for us, on the same step. So where a gradient misses 1e-4, the framework's own float32 step
    is the `yardstick`: 1.5 times its error of that tensor is allowed, and the finding says so.

    A ReLU's input has deviation 1 (batch norm), and 1e-3
    of that is what float32 may lose over 50 layers: a unit on the other side of zero must be nearer to it than that."""

    loss, gradient_norm, farthest_stray, stray_share = 1e-5, 1e-4, 1e-3, 1e-3

    def __init__(self, truth=None, yardstick=None):
        self.own = gradient_errors(yardstick.gradients, truth.gradients)[0] if yardstick else {}

    def gradient(self, name):
        return max(1e-4, 1.5 * self.own.get(name, 0))

    def updated(self, _name):
        return 1e-4

    statistics = updated


class Bf16Tolerance:
    """What bf16 must lose, from two sides; the larger counts.

    Rounding: unit roundoff u = 2^-8. On the way through a network a value is rounded at each product's weight, its result
    and the norm or activation behind it, and as often on the way back: n = 6 · depth roundings of at most u, of random
    sign, which add up to about u·√n at most (their root mean square is 0.4·u each, so this is 2.4 standard deviations).

    Amplification: batch norm and residual sums enlarge errors from layer to layer (ResNet-50 at its initialisation by
    about ten), which no formula gives for a tensor. So the framework runs the step in simulated bf16 too (`yardstick`), and
    ours may have twice its error, tensor by tensor, and 1.5 times over all gradients.

    Loss: the yardstick's errors of single tokens or images, averaged: four standard deviations of that mean, and at least
    u / 4. A norm differs by no more than the vectors do (triangle inequality)."""

    # A ReLU that guesses its side would be off in half of its units.
    farthest_stray, stray_share = math.inf, 0.3

    def __init__(self, export, truth, yardstick):
        u = 2.0**-8
        if export.is_tokens:
            depth = 5 * len([name for name in export.weights if name.endswith("ln_1.weight")]) + 1  # 4 products, attention
        else:
            depth = 2 + 3 * len([name for name in export.weights if name.endswith("conv3.weight")])
        self.rounding = u * math.sqrt(6 * depth)
        self.gradient_errors, _ = gradient_errors(yardstick.gradients, truth.gradients)
        self.statistic_errors = statistic_errors(yardstick.statistics, truth.statistics)
        spread = np.sqrt(np.mean(np.square(yardstick.losses - truth.losses)) / len(truth.losses))
        self.loss = max(u / 4, 4 * spread / truth.loss)
        self.gradient_norm = self.gradient("all")

    def gradient(self, name):
        return max(self.rounding, (1.5 if name == "all" else 2) * self.gradient_errors[name])

    updated = gradient

    def statistics(self, name):
        return max(self.rounding, 2 * self.statistic_errors[name])


OPTIMIZER = 2e-6  # float32 rounding of a dozen operations (2^-24 each); master weights are float32 in every precision


def compare(export, truth, tolerance):
    """All findings; `truth` is the framework's float64 step."""
    findings = []

    def find(what, name, error, limit, note=""):
        findings.append(Finding(what, name, float(error), float(limit), note))

    whole = stepping.global_norm(truth.gradients)
    find("loss", "", abs(export.step["loss"] - truth.loss) / truth.loss, tolerance.loss)
    find("gradient_norm", "", abs(export.step["gradient_norm"] - whole) / whole, tolerance.gradient_norm)

    errors, zero = gradient_errors(export.gradients, truth.gradients)
    for name, error in errors.items():
        notes = ["true gradient is zero"] if name in zero else []
        if isinstance(tolerance, Float32Tolerance) and error > 1e-4 and name in tolerance.own:
            notes.append(f"over 1e-4; the framework's own float32: {tolerance.own[name]:.1e}")
        find("gradient", name, error, tolerance.gradient(name), ", ".join(notes))

    # The optimizer alone, then end to end. AdamW's first step is lr · sign(g), and where g is smaller than the error
    # granted to it (four standard deviations), the sign is anybody's: there only the size of the step is asked for. That
    # it follows the exported gradient, sign and all, is what "optimizer" asks.
    updated = split_packed({name: export.updated[name] for name in export.weights})
    for name, reference in split_packed(stepping.update(export, export.gradients)).items():
        find("optimizer", name, norm(updated[name] - reference) / norm(reference), OPTIMIZER)
    optimizer, exact, initial = export.step["optimizer"], split_packed(truth.gradients), split_packed(export.weights)
    for name, reference in split_packed(stepping.update(export, truth.gradients)).items():
        asked, note = np.ones(reference.shape, bool), ""
        if optimizer["kind"] == "adamw":
            noise = tolerance.gradient(name) * norm(exact[name]) / math.sqrt(reference.size)
            asked = (np.abs(exact[name]) > 4 * noise) & (name not in zero)
            note = "" if asked.all() else f"{1 - asked.mean():.2%} by size only"
            size = np.abs(initial[name].astype(np.float64))
            limit = 1.001 * optimizer["learning_rate"] * (1 + optimizer["weight_decay"] * size) + 1e-7 * size
            if np.any((np.abs(updated[name] - initial[name].astype(np.float64)) > limit)[~asked]):
                find("updated", name, math.inf, tolerance.updated(name), "a longer step than AdamW takes")
        error = norm((updated[name] - reference)[asked]) / norm(reference[asked]) if asked.any() else 0.0
        find("updated", name, error, tolerance.updated(name), note)

    for name, error in statistic_errors(export.updated, truth.statistics).items():
        find("statistics", name, error, tolerance.statistics(name))
    for name, (count, farthest) in truth.strays.items():
        find("relu_strays", name, count / export.relu[name].size, tolerance.stray_share, f"{count}, farthest {farthest:.1e}")
        if farthest > tolerance.farthest_stray:
            find("relu_strays", name, farthest, tolerance.farthest_stray, "on the other side of zero, and not near it")
    return findings
