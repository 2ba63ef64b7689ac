"""DLRM (Naumov et al., arXiv 1906.00091) with the names and layouts of facebookresearch/dlrm: (out, in). Sums over embedding bags,
the dot products of each pair of features below the diagonal, no sigmoid in front of the loss, which takes logits."""

import jax.numpy as jnp

from arithmetic import Jumps


def loss(weights, batch, shape, arithmetic):
    """Mean binary cross-entropy, with "losses" of each sample, "margin" and "strays" as in resnet.py, and no statistics."""
    rounded, jumps = arithmetic.activation, Jumps(batch, arithmetic)

    def linear(x, name):
        return x @ arithmetic.weight(weights[name + ".weight"]).T + arithmetic.weight(weights[name + ".bias"])

    def mlp(x, name, layers):
        for index in range(layers):
            x = jumps.relu(rounded(linear(x, f"{name}.{2 * index}")), f"{name}.{2 * index}")
        return x

    dense = mlp(rounded(batch["dense"]), "bot_l", len(shape["bottom"]))
    bags = [rounded(weights[f"emb_l.{table}.weight"][batch["indices"][:, table]].sum(1)) for table in range(len(shape["table_rows"]))]
    features = jnp.stack([dense, *bags], 1)
    dots = jnp.einsum("bid,bjd->bij", features, features)
    below = [(i, j) for i in range(len(bags) + 1) for j in range(i)]
    pairs = rounded(dots[:, jnp.array([i for i, _ in below]), jnp.array([j for _, j in below])])
    x = mlp(jnp.concatenate([dense, pairs], 1), "top_l", len(shape["top"]))
    logits = rounded(linear(x, f"top_l.{2 * len(shape['top'])}"))[:, 0]
    losses = jnp.logaddexp(0, logits) - batch["labels"] * logits
    return losses.mean(), {"losses": losses, "logits": logits, "statistics": {}, "margin": jumps.margin(), "strays": jumps.strays}
