"""Reads the folder that `trainwatt-train --export-step` wrote."""

import importlib
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import inception_units
import rules

sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

from errors import Parser, fail  # noqa: E402, F401  the programs beside this one have no path to errors.py

BUFFER_SUFFIXES = (".running_mean", ".running_var")

# Published constants in step.json: another value means another network.
PUBLISHED = {"bert": {"layer_norm_epsilon": 1e-12, "activation": "gelu", "segments": 2},
             "dlrm": {"interaction": "dot", "bag": "sum"},
             "gpt2": {"layer_norm_epsilon": 1e-5, "activation": "gelu_tanh"},
             "inception": {"batch_norm_epsilon": 1e-3, "batch_norm_momentum": 0.1, "auxiliary_weight": 0.4, "label_smoothing": 0.1},
             "llama": {"rms_norm_epsilon": 1e-5, "activation": "silu", "rope_theta": 500000, "rope_low_factor": 1, "rope_high_factor": 4},
             "resnet": {"batch_norm_epsilon": 1e-5, "batch_norm_momentum": 0.1}}


@dataclass
class Export:
    folder: Path
    step: dict        # step.json
    weights: dict     # name → float32 array, before the step; parameters only
    buffers: dict     # batch norm's running statistics, before the step
    batch: dict       # input_ids or images, labels; of BERT token_type_ids and next_sentence_label too
    gradients: dict   # name → float32 array, before clipping
    updated: dict     # parameters and buffers after the step
    relu: dict        # torchvision's name of the ReLU's place → whether each exported output is positive (NHWC)
    pools: dict       # name of the max pool's place → element taken from each window: its row times the window's width plus its column (NHWC)

    @property
    def is_tokens(self):
        return "input_ids" in self.batch

    @property
    def network(self):
        """In JAX."""
        return importlib.import_module(self.kind)

    @property
    def kind(self):
        return self.shape["kind"]

    @property
    def rules(self):
        return rules.OF_KIND[self.kind]

    @property
    def precision(self):
        return self.step["precision"]

    @property
    def shape(self):
        """Arguments of a network function besides its weights: heads; kv_heads, rope_factor; stem_stride, label_smoothing."""
        return self.step["model"]

    @property
    def model(self):
        return self.shape["name"]


def load_file(path):
    """The tensors of a safetensors file: the header's length, the header, the data."""
    types = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
    if not path.exists():
        fail(1, "wrong-export", f"there is no {path}: name a folder that trainwatt-train --export-step wrote")
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    return {name: np.frombuffer(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]], types[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def read_relu(path, kind, weights):
    """Which side of zero each ReLU took. Names in the file: block/tensor, the block's own output as block/output."""
    if not path.exists():
        return {}
    values, places = load_file(path), {}
    if kind == "inception":
        return inception_units.relu_places(values, weights)
    for name, value in values.items():
        block, tensor = name.split("/")
        if block == "stem":
            # With a pool behind it the ReLU's output is a saved tensor, else it is the block's output.
            place = "bn1" if tensor == ("relu" if "stem/relu" in values else "output") else None
        elif block == "interaction":
            place = None
        else:
            place = {"relu1": f"{block}.bn1", "relu2": f"{block}.bn2", "output": block}.get(tensor)
        if place:
            places[place] = np.asarray(value) > 0
    return places


def read_pools(path, kind):
    """Which element each window of a max pool took, of the same file."""
    if not path.exists():
        return {}
    values = load_file(path)
    padding = 0 if kind == "inception" else 1
    pools = (inception_units.pool_places(values) if kind == "inception" else
             {"maxpool": value for name, value in values.items() if name == "stem/argmax"})
    for name, places in pools.items():
        rows, columns = places // 3, places % 3  # of the windows, the first of which begins in the padding
        if places.max() > 8 or (padding and (rows[:, 0].min() < padding or columns[:, :, 0].min() < padding)):
            fail(1, "wrong-export", f"{path}: an element that the max pool {name} took lies outside of its window or of the image")
    return pools


def read_export(folder):
    folder = Path(folder)
    tensors = {}
    for part in ("weights", "batch", "gradients", "updated"):
        tensors[part] = {name: np.asarray(value) for name, value in load_file(folder / f"{part}.safetensors").items()}
    initial = tensors["weights"]
    buffers = {name: value for name, value in initial.items() if name.endswith(BUFFER_SUFFIXES)}
    weights = {name: value for name, value in initial.items() if name not in buffers and name in tensors["gradients"]}
    missing = set(tensors["gradients"]) - set(weights)
    spare = set(initial) - set(weights) - set(buffers) - {n for n in initial if n.endswith("num_batches_tracked")}
    if missing or spare:
        fail(1, "wrong-export", f"{folder}: gradients without weights {sorted(missing)}, weights without gradients {sorted(spare)}")
    step = json.loads((folder / "step.json").read_text())
    for key, value in PUBLISHED[step["model"]["kind"]].items():
        if step["model"][key] != value:
            fail(1, "wrong-export", f"{folder}: {key} is {step['model'][key]}, published is {value}")
    for key, value in rules.OF_KIND[step["model"]["kind"]].OPTIMIZER.items():
        ours = step["optimizer"][key]
        if ours != value and (isinstance(value, str) or not math.isclose(ours, value, rel_tol=1e-6)):  # float32, written short
            fail(1, "wrong-export", f"{folder}: the optimizer's {key} is {ours}, published is {value}")
    if step["step"] != 0:
        fail(1, "wrong-export", f"{folder}: step {step['step']}; the comparison starts from empty optimizer state, at step 0")
    return Export(folder, step, weights, buffers, tensors["batch"], tensors["gradients"], tensors["updated"],
                  read_relu(folder / "relu.safetensors", step["model"]["kind"], weights),
                  read_pools(folder / "relu.safetensors", step["model"]["kind"]))
