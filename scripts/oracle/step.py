"""Loss and gradients of an export in JAX."""

import jax
import jax.numpy as jnp
import numpy as np

from steps import Step, to_float64


def run(export, arithmetic, follow_jumps=True):
    """Loss and gradients of the exported batch at the exported weights."""
    cast = lambda tree: {name: jnp.asarray(value, arithmetic.dtype) for name, value in tree.items()}
    batch = {name: jnp.asarray(value, arithmetic.dtype if name in ("images", "dense") else None) for name, value in export.batch.items()}
    batch["buffers"] = cast(export.buffers)
    for jumps in ("relu", "pools"):
        batch[jumps] = {name: jnp.asarray(value) for name, value in getattr(export, jumps).items()} if follow_jumps else {}

    def objective(weights, batch):  # the batch is an argument; as a constant, XLA would spend minutes on folding
        return export.network.loss(weights, batch, export.shape, arithmetic)

    (loss, extra), gradients = jax.jit(jax.value_and_grad(objective, has_aux=True))(cast(export.weights), batch)
    strays = {name: (int(value[0]), float(value[1])) for name, value in extra["strays"].items()}
    return Step(float(loss), np.asarray(extra["losses"], np.float64), to_float64(gradients),
                to_float64(extra["statistics"]), float(extra["margin"]), strays)
