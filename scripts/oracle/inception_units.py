"""Which convolutions the modules of Inception-v3 have (Szegedy et al., arXiv 1512.00567), under torchvision's names; independent of the
framework. Kernels and channels are those of the weights. Padding: half the kernel at stride 1 in a module, else none."""

import re

# (name, where its input comes from, stride, whether its output is part of the module's), in the order in which those are joined.
# "x": the module's input; "pooled": that behind a 3×3 average pool. B and D append the 3×3 stride 2 max pool of x.
UNITS = {
    "A": [("branch1x1", "x", 1, True), ("branch5x5_1", "x", 1, False), ("branch5x5_2", "branch5x5_1", 1, True),
          ("branch3x3dbl_1", "x", 1, False), ("branch3x3dbl_2", "branch3x3dbl_1", 1, False), ("branch3x3dbl_3", "branch3x3dbl_2", 1, True),
          ("branch_pool", "pooled", 1, True)],
    "B": [("branch3x3", "x", 2, True), ("branch3x3dbl_1", "x", 1, False), ("branch3x3dbl_2", "branch3x3dbl_1", 1, False),
          ("branch3x3dbl_3", "branch3x3dbl_2", 2, True)],
    "C": [("branch1x1", "x", 1, True), ("branch7x7_1", "x", 1, False), ("branch7x7_2", "branch7x7_1", 1, False),
          ("branch7x7_3", "branch7x7_2", 1, True), ("branch7x7dbl_1", "x", 1, False), ("branch7x7dbl_2", "branch7x7dbl_1", 1, False),
          ("branch7x7dbl_3", "branch7x7dbl_2", 1, False), ("branch7x7dbl_4", "branch7x7dbl_3", 1, False),
          ("branch7x7dbl_5", "branch7x7dbl_4", 1, True), ("branch_pool", "pooled", 1, True)],
    "D": [("branch3x3_1", "x", 1, False), ("branch3x3_2", "branch3x3_1", 2, True), ("branch7x7x3_1", "x", 1, False),
          ("branch7x7x3_2", "branch7x7x3_1", 1, False), ("branch7x7x3_3", "branch7x7x3_2", 1, False),
          ("branch7x7x3_4", "branch7x7x3_3", 2, True)],
    "E": [("branch1x1", "x", 1, True), ("branch3x3_1", "x", 1, False), ("branch3x3_2a", "branch3x3_1", 1, True),
          ("branch3x3_2b", "branch3x3_1", 1, True), ("branch3x3dbl_1", "x", 1, False), ("branch3x3dbl_2", "branch3x3dbl_1", 1, False),
          ("branch3x3dbl_3a", "branch3x3dbl_2", 1, True), ("branch3x3dbl_3b", "branch3x3dbl_2", 1, True), ("branch_pool", "pooled", 1, True)],
}
# The stem: (name, padding, whether the network's stem_pools puts a 3×3 stride 2 max pool behind it); the first has stem_stride.
STEM = [("Conv2d_1a_3x3", 0, False), ("Conv2d_2a_3x3", 0, False), ("Conv2d_2b_3x3", 1, True), ("Conv2d_3b_1x1", 0, False),
        ("Conv2d_4a_3x3", 0, True)]
# Convolutions one behind the other on the longest way through a module.
DEPTH = {"A": 3, "B": 3, "C": 5, "D": 4, "E": 3}


def kind_of(module):
    """"A" of "Mixed_5b"."""
    stage, letter = module.removeprefix("Mixed_")
    return {"5": "A", "6": "B" if letter == "a" else "C", "7": "D" if letter == "a" else "E"}[stage]


def modules(weights):
    """Names of the modules in order."""
    return sorted({name.split(".")[0] for name in weights if re.match(r"Mixed_", name)})


def relu_places(values, weights):
    """Which side of zero each ReLU took, by the name of its convolution, of the arrays of relu.safetensors: block/tensor, a joined unit's
    within its block's output."""
    places = {}
    for name, value in values.items():
        block, tensor = name.split("/")
        if tensor.startswith("argmax"):
            continue
        if tensor.startswith("relu."):
            unit = tensor.removeprefix("relu.")
            places[unit if block == "stem" or unit.startswith("AuxLogits.") else f"{block}.{unit}"] = value > 0
        elif block == "stem" and f"stem/relu.{STEM[-1][0]}" not in values:
            places[STEM[-1][0]] = value > 0
        elif block.startswith("Mixed_"):
            channel = 0
            for unit, _, _, joined in UNITS[kind_of(block)]:
                if joined:
                    width = weights[f"{block}.{unit}.bn.weight"].size
                    places[f"{block}.{unit}"] = value[..., channel:channel + width] > 0
                    channel += width
    return places


def pool_places(values):
    """Which element each window of a max pool took (row times 3 plus column, NHWC), of the same arrays: by the name of the convolution in
    front of it or of its module, in the order of the forward pass."""
    stem = [unit for unit, _, _ in STEM]
    places = {}
    for name, value in values.items():
        block, tensor = name.split("/")
        if tensor.startswith("argmax"):
            places[tensor.removeprefix("argmax.") if block == "stem" else block] = value
    return dict(sorted(places.items(), key=lambda item: (0, stem.index(item[0])) if item[0] in stem else (1, item[0])))
