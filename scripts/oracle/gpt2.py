"""GPT-2 (Radford et al. 2019) with the names and layouts of Hugging Face's checkpoints: Conv1D weights are (in, out)."""

import math

import jax
import jax.numpy as jnp

LAYER_NORM_EPSILON = 1e-5


def layer_norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + LAYER_NORM_EPSILON) * gamma + beta


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(qkv, heads, rounded):
    """qkv (batch, seq, 3·width) → (batch, seq, width), causal."""
    batch, seq, packed = qkv.shape
    width = packed // 3
    q, k, v = (part.reshape(batch, seq, heads, width // heads) for part in jnp.split(qkv, 3, axis=-1))
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(width // heads)
    scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -jnp.inf)
    shares = rounded(jax.nn.softmax(scores, axis=-1))
    return jnp.einsum("bhij,bjhd->bihd", shares, v).reshape(batch, seq, width)


def loss(weights, batch, shape, arithmetic):
    """Mean cross-entropy of the next tokens. labels[b, t] is the token that follows input_ids[b, t] (not shifted again)."""
    rounded = arithmetic.activation
    w = {name: arithmetic.weight(value) for name, value in weights.items()}

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return rounded(layer_norm(x, w[name + ".weight"], w[name + ".bias"]))

    tokens = batch["input_ids"]
    x = rounded(w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]])
    layers = 1 + max(int(name.split(".")[1]) for name in w if name.startswith("h."))
    for layer in range(layers):
        h = f"h.{layer}."
        a = rounded(attention(rounded(linear(norm(x, h + "ln_1"), h + "attn.c_attn")), shape["heads"], rounded))
        x = rounded(x + linear(a, h + "attn.c_proj"))
        m = rounded(gelu(rounded(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"))))
        x = rounded(x + linear(m, h + "mlp.c_proj"))
    logits = norm(x, "ln_f") @ w["wte.weight"].T
    log_p = jax.nn.log_softmax(logits, axis=-1)
    losses = -jnp.take_along_axis(log_p, batch["labels"][..., None], axis=-1)
    return losses.mean(), {"losses": losses.ravel(), "statistics": {}, "margin": jnp.inf, "strays": {}}
