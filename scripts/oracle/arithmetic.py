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


class Relus:
    """The ReLUs of a network, by name; their outputs are rounded. With batch["relu"] (name → whether the exported output is positive) the
    derivative of each follows the exported side, and `strays` says how many units lie on the other side here, and how far the farthest of
    them. `margin()`: the least |x| that entered any of them, and of what else was appended to `margins`."""

    def __init__(self, batch, arithmetic):
        self.exported, self.rounded = batch["relu"], arithmetic.activation
        self.margins, self.strays = [], {}

    def __call__(self, x, name):
        self.margins.append(jnp.abs(x).min())
        y = jax.nn.relu(x)
        if name in self.exported:
            passes = self.exported[name]
            strayed = passes != (x > 0)
            self.strays[name] = jnp.stack([strayed.sum(), jnp.where(strayed, jnp.abs(x), 0).max()])
            followed = jnp.where(passes, x, 0)
            y = followed + jax.lax.stop_gradient(y - followed)  # value of ReLU, derivative of the exported side
        return self.rounded(y)

    def margin(self):
        return jnp.stack(self.margins).min()
