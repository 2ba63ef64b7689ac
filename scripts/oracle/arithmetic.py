"""The arithmetic in which a network is evaluated: float64 (the truth) or simulated bf16 training (the yardstick)."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


class Exact:
    """float64 throughout; its rounding is negligible next to float32's 6e-8."""

    dtype = jnp.float64

    def activation(self, x):
        return x

    def weight(self, w):
        return w


class Bf16(Exact):
    """bf16 training: weights and every stored activation (and its gradient in the backward pass) have 8 bits, sums and parameter
    gradients are float32. Shows the error that any bf16 implementation has."""

    dtype = jnp.float32

    def activation(self, x):
        # Its derivative rounds the cotangent too. (XLA would optimise a pair of casts away.)
        return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)

    def weight(self, w):
        return w + jax.lax.stop_gradient(self.activation(w) - w)  # rounded value, unrounded gradient


def pool_margin(x):
    """The least distance of the two greatest elements of a window. Of windows of zeros, which are behind ReLUs, none has one."""
    height, width = ((size - 3) // 2 * 2 + 1 for size in x.shape[1:3])
    elements = jnp.stack([x[:, i:i + height:2, j:j + width:2] for i in range(3) for j in range(3)])
    second, first = jnp.sort(elements, 0)[-2:]
    return jnp.where(first > 0, first - second, jnp.inf).min()


class Jumps:
    """Where a network's derivative jumps: its ReLUs and its max pools (3×3, stride 2), by name. The outputs of ReLUs are rounded. With
    batch["relu"] (name → whether the exported output is positive) and batch["pools"] (name → element of each window) the derivative of
    each follows the exported side. `strays` says how many units lie on the other side here and how many windows have a greater element,
    and how far the farthest of them. `margin()`: how near any of them is to its jump: the least |x| that entered a ReLU, the least
    distance of the two greatest elements of a window."""

    def __init__(self, batch, arithmetic):
        self.sides, self.places, self.rounded = batch["relu"], batch["pools"], arithmetic.activation
        self.margins, self.strays = [], {}

    def relu(self, x, name):
        self.margins.append(jnp.abs(x).min())
        y = jax.nn.relu(x)
        if name in self.sides:
            passes = self.sides[name]
            strayed = passes != (x > 0)
            self.strays[name] = jnp.stack([strayed.sum(), jnp.where(strayed, jnp.abs(x), 0).max()])
            followed = jnp.where(passes, x, 0)
            y = followed + jax.lax.stop_gradient(y - followed)  # value of ReLU, derivative of the exported side
        return self.rounded(y)

    def max_pool(self, x, name, padding=0):
        pads = ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0))
        self.margins.append(pool_margin(jnp.pad(x, pads, constant_values=-jnp.inf)))
        y = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
        if name in self.places:
            place = self.places[name].astype(int)
            rows = 2 * jnp.arange(y.shape[1])[:, None, None] - padding + place // 3
            columns = 2 * jnp.arange(y.shape[2])[:, None] - padding + place % 3
            flat = (x.shape[0], -1, x.shape[3])
            followed = jnp.take_along_axis(x.reshape(flat), (rows * x.shape[2] + columns).reshape(flat), 1).reshape(y.shape)
            below = jax.lax.stop_gradient(y - followed)
            self.strays[name] = jnp.stack([(below != 0).sum(), jnp.abs(below).max()])
            y = followed + below  # value of the pool, derivative of the exported element
        return y

    def margin(self):
        return jnp.stack(self.margins).min()
