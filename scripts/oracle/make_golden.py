#!/usr/bin/env python3
"""Writes golden values, computed by JAX in float64, for an exported step: make_golden.py EXPORT_FOLDER FILE.json

Of the export, only weights and batch are used (they come from counter-based generators, so a test can regenerate them). Each record holds the norm and some samples of a tensor in the framework's layout: "gradient", "step"
(updated − initial weights; the weights themselves would hide most of it) or "updated" (running statistics):
{"what", "name", "size", "rms", "norm", "index", "value", "bf16_tolerance"}; errors are relative to rms. Packed tensors are
split (query, key and value of c_attn differ by orders of magnitude): "columns" [begin, end] of "width" of the last axis.
"""

import json
import sys
from pathlib import Path

import numpy as np

import compare
import exported
import step
import steps as stepping
from arithmetic import Bf16, Exact

SAMPLES = 12
# No ReLU may be closer to zero than this, and no two greatest elements of a max pool's window to each other: rounding in float32 would
# decide (see README.md).
LEAST_MARGIN = 1e-5


def digits(x):
    return float(f"{x:.9g}")


def record(what, name, value, tolerance, allowed=None, rms=None, with_norm=True):
    flat = np.asarray(value, np.float64).ravel()
    candidates = np.arange(flat.size) if allowed is None else np.flatnonzero(allowed.ravel())
    if candidates.size == 0:
        return None
    # Multiples of the golden ratio, so that no column or row of a matrix is favoured.
    picks = sorted({int(k * 0.6180339887498949 % 1 * candidates.size) for k in range(1, SAMPLES + 1)})
    index = candidates[picks]
    result = {"what": what, "name": name, "size": flat.size}
    if name.endswith("]"):  # a third of a packed tensor
        name, third = name[:-1].split("[")
        width = np.shape(value)[-1]
        begin = ["query", "key", "value"].index(third) * width
        result.update(name=name, part=third, columns=[begin, begin + width], width=3 * width)
    result.update({
        "rms": digits(rms if rms is not None else np.sqrt(np.mean(flat**2))),
        "index": index.tolist(), "value": [digits(v) for v in flat[index]], "bf16_tolerance": digits(tolerance)})
    if with_norm:
        result["norm"] = digits(compare.norm(flat))
    return result


def main():
    folder, target = sys.argv[1:]
    export = exported.read_export(folder)
    if export.precision != "float32" or export.step["accumulate"] != 1 or export.step["ranks"] != 1:
        exported.fail(1, "wrong-export", "golden values need a float32 export of one rank and one micro-batch")
    export.relu = export.pools = {}  # the sides of the jumps are the framework's own
    truth = step.run(export, Exact())
    if truth.margin < LEAST_MARGIN:
        exported.fail(1, "wrong-export", f"a ReLU or max pool is only {truth.margin:.1e} from its jump (minimum {LEAST_MARGIN}): use another seed")
    bf16 = compare.Bf16Tolerance(export, truth, step.run(export, Bf16()))
    adamw = export.step["optimizer"]["kind"] == "adamw"
    whole_rms = stepping.global_norm(truth.gradients) / np.sqrt(sum(g.size for g in truth.gradients.values()))
    _, zero = compare.gradient_errors(truth.gradients, truth.gradients)

    records = []
    exact = compare.split_packed(truth.gradients)
    for part, gradient in exact.items():
        rms = whole_rms if part in zero else None
        records.append(record("gradient", part, gradient, bf16.gradient(part), rms=rms))
    for part, moved in compare.split_packed(stepping.weight_steps(export, truth.gradients)).items():
        # AdamW moves a weight by lr · sign(g): only use elements whose sign is certain in bf16.
        g, decided = exact[part], None
        if adamw:
            decided = (np.abs(g) > 4 * bf16.gradient(part) * np.sqrt(np.mean(g**2))) & (part not in zero)
        records.append(record("step", part, moved, bf16.updated(part), decided, with_norm=not adamw))
    for name, value in truth.statistics.items():
        rms = np.sqrt(np.mean(value**2))
        if name.endswith("running_mean"):
            rms = np.hypot(rms, 0.1 * np.sqrt(np.mean(truth.statistics[name.replace("running_mean", "running_var")])))
        records.append(record("updated", name, value, bf16.statistics(name), rms=rms))

    golden = {
        "about": "float64 values of an independent framework (JAX), see scripts/oracle/README.md; made by scripts/oracle/make-golden",
        "model": export.model,
        "micro_batch": export.step["micro_batch"],
        "seq_len": export.shape.get("seq_len", 0),
        "seed": export.step["seed"],
        # The weights that decay, by the network's rule, in any order.
        "optimizer": {**export.step["optimizer"],
                      "weight_decay_parameters": sorted(filter(export.rules.is_decayed, export.weights))},
        "inputs": {"weights_norm": digits(stepping.global_norm({n: w.astype(np.float64) for n, w in export.weights.items()})),
                   **{f"{name}_norm": digits(compare.norm(value)) for name, value in sorted(export.batch.items())}},
        "loss": digits(truth.loss), "loss_bf16_tolerance": digits(bf16.loss),
        "gradient_norm": digits(stepping.reported_norm(truth.gradients)),
        "gradient_norm_bf16_tolerance": digits(bf16.gradient_norm),
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in golden.items()]
    rows = ",\n".join("  " + json.dumps(r) for r in records if r)
    Path(target).write_text("{\n" + "".join(lines) + ' "tensors": [\n' + rows + "\n ]\n}\n")
    print(f"{target}: {export.model}, {len(records)} tensors, loss {truth.loss:.9g}, margin {truth.margin:.1e}")


if __name__ == "__main__":
    main()
