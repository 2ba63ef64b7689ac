"""A training step and its optimizer update in float64 NumPy, for gradients from any framework."""

from dataclasses import dataclass

import numpy as np

import exported


@dataclass
class Step:
    loss: float
    losses: np.ndarray  # of each token or image
    gradients: dict
    statistics: dict   # batch norm's running statistics after the step
    margin: float      # how near a ReLU or max pool is to its jump (arithmetic.Jumps)
    strays: dict       # ReLU or max pool → (units or windows that lie otherwise than exported, farthest of them)


def to_float64(tree):
    return {name: np.asarray(value, np.float64) for name, value in tree.items()}


def global_norm(tensors):
    return float(np.sqrt(sum(float(np.sum(np.square(t))) for t in tensors.values())))


def reported_norm(gradients):
    """Of what step.json calls gradient_norm: all but the rows of tables, which no norm clips."""
    return global_norm({name: gradient for name, gradient in gradients.items() if not name.startswith("emb_l.")})


def weight_steps(export, gradients):
    """Updated − initial weights of the first optimizer step, from zero state, in float64, in PyTorch's forms of AdamW
    (arXiv 1711.05101) and SGD. Which weights decay is the network's rule, not taken from the export."""
    o = export.step["optimizer"]
    lr = o["learning_rate"]
    norm = global_norm(gradients)
    clip = min(1.0, o["clip_norm"] / norm) if o["clip_norm"] > 0 else 1.0
    steps = {}
    for name, weight in export.weights.items():
        w, g = weight.astype(np.float64), np.asarray(gradients[name], np.float64) * clip
        decay = o["weight_decay"] * w if export.rules.is_decayed(name) else 0.0
        if o["kind"] == "adamw":
            m, v = (1 - o["beta1"]) * g, (1 - o["beta2"]) * g * g
            steps[name] = -lr * ((m / (1 - o["beta1"])) / (np.sqrt(v / (1 - o["beta2"])) + o["epsilon"]) + decay)
        elif o["kind"] == "sgd":
            steps[name] = -lr * (g + decay)
        else:
            exported.fail(1, "unsupported", f"unknown optimizer {o['kind']}")
    return steps
