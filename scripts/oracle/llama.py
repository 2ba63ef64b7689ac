"""Llama 3 (Grattafiori et al., arXiv 2407.21783) with the names and layouts of Hugging Face's LlamaForCausalLM: (out, in).

RMS norm: Zhang & Sennrich, arXiv 1910.07467. Rotary positions: Su et al., arXiv 2104.09864, as a product of complex numbers whose
real parts are the first half of a head and whose imaginary parts are the second. Grouped queries: Ainslie et al., arXiv 2305.13245.
SwiGLU: Shazeer, arXiv 2002.05202."""

import math

import jax
import jax.numpy as jnp
import numpy as np


def rms_norm(x, gamma, epsilon):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gamma


def frequencies(shape, head_dim):
    """Radians a position. Llama 3.1 slows the waves down that are longer than its first training sequences, original / low factor,
    and blends those down to original / high factor (its model card; transformers' rope_type "llama3")."""
    plain = shape["rope_theta"] ** (-np.arange(0, head_dim, 2) / head_dim)
    waves = shape["rope_original_seq"] * plain / (2 * math.pi)
    low, high = shape["rope_low_factor"], shape["rope_high_factor"]
    share = np.clip((waves - low) / (high - low), 0, 1)
    return plain * (share + (1 - share) / shape["rope_factor"])


def rotate(x, angles):
    """x (batch, seq, heads, head_dim), angles (seq, head_dim / 2)."""
    real, imaginary = jnp.split(x, 2, axis=-1)
    cosine, sine = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    return jnp.concatenate([real * cosine - imaginary * sine, real * sine + imaginary * cosine], axis=-1)


def attention(q, k, v, rounded):
    """q (batch, seq, heads, head_dim), k and v with as many heads or a divisor of them; causal."""
    batch, seq, heads, head_dim = q.shape
    grouped = q.reshape(batch, seq, k.shape[2], -1, head_dim)
    scores = jnp.einsum("bikgd,bjkd->bkgij", grouped, k) / math.sqrt(head_dim)
    scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -jnp.inf)
    shares = rounded(jax.nn.softmax(scores, axis=-1))
    return jnp.einsum("bkgij,bjkd->bikgd", shares, v).reshape(batch, seq, heads * head_dim)


def loss(weights, batch, shape, arithmetic):
    """Mean cross-entropy of the next tokens. labels[b, t] is the token that follows input_ids[b, t] (not shifted again)."""
    rounded = arithmetic.activation
    w = {name: arithmetic.weight(value) for name, value in weights.items()}

    def linear(x, name):
        return x @ w[name + ".weight"].T

    def norm(x, name):
        return rounded(rms_norm(x, w[name + ".weight"], shape["rms_norm_epsilon"]))

    tokens = batch["input_ids"]
    table = w["model.embed_tokens.weight"]
    x = table[tokens]
    head_dim = shape["width"] // shape["heads"]
    angles = jnp.asarray(np.outer(np.arange(tokens.shape[1]), frequencies(shape, head_dim)), arithmetic.dtype)
    for layer in range(shape["layers"]):
        prefix = f"model.layers.{layer}."

        def heads_of(x, name, count):
            return rounded(linear(x, f"{prefix}self_attn.{name}")).reshape(*tokens.shape, count, head_dim)

        n = norm(x, prefix + "input_layernorm")
        q = rounded(rotate(heads_of(n, "q_proj", shape["heads"]), angles))
        k = rounded(rotate(heads_of(n, "k_proj", shape["kv_heads"]), angles))
        a = rounded(attention(q, k, heads_of(n, "v_proj", shape["kv_heads"]), rounded))
        x = rounded(x + linear(a, prefix + "self_attn.o_proj"))
        n = norm(x, prefix + "post_attention_layernorm")
        gate, up = rounded(linear(n, prefix + "mlp.gate_proj")), rounded(linear(n, prefix + "mlp.up_proj"))
        x = rounded(x + linear(rounded(gate * jax.nn.sigmoid(gate) * up), prefix + "mlp.down_proj"))
    logits = norm(x, "model.norm") @ (table if shape["tied_head"] else w["lm_head.weight"]).T
    log_p = jax.nn.log_softmax(logits, axis=-1)
    losses = -jnp.take_along_axis(log_p, batch["labels"][..., None], axis=-1)
    return losses.mean(), {"losses": losses.ravel(), "statistics": {}, "margin": jnp.inf, "strays": {}}
