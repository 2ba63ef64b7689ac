#!/usr/bin/env python3
"""Trains the tasks to their targets in JAX, float32, over several seeds, and writes the curves that runs are compared with.

FILE of --tasks is what `trainwatt models --json` prints: tasks, shapes and schedules come from there, the arithmetic and the
rest of the recipe from the modules beside this one, which were written from the papers. Data come from the same distributions with
other random numbers (sources.py). A run continues for another quarter of its steps after reaching the target, so that its curve
also covers slightly stricter targets.
"""

import argparse
import functools
import json
import math
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gpt2
import resnet
import rules
import sources
from arithmetic import Exact


class Float32(Exact):
    dtype = jnp.float32


def gpt2_weights(shape, rng):
    """Radford et al. 2019, as released: normal(0.02), positions normal(0.01); projections into the residual stream smaller
    by √(2·layers), as the paper has it."""
    width, layers = shape["width"], shape["layers"]
    weights = {}

    def matrix(name, rows, columns, scale=1.0):
        weights[name] = rng.normal(0, 0.02 * scale, (rows, columns))

    def linear(name, inputs, outputs, scale=1.0):
        matrix(name + ".weight", inputs, outputs, scale)
        weights[name + ".bias"] = np.zeros(outputs)

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = np.ones(width), np.zeros(width)

    matrix("wte.weight", shape["vocabulary"], width)
    matrix("wpe.weight", shape["max_seq"], width, 0.5)
    residual = 1 / math.sqrt(2 * layers)
    for layer in range(layers):
        h = f"h.{layer}."
        norm(h + "ln_1")
        linear(h + "attn.c_attn", width, 3 * width)
        linear(h + "attn.c_proj", width, width, residual)
        norm(h + "ln_2")
        linear(h + "mlp.c_fc", width, 4 * width)
        linear(h + "mlp.c_proj", 4 * width, width, residual)
    norm("ln_f")
    return weights


def resnet_weights(shape, rng):
    """torchvision's: convolutions by He et al. (arXiv 1502.01852, fan-out), the classifier by Goyal et al. (arXiv 1706.02677)."""
    weights = {}

    def convolution(name, inputs, outputs, kernel):
        weights[name + ".weight"] = rng.normal(0, math.sqrt(2 / (outputs * kernel**2)), (outputs, inputs, kernel, kernel))

    def norm(name, channels):
        weights[name + ".weight"], weights[name + ".bias"] = np.ones(channels), np.zeros(channels)

    inputs, width = shape["stem_width"], shape["stem_width"]
    convolution("conv1", shape["image_channels"], width, shape["stem_kernel"])
    norm("bn1", width)
    for stage, blocks in enumerate(shape["blocks"], 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            for index, (rows, columns, kernel) in enumerate(((inputs, width, 1), (width, width, 3), (width, 4 * width, 1)), 1):
                convolution(f"{name}.conv{index}", rows, columns, kernel)
                norm(f"{name}.bn{index}", columns)
            if block == 0:
                convolution(f"{name}.downsample.0", inputs, 4 * width, 1)
                norm(f"{name}.downsample.1", 4 * width)
            inputs = 4 * width
        width *= 2
    weights["fc.weight"] = rng.normal(0, 0.01, (shape["classes"], inputs))
    weights["fc.bias"] = np.zeros(shape["classes"])
    return weights


def learning_rate(recipe, step):
    """Linear warm-up, then one cosine to the final share (arXiv 1608.03983), which holds from then on."""
    peak, warmup, decay, share = (recipe[key] for key in ("learning_rate", "warmup_steps", "decay_steps", "final_share"))
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, decay - warmup))
    return peak * (share + (1 - share) * 0.5 * (1 + math.cos(math.pi * progress)))


class Unread(dict):
    """Batch norm's running statistics, which nothing here reads."""

    def __missing__(self, name):
        return jnp.float32(0)


@functools.cache
def functions(is_tokens, shape_json):
    """The jitted step and evaluation of a network; compiled once for each micro-batch."""
    shape = json.loads(shape_json)
    network = gpt2 if is_tokens else resnet
    o = network.OPTIMIZER

    def objective(weights, group):
        return network.loss(weights, dict(group, buffers=Unread(), relu={}), shape, Float32())

    def mean_loss(weights, groups):  # of all micro-batches of a step
        return jax.vmap(lambda w, group: objective(w, group)[0], (None, 0))(weights, groups).mean()

    @jax.jit
    def step(weights, first, second, groups, rate, t):
        gradients = jax.grad(mean_loss)(weights, groups)
        norm = jnp.sqrt(sum((g**2).sum() for g in gradients.values()))
        clip = jnp.minimum(1.0, o["clip_norm"] / norm) if o["clip_norm"] > 0 else 1.0
        new = ({}, {}, {})
        for name, w in weights.items():
            g, decay = gradients[name] * clip, o["weight_decay"] * w if network.is_decayed(name) else 0.0
            if o["kind"] == "adamw":
                m = o["beta1"] * first[name] + (1 - o["beta1"]) * g
                v = o["beta2"] * second[name] + (1 - o["beta2"]) * g * g
                w = w - rate * (m / (1 - o["beta1"] ** t) / (jnp.sqrt(v / (1 - o["beta2"] ** t)) + o["epsilon"]) + decay)
            else:
                m, v = o["momentum"] * first[name] + g + decay, second[name]
                w = w - rate * m
            for kept, value in zip(new, (w, m, v)):
                kept[name] = value.astype(jnp.float32)
        return new

    def one(weights, group):
        loss, extra = objective(weights, group)
        return loss if is_tokens else (extra["logits"].argmax(-1) != group["labels"]).mean()

    @jax.jit
    def evaluate(weights, groups):
        return jax.lax.map(lambda group: one(weights, group), groups).mean()

    return step, evaluate


class Training:
    """One network's weights, optimizer state and data, in float32."""

    def __init__(self, task, shape, recipe, micro_batch, seed):
        self.task, self.recipe, self.micro_batch = task, recipe, micro_batch
        self.network = gpt2 if task["metric"] == "excess_loss" else resnet
        is_tokens = self.network is gpt2
        rng = np.random.default_rng([seed, 0])
        source = (sources.Tokens(shape["vocabulary"], task["seq_len"]) if is_tokens
                  else sources.Gratings(shape["image_size"], shape["image_channels"], shape["classes"]))
        self.source = source.drawn(rng)
        self.rng = np.random.default_rng([seed, 1])
        weights = (gpt2_weights if is_tokens else resnet_weights)(shape, rng)
        self.weights = {name: jnp.asarray(value, jnp.float32) for name, value in weights.items()}
        self.first = {name: jnp.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: jnp.zeros_like(value) for name, value in self.weights.items()}
        held_out = self.source.batch(np.random.default_rng([seed, 2]), task["held_out_samples"], held_out=True)
        self.held_out = self.groups(held_out)
        self.done = 0
        self.step_function, self.evaluate_function = functions(is_tokens, json.dumps(shape))

    def groups(self, batch):
        """Batch norm sees one micro-batch at a time: (groups, micro_batch, …)."""
        return {name: jnp.asarray(value.reshape(-1, self.micro_batch, *value.shape[1:])) for name, value in batch.items()}

    def step(self):
        groups = self.groups(self.source.batch(self.rng, self.task["global_batch"]))
        rate = np.float32(learning_rate(self.recipe, self.done))
        self.done += 1
        self.weights, self.first, self.second = self.step_function(self.weights, self.first, self.second, groups, rate,
                                                                   np.float32(self.done))

    def metric(self):
        value = float(self.evaluate_function(self.weights, self.held_out))
        return value - self.source.floor if self.network is gpt2 else value


def curve(training):
    """The metric at each evaluation, up to a quarter of the steps after reaching the target."""
    task, values, end = training.task, [], training.task["most_steps"]
    for step in range(1, task["most_steps"] + 1):
        training.step()
        if step % task["evaluation_interval"] == 0:
            values.append(round(training.metric(), 5))
            if values[-1] <= task["target"]:
                end = min(end, step + step // 4)
            if step >= end:
                break
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", required=True, help="what `trainwatt models --json` prints")
    parser.add_argument("--out", required=True, help="folder for TASK.json")
    parser.add_argument("--task", help="names, comma-separated (all)")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--micro-batch", help="of networks with batch norm, comma-separated (each half of the global batch down to 8)")
    arguments = parser.parse_args()
    catalog = json.loads(Path(arguments.tasks).read_text())
    for task in catalog["tasks"]:
        if arguments.task and task["name"] not in arguments.task.split(","):
            continue
        shape = next(model["sizes"] for model in catalog["models"] if model["name"] == task["model"])
        global_batch = task["global_batch"]
        if task["metric"] == "excess_loss":
            sizes = [global_batch]  # nothing in this network sees more than one sample
        elif arguments.micro_batch:
            sizes = [int(size) for size in arguments.micro_batch.split(",")]
        else:
            sizes = [size for size in (global_batch >> i for i in range(12)) if size >= 8]
        runs = []
        for size in sizes:
            curves = []
            for seed in range(1, arguments.seeds + 1):
                began = time.monotonic()
                training = Training(task, shape, task["optimizer"], size, seed)
                curves.append(curve(training))
                first = next((i for i, value in enumerate(curves[-1], 1) if value <= task["target"]), None)
                print(f"{task['name']} micro-batch {size} seed {seed}: "
                      f"{'not reached' if first is None else first * task['evaluation_interval']} steps, "
                      f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            runs.append({"micro_batch": None if task["metric"] == "excess_loss" else size, "curves": curves})
            document = {key: task[key] for key in ("name", "model", "metric", "target", "seq_len", "global_batch",
                                                   "held_out_samples", "evaluation_interval")}
            document["optimizer"] = {"kind": (rules.Gpt2 if training.network is gpt2 else rules.ResNet).OPTIMIZER["kind"], **task["optimizer"]}
            document["parameters"] = sum(weight.size for weight in training.weights.values())
            document["framework"] = f"JAX {jax.__version__}, float32, CPU"
            document["runs"] = runs
            text = json.dumps(document, indent=1)
            (Path(arguments.out) / f"{task['name']}.json").write_text(text + "\n")  # after each size, because a size takes long


if __name__ == "__main__":
    main()
