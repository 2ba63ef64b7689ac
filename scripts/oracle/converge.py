#!/usr/bin/env python3
"""Trains the tasks to their targets in JAX, float32, over several seeds, and writes the curves that runs are compared with.

FILE of --tasks is what `trainwatt models --json` prints: tasks, shapes and schedules come from there, the arithmetic and the
rest of the recipe from the modules beside this one, which were written from the papers. Data and first weights come from the same
distributions with other random numbers (sources.py, initial.py). A run continues for another quarter of its steps after reaching
the target, so that its curve also covers slightly stricter targets.
"""

import functools
import json
import math
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import bert
import dlrm
import exported
import gpt2
import inception
import initial
import llama
import resnet
import rules
import sources
from arithmetic import Exact


class Float32(Exact):
    dtype = jnp.float32


class Family(NamedTuple):
    """What a family of networks needs to be trained here. A task of another network of it needs nothing more."""
    loss: Callable  # (weights, batch, shape, arithmetic): see the modules
    weights: Callable  # (shape, rng)
    source: Callable  # (shape, task): data and floor
    has_batch_norm: bool = False


def drawn_tokens(shape, task):
    """Those of the network's vocabulary that its samples have; the others are never seen."""
    return task["drawn_tokens"] or shape["vocabulary"]


def tokens(shape, task):
    return sources.Tokens(drawn_tokens(shape, task), task["seq_len"])


def masked_tokens(shape, task):
    return sources.MaskedTokens(drawn_tokens(shape, task), task["seq_len"])


def gratings(shape, task):
    return sources.Gratings(shape["image_size"], shape["image_channels"], shape["classes"])


def clicks(shape, task):
    return sources.Clicks(shape["table_rows"], shape["dense_features"], shape["hot"])


FAMILIES = {
    "bert": Family(bert.loss, initial.bert, masked_tokens),
    "dlrm": Family(dlrm.loss, initial.dlrm, clicks),
    "gpt2": Family(gpt2.loss, initial.gpt2, tokens),
    "inception": Family(inception.loss, initial.inception, gratings, has_batch_norm=True),
    "llama": Family(llama.loss, initial.llama, tokens),
    "resnet": Family(resnet.loss, initial.resnet, gratings, has_batch_norm=True),
}


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
def functions(family, shape_json, metric):
    """The jitted step and evaluation of a network; compiled once for each micro-batch."""
    shape, rule = json.loads(shape_json), rules.OF_KIND[family]
    o = rule.OPTIMIZER

    def objective(weights, group):
        return FAMILIES[family].loss(weights, dict(group, buffers=Unread(), relu={}, pools={}), shape, Float32())

    def mean_loss(weights, groups):  # of all micro-batches of a step
        return jax.vmap(lambda w, group: objective(w, group)[0], (None, 0))(weights, groups).mean()

    @jax.jit
    def step(weights, first, second, groups, rate, t):
        gradients = jax.grad(mean_loss)(weights, groups)
        norm = jnp.sqrt(sum((g**2).sum() for g in gradients.values()))
        clip = jnp.minimum(1.0, o["clip_norm"] / norm) if o["clip_norm"] > 0 else 1.0
        new = ({}, {}, {})
        for name, w in weights.items():
            g, decay = gradients[name] * clip, o["weight_decay"] * w if rule.is_decayed(name) else 0.0
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
        if metric == "excess_loss":
            return loss
        logits = extra["logits"]  # of each class, or one of a click
        return ((logits.argmax(-1) if logits.ndim > 1 else logits > 0) != group["labels"]).mean()

    @jax.jit
    def evaluate(weights, groups):
        return jax.lax.map(lambda group: one(weights, group), groups).mean()

    return step, evaluate


class Training:
    """One network's weights, optimizer state and data, in float32."""

    def __init__(self, task, family, shape, micro_batch, seed):
        self.task, self.micro_batch = task, micro_batch
        rng = np.random.default_rng([seed, 0])
        self.source = FAMILIES[family].source(shape, task).drawn(rng)
        self.rng = np.random.default_rng([seed, 1])
        self.weights = {name: jnp.asarray(value, jnp.float32) for name, value in FAMILIES[family].weights(shape, rng).items()}
        self.first = {name: jnp.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: jnp.zeros_like(value) for name, value in self.weights.items()}
        held_out = self.source.batch(np.random.default_rng([seed, 2]), task["held_out_samples"], held_out=True)
        self.held_out = self.groups(held_out)
        self.done = 0
        self.step_function, self.evaluate_function = functions(family, json.dumps(shape), task["metric"])

    def groups(self, batch):
        """Batch norm sees one micro-batch at a time: (groups, micro_batch, …)."""
        return {name: jnp.asarray(value.reshape(-1, self.micro_batch, *value.shape[1:])) for name, value in batch.items()}

    def step(self):
        groups = self.groups(self.source.batch(self.rng, self.task["global_batch"]))
        rate = np.float32(learning_rate(self.task["optimizer"], self.done))
        self.done += 1
        self.weights, self.first, self.second = self.step_function(self.weights, self.first, self.second, groups, rate,
                                                                   np.float32(self.done))

    def metric(self):
        value = float(self.evaluate_function(self.weights, self.held_out))
        return value - self.source.floor if self.task["metric"] == "excess_loss" else value


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


def resized(task, shape, key, count, global_batch, drawn):
    """The task with another vocabulary or number of classes (`key` of the shape), of which `drawn` are drawn (0: all), in steps of so
    many samples. Where a step shows each of them less often, the schedule and the maximum are as much longer."""
    longer = max(1, (drawn or count) / shape[key] * task["global_batch"] / global_batch)
    optimizer = {**task["optimizer"], "decay_steps": round(task["optimizer"]["decay_steps"] * longer)}
    other = {**task, "optimizer": optimizer, "global_batch": global_batch, "most_steps": round(task["most_steps"] * longer),
             "drawn_tokens": drawn}
    return other, {**shape, key: count}


def trained(task, family, shape, micro_batch, seed):
    """The training, and its curve; says how many steps it took."""
    began = time.monotonic()
    training = Training(task, family, shape, micro_batch, seed)
    values = curve(training)
    first = next((i for i, value in enumerate(values, 1) if value <= task["target"]), None)
    of = "".join(f"{key} {shape[key]} " for key in ("vocabulary", "classes") if key in shape)
    of += f"drawn {task['drawn_tokens']} " if task["drawn_tokens"] else ""
    print(f"{task['name']} {of}batch {task['global_batch']} micro-batch {micro_batch} seed {seed}: "
          f"{'not reached' if first is None else first * task['evaluation_interval']} steps, {time.monotonic() - began:.0f} s",
          file=sys.stderr, flush=True)
    return training, values


def kept_runs(path, document):
    """The curves of seeds 1, 2, … of each micro-batch that the file has; of another task or framework they are refused."""
    if not path.exists():
        return []
    old = json.loads(path.read_text())
    runs = old.pop("runs")
    for key in sorted(old.keys() | document.keys()):
        if old.get(key) != document.get(key):
            exported.fail(1, "other-task", f"{path} has {key} {old.get(key)}, now {document.get(key)}: train all seeds, without --keep")
    return runs


def main():
    parser = exported.Parser(__doc__.splitlines()[0])
    parser.add_argument("--tasks", required=True, help="what `trainwatt models --json` prints")
    parser.add_argument("--out", help="folder for TASK.json; not needed with --vocabulary")
    parser.add_argument("--task", help="names, comma-separated (all that have been trained)")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--keep", action="store_true",
                        help="keep the curves that TASK.json has and only train the other seeds; refused if the task has changed since")
    parser.add_argument("--micro-batch", help="of networks with batch norm, comma-separated (each half of the global batch down to 8)")
    for key in ("vocabulary", "classes"):
        parser.add_argument(f"--{key}", help="numbers, comma-separated: only says how many steps the task takes with each of them")
    parser.add_argument("--drawn-tokens", type=int, default=0, help="with --vocabulary: the samples have only so many of the tokens (all)")
    parser.add_argument("--global-batch", type=int, help="with --vocabulary or --classes: samples per step (the task's)")
    arguments = parser.parse_args()
    if not arguments.out and not (arguments.vocabulary or arguments.classes):
        exported.fail(2, "option-needs", "--out DIR is missing; see --help")
    catalog = json.loads(Path(arguments.tasks).read_text())
    names = arguments.task.split(",") if arguments.task else [t["name"] for t in catalog["tasks"] if not t["extrapolated_from"]]
    for task in catalog["tasks"]:
        if task["name"] not in names:
            continue
        model = next(model for model in catalog["models"] if model["name"] == task["model"])
        family, shape = model["family"], {**model["sizes"], **model["constants"]}
        global_batch = task["global_batch"]
        key = "vocabulary" if arguments.vocabulary else "classes"
        if counts := arguments.vocabulary or arguments.classes:
            if key not in shape:
                exported.fail(2, "bad-value", f"--{key}: {task['model']} has none")
            batch = arguments.global_batch or global_batch
            micro_batch = int(arguments.micro_batch) if arguments.micro_batch else batch
            for count in counts.split(","):
                other_task, other_shape = resized(task, shape, key, int(count), batch, arguments.drawn_tokens)
                for seed in range(1, arguments.seeds + 1):
                    trained(other_task, family, other_shape, micro_batch, seed)
            continue
        if not FAMILIES[family].has_batch_norm:
            sizes = [global_batch]  # nothing in this network sees more than one sample
        elif arguments.micro_batch:
            sizes = [int(size) for size in arguments.micro_batch.split(",")]
        else:
            sizes = [size for size in (global_batch >> i for i in range(12)) if size >= 8]
        document = {key: task[key] for key in ("name", "model", "metric", "target", "seq_len", "global_batch",
                                               "held_out_samples", "evaluation_interval")}
        if task["drawn_tokens"]:
            document["drawn_tokens"] = task["drawn_tokens"]
        document["optimizer"] = {"kind": rules.OF_KIND[family].OPTIMIZER["kind"], **task["optimizer"]}
        document["parameters"] = model["parameters"]
        document["framework"] = f"JAX {jax.__version__}, float32, CPU"
        path = Path(arguments.out) / f"{task['name']}.json"
        runs = kept_runs(path, document) if arguments.keep else []
        document["runs"] = runs
        for size in sizes:
            micro_batch = size if FAMILIES[family].has_batch_norm else None
            run = next((run for run in runs if run["micro_batch"] == micro_batch), None)
            if run is None:
                run = {"micro_batch": micro_batch, "curves": []}
                runs.append(run)
            for seed in range(len(run["curves"]) + 1, arguments.seeds + 1):
                training, values = trained(task, family, shape, size, seed)
                count = sum(weight.size for weight in training.weights.values())
                if count != model["parameters"]:
                    exported.fail(1, "wrong-network", f"{task['model']} has {count} parameters here, not {model['parameters']}")
                run["curves"].append(values)
                path.write_text(json.dumps(document, indent=1) + "\n")  # after each seed, because a seed may take long


if __name__ == "__main__":
    main()
