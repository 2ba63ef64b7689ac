#!/usr/bin/env python3
"""Compares exported float32 steps of Inception-v3 with the public definition itself, torchvision's Inception3: torchvision_check.py FOLDER...

Needs PyTorch and torchvision; scripts/check-oracle --torchvision PYTHON runs it with a Python that has them. The public network's
forward is used as it is; its convolutions get the sizes of the exported weights (a slice has fewer modules, the tiny network fewer
channels), and where the derivative of a ReLU jumps it follows the exported side (README.md). Loss and gradients are computed in
float64. A max pool gives its gradient to the exported element of each window: of two that are nearly equal, rounding chooses. Prints a line "PASS …" or "FAIL …" for each folder.
Exit code 0: loss within 1e-5, each gradient and each running statistic within 1e-4, 1: not, 77: a package is not installed."""

import sys
from pathlib import Path

try:
    import numpy as np
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional as F
    from torchvision.models.inception import BasicConv2d, Inception3
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import compare
import exported
import inception_units
import torch_pools

LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4
FARTHEST_PLACE = 1e-4  # of the greatest value of a pool's output: rounding of the layers in front of it


class OfSide(nn.Module):
    """BasicConv2d whose ReLU has its own value and the derivative of the exported side."""

    def __init__(self, public, passes):
        super().__init__()
        self.conv, self.bn, self.passes = public.conv, public.bn, torch.from_numpy(passes.transpose(0, 3, 1, 2).copy())

    def forward(self, x):
        x = self.bn(self.conv(x))
        followed = torch.where(self.passes, x, 0.0)
        return followed + (F.relu(x) - followed).detach()


class OfPlaces:
    """F.max_pool2d with its own value, whose derivative goes to the exported element of each window, in the order of the forward pass."""

    def __init__(self, places):
        self.places, self.used = list(places), 0

    def __call__(self, x, kernel_size, stride, padding=0, dilation=1, **public):
        y, (_, farthest) = torch_pools.follow(x, self.places[self.used], kernel_size, stride, padding, dilation=dilation, **public)
        self.used += 1
        if farthest > FARTHEST_PLACE * y.max().item():
            exported.fail(1, "wrong-export", f"a max pool took an element that is {farthest:.1e} below the greatest of its window")
        return y


def network(export):
    shape, weights = export.shape, export.weights
    model = Inception3(num_classes=shape["classes"], aux_logits=True, transform_input=False, init_weights=False, dropout=0.0)
    present = inception_units.modules(weights)
    for name, _ in list(model.named_children()):
        if name.startswith("Mixed_") and name not in present:
            setattr(model, name, nn.Identity())
    if not shape["stem_pools"]:
        model.maxpool1 = model.maxpool2 = nn.Identity()
    for name, module in list(model.named_modules()):
        if isinstance(module, BasicConv2d):
            out, channels, *kernel = weights[f"{name}.conv.weight"].shape
            old = module.conv
            stride = shape["stem_stride"] if name == inception_units.STEM[0][0] else old.stride
            module.conv = nn.Conv2d(channels, out, tuple(kernel), stride, old.padding, bias=False)
            module.bn = nn.BatchNorm2d(out, eps=module.bn.eps, momentum=module.bn.momentum)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, OfSide(module, export.relu[name]))
    model.fc = nn.Linear(*reversed(weights["fc.weight"].shape))
    model.AuxLogits.fc = nn.Linear(*reversed(weights["AuxLogits.fc.weight"].shape))
    return model.double()


def check(folder):
    export = exported.read_export(folder)
    if export.kind != "inception" or export.precision != "float32" or not export.relu:
        exported.fail(1, "wrong-export", f"{folder}: wanted a float32 step of inception with the sides of its ReLUs, not {export.precision} of {export.kind}")
    model = network(export)
    public = dict(model.named_parameters())
    if set(public) != set(export.weights):
        exported.fail(1, "wrong-export", f"{folder}: names differ: {sorted(set(public) ^ set(export.weights))}")
    with torch.no_grad():
        for name, parameter in public.items():
            parameter.copy_(torch.from_numpy(export.weights[name].copy()))
        for name, buffer in model.named_buffers():
            if name in export.buffers:
                buffer.copy_(torch.from_numpy(export.buffers[name].copy()))
    labels = torch.from_numpy(np.array(export.batch["labels"]))
    pools = OfPlaces(export.pools.values())
    F.max_pool2d = pools
    try:
        outputs = model.train()(torch.from_numpy(np.array(export.batch["images"])).double())
    finally:
        F.max_pool2d = torch_pools.max_pool2d
    if pools.used != len(pools.places):
        exported.fail(1, "wrong-export", f"{folder}: {len(pools.places)} max pools are exported, {pools.used} ran")
    main, auxiliary = (F.cross_entropy(logits, labels, label_smoothing=export.shape["label_smoothing"]) for logits in outputs)
    loss = main + export.shape["auxiliary_weight"] * auxiliary
    loss.backward()
    loss_error = abs(export.step["loss"] - loss.item()) / loss.item()
    errors, _ = compare.gradient_errors(export.gradients, {name: parameter.grad.numpy() for name, parameter in public.items()})
    statistics = {name: buffer.numpy() for name, buffer in model.named_buffers() if name in export.buffers}
    errors.update(compare.statistic_errors(export.updated, statistics))
    worst_name = max(errors, key=lambda name: errors[name] if errors[name] == errors[name] else float("inf"))
    good = loss_error <= LOSS_TOLERANCE and all(error <= GRADIENT_TOLERANCE for error in errors.values())
    print(f"{'PASS' if good else 'FAIL'} {export.model}, {sum(w.size for w in export.weights.values()):,} parameters, "
          f"{len(inception_units.modules(export.weights))} modules, images {tuple(export.batch['images'].shape)}, torchvision "
          f"{torchvision.__version__} in float64: loss {export.step['loss']:.7f} and {loss.item():.7f}, error {loss_error:.1e}; "
          f"{len(public)} gradients and {len(statistics)} running statistics, worst {errors[worst_name]:.1e} ({worst_name})", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if all([check(Path(folder)) for folder in sys.argv[1:]]) else 1)
