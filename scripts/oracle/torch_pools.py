"""Max pools in PyTorch whose derivative follows the exported element of each window: of two that are nearly equal, rounding chooses."""

import numpy as np
import torch
from torch.nn import functional as F

import exported

# Before a check replaces F.max_pool2d.
max_pool2d = F.max_pool2d


def pair(size):
    return tuple(size) if isinstance(size, (list, tuple)) else (size, size)


def follow(x, places, kernel, stride, padding=0, **public):
    """The pool of x (batch, channels, height, width); and a pair: the number of windows whose exported element is not the greatest, and the
    largest difference between the two. `places` (batch, height, width, channels): an element's row within the window times the window's
    width, plus its column. `public`: further arguments of F.max_pool2d. Ends the program if the places do not fit the output."""
    value = max_pool2d(x, kernel, stride, padding, **public)
    place = torch.as_tensor(np.array(places) if isinstance(places, np.ndarray) else places).movedim(-1, 1).to(x.device, torch.int64)
    if place.min() < 0 or place.max() >= pair(kernel)[0] * pair(kernel)[1]:
        exported.fail(1, "wrong-export", "the exported element of a max pool lies outside of its window")
    if place.shape != value.shape:
        exported.fail(1, "wrong-export", f"the places of a max pool are {tuple(place.shape)}, its output {tuple(value.shape)}")
    (_, width), (down, right), (above, left) = pair(kernel), pair(kernel if stride is None else stride), pair(padding)
    rows = torch.arange(value.shape[2], device=x.device)[:, None] * down - above + place // width
    columns = torch.arange(value.shape[3], device=x.device) * right - left + place % width
    if rows.min() < 0 or columns.min() < 0 or rows.max() >= x.shape[2] or columns.max() >= x.shape[3]:
        exported.fail(1, "wrong-export", "the exported element of a max pool's window lies outside of the image")
    followed = x.flatten(2).gather(2, (rows * x.shape[3] + columns).flatten(2)).view_as(value)
    below = (value - followed).detach()
    return followed + below, (int((below != 0).sum()), float(below.abs().max()))
