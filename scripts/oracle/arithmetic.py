"""In which arithmetic a network is evaluated: float64 (the truth) or a simulation of bf16 training (the yardstick)."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


class Exact:
    """float64 throughout: no rounding worth naming next to float32's 6e-8."""

    dtype = jnp.float64

    def activation(self, x):
        return x

    def weight(self, w):
        return w


class Bf16(Exact):
    """What bf16 training means: weights and every stored activation (and its gradient on the way back) have 8 bits,
    sums are float32, parameter gradients are float32. Shows what any bf16 implementation must lose."""

    dtype = jnp.float32

    def activation(self, x):
        # Its derivative rounds the cotangent alike. (A pair of casts would be optimised away by XLA.)
        return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)

    def weight(self, w):
        return w + jax.lax.stop_gradient(self.activation(w) - w)  # rounded value, unrounded gradient
