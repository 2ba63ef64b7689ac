"""Compares an exported step with the framework's, tensor by tensor, by normalised error ‖a − b‖ / ‖b‖."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import inception_units
import steps as stepping


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
    """c_attn packs query, key and value. They are compared separately, because the key's bias is a special case (see vanishing)."""
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

    A bias on the keys adds the same number to all scores of a row, which softmax ignores: its gradient is exactly zero, and in
    floating point the sum of many rounding errors. A relative error would compare noise with noise, so its error is normalised by
    the whole gradient. Such tensors are those whose float64 gradient is 1e-9 of the others (root mean square)."""
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
    """Running means are also normalised by the channels' deviation, to avoid a division by a mean near zero."""
    errors = {}
    for name, reference in truth.items():
        scale = norm(reference)
        if name.endswith("running_mean"):
            scale = math.hypot(scale, 0.1 * math.sqrt(np.sum(truth[name.replace("running_mean", "running_var")])))
        errors[name] = norm(updated[name] - reference) / scale
    return errors


class Strays(NamedTuple):
    """Of a ReLU or max pool: how many units or windows may lie otherwise than exported, and how far from the jump."""
    share: float
    farthest: float


class Float32Tolerance:
    """Loss 1e-5 relative, each gradient and each weight 1e-4, without exception.

    A ReLU's input has deviation 1 (batch norm), and float32 may lose 1e-3 of that over 50 layers. A unit on the other side of zero
    must therefore be within 1e-3 of zero, and the element that a max pool took within 1e-3 of the greatest."""

    loss, gradient_norm = 1e-5, 1e-4
    strays = {"relu_strays": Strays(1e-3, 1e-3), "pool_strays": Strays(1e-3, 1e-3)}

    def gradient(self, _name):
        return 1e-4

    updated = statistics = gradient


class Bf16Tolerance:
    """The error that bf16 cannot avoid, as the larger of two estimates.

    Rounding: unit roundoff u = 2^-8. In the forward pass a value is rounded at each product's weight, at its result and at the
    following norm or activation, and as often in the backward pass: n = 6 · depth roundings of at most u with random sign. Their sum
    is at most about u·√n (each has a root mean square of 0.4·u, so this is 2.4 standard deviations).

    Amplification: batch norm and residual sums amplify errors from layer to layer (ResNet-50 at its initialisation by about ten).
    There is no formula for it per tensor. The framework therefore also runs the step in simulated bf16 (`yardstick`), and trainwatt
    may have twice its error for each tensor, and 1.5 times its error over all gradients.

    Loss: four standard deviations of the mean of the yardstick's errors of single tokens or images, at least u / 4. Norms differ by
    at most the difference of the vectors (triangle inequality)."""

    # A ReLU with random sides would differ in half of its units. A max pool takes another element where two differ by less than the
    # rounding of the layers in front of them. Measured, at most: inception-tiny 4 % of the windows, by 0.22; five modules of Inception-v3 5 %,
    # by 0.61; ResNet-50 0.3 %, by 0.02. A pool that sends a quarter of the gradients to any element of the window: 28 %, by 5.
    strays = {"relu_strays": Strays(0.3, math.inf), "pool_strays": Strays(0.1, 1.0)}

    def __init__(self, export, truth, yardstick):
        u = 2.0**-8
        if export.is_tokens:
            layers = [name for name in export.weights if name.endswith((".ln_1.weight", ".input_layernorm.weight",
                                                                               ".intermediate.dense.weight"))]
            depth = 5 * len(layers) + 1  # 4 products, attention
        elif export.kind == "inception":
            depth = len(inception_units.STEM) + 1 + sum(inception_units.DEPTH[inception_units.kind_of(name)]
                                                        for name in inception_units.modules(export.weights))
        else:
            depth = 2 + 3 * len([name for name in export.weights if name.endswith("conv3.weight")])
            depth += len([name for name in export.weights if name.startswith(("bot_l.", "top_l.")) and name.endswith(".weight")])
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


# The error that float32 may have in the optimizer (master weights are float32 in every precision): each weight about half a
# unit of its last place, its step a dozen operations.
WEIGHT_ROUNDING, STEP_ROUNDING = 2.0**-23, 2e-6


def norm_ratio(a, b):
    return norm(a) / norm(b) if norm(b) > 0 else (0.0 if norm(a) == 0 else math.inf)


def optimizer_findings(export):
    """The optimizer alone: the exported weights against the step computed from the exported gradients.

    "optimizer": the worst element of updated − initial, in units of its allowed rounding error. Weight decay can be smaller than
    that (ResNet-50: 3e-8 of a weight), but it points along the weights, and rounding does not. "decay" is the part of the
    deviation along the weights, Σ d·w / Σ w·w. Allowed are five standard deviations of rounding and the rounding of the step.

    AdamW rounds a weight twice: uniformly within a unit of its last place, and 1 − lr·λ. SGD rounds it once. Of steps below a unit
    (Inception's first) that is not uniform and does point along the weights: how many are lost depends on where a weight stands
    between two powers of two. SGD's deviation is therefore that from the weight rounded as it should be. It is not 0 where the
    rounding of the step carries a weight across the middle of two numbers, which has the probability 2·STEP_ROUNDING·step/unit."""
    optimizer = export.step["optimizer"]
    decayed = set(filter(export.rules.is_decayed, export.weights))
    wrong = decayed ^ set(optimizer["weight_decay_parameters"])
    yield "decay set", "", len(wrong), 0, "wrongly declared: " + ", ".join(sorted(wrong)) if wrong else ""
    references = split_packed(stepping.weight_steps(export, export.gradients))
    initial, updated = split_packed(export.weights), split_packed({name: export.updated[name] for name in export.weights})
    whole = optimizer["learning_rate"] * optimizer["weight_decay"]
    for name, reference in references.items():
        w, after = initial[name].astype(np.float64), updated[name].astype(np.float64)
        deviation = after - w - reference
        allowed = STEP_ROUNDING * np.abs(reference) + WEIGHT_ROUNDING * np.maximum(np.abs(w), np.abs(after))
        off = deviation != 0  # NaN too; 0 / 0 if no error is allowed and there is none
        with np.errstate(divide="ignore"):
            yield "optimizer", name, np.max(np.abs(deviation[off]) / allowed[off], initial=0), 1, "of rounding"
        square = np.sum(w * w)
        if square > 0:
            unit = np.spacing(np.abs(updated[name])).astype(np.float64)
            variance = 1 / 12
            if optimizer["kind"] == "sgd":
                deviation = after - (w + reference).astype(np.float32)
                variance = np.minimum(2 * STEP_ROUNDING * np.abs(reference) / unit, 1 / 12)
            limit = (5 * np.sqrt(np.sum(variance * unit**2 * w * w)) + STEP_ROUNDING * abs(np.sum(reference * w))) / square
            limit += 2.0**-24 if optimizer["kind"] == "adamw" else 0
            yield "decay", name, abs(np.sum(deviation * w)) / square, limit, f"decay is {whole:.1e}"


def step_findings(export, truth, tolerance):
    """End to end: "updated" weights, and the "step" that led to them; in the weights, a thousand times larger, it would be invisible.

    AdamW's first step is lr · sign(g). If g is smaller than its allowed error (four standard deviations), the sign is not
    determined, and only the size of the step is compared. optimizer_findings checks every step, including its sign, against the
    exported gradient."""
    optimizer, exact, initial = export.step["optimizer"], split_packed(truth.gradients), split_packed(export.weights)
    updated, zero = split_packed({name: export.updated[name] for name in export.weights}), vanishing(exact)
    for name, reference in split_packed(stepping.weight_steps(export, truth.gradients)).items():
        w, note = initial[name].astype(np.float64), ""
        moved, asked = updated[name] - w, np.ones(reference.shape, bool)
        if optimizer["kind"] == "adamw":
            # Errors are distributed as gradients are: in an embedding the rows of frequent tokens have most of both.
            g = exact[name]
            rows = np.sqrt(np.mean(g * g, axis=-1, keepdims=True))
            noise = tolerance.gradient(name) * np.maximum(rows, norm(g) / math.sqrt(g.size))
            asked = (np.abs(g) > 4 * noise) & (name not in zero)
            note = "" if asked.all() else f"{1 - asked.mean():.2%} by size only"
            limit = 1.001 * optimizer["learning_rate"] * (1 + optimizer["weight_decay"] * np.abs(w))
            limit += WEIGHT_ROUNDING * np.abs(w)
            if not np.all((np.abs(moved) <= limit)[~asked]):
                yield "step", name, math.inf, tolerance.updated(name), "a longer step than AdamW takes"
        deviation = (moved - reference)[asked]
        yield "updated", name, norm_ratio(deviation, (w + reference)[asked]), tolerance.updated(name), note
        slack = WEIGHT_ROUNDING * norm_ratio(w[asked], reference[asked]) if asked.any() else 0
        yield "step", name, norm_ratio(deviation, reference[asked]), tolerance.updated(name) + slack, note


def compare(export, truth, tolerance):
    """All findings; `truth` is the framework's float64 step."""
    findings = []

    def find(what, name, error, limit, note=""):
        findings.append(Finding(what, name, float(error), float(limit), note))

    whole = stepping.reported_norm(truth.gradients)
    find("loss", "", abs(export.step["loss"] - truth.loss) / truth.loss, tolerance.loss)
    find("gradient_norm", "", abs(export.step["gradient_norm"] - whole) / whole, tolerance.gradient_norm)
    errors, zero = gradient_errors(export.gradients, truth.gradients)
    for name, error in errors.items():
        find("gradient", name, error, tolerance.gradient(name), "true gradient is zero" if name in zero else "")
    for finding in optimizer_findings(export):
        find(*finding)
    for finding in step_findings(export, truth, tolerance):
        find(*finding)
    for name, error in statistic_errors(export.updated, truth.statistics).items():
        find("statistics", name, error, tolerance.statistics(name))
    for name, (count, farthest) in truth.strays.items():
        is_pool = name in export.pools
        what, size = ("pool_strays", export.pools[name].size) if is_pool else ("relu_strays", export.relu[name].size)
        allowed = tolerance.strays[what]
        find(what, name, count / size, allowed.share, f"{count}, farthest {farthest:.1e}")
        if not farthest <= allowed.farthest:
            find(what, name, farthest, allowed.farthest,
                 "not the greatest of its window, and not near it" if is_pool else "on the other side of zero, and not near it")
    return findings
