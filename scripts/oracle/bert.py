"""BERT as it is pre-trained (Devlin et al., arXiv 1810.04805), with the names and layouts of Hugging Face's BertForPreTraining:
(out, in). Post-norm, GELU by erf (arXiv 1606.08415), attention over all positions; no dropout and no padding."""

import math

import jax
import jax.numpy as jnp

EPSILON = 1e-12


def layer_norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + EPSILON) * gamma + beta


def gelu(x):
    return 0.5 * x * (1 + jax.lax.erf(x / math.sqrt(2)))


def attention(q, k, v, rounded):
    """(batch, seq, heads, head_dim) each."""
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    out = jnp.einsum("bhij,bjhd->bihd", rounded(jax.nn.softmax(scores, axis=-1)), v)
    return out.reshape(*out.shape[:2], -1)


def loss(weights, batch, shape, arithmetic):
    """Mean cross-entropy of the masked tokens (labels of the others are -100) plus that of the next-sentence labels."""
    rounded = arithmetic.activation
    w = {name: arithmetic.weight(value) for name, value in weights.items()}

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return rounded(layer_norm(x, w[name + ".LayerNorm.weight"], w[name + ".LayerNorm.bias"]))

    def heads_of(x, name):
        return rounded(linear(x, name)).reshape(*x.shape[:2], shape["heads"], -1)

    tokens, table = batch["input_ids"], w["bert.embeddings.word_embeddings.weight"]
    x = rounded(table[tokens] + w["bert.embeddings.position_embeddings.weight"][:tokens.shape[1]])
    x = rounded(x + w["bert.embeddings.token_type_embeddings.weight"][batch["token_type_ids"]])
    x = norm(x, "bert.embeddings")
    for layer in range(shape["layers"]):
        prefix = f"bert.encoder.layer.{layer}."
        q, k, v = (heads_of(x, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
        a = rounded(attention(q, k, v, rounded))
        x = norm(rounded(x + linear(a, prefix + "attention.output.dense")), prefix + "attention.output")
        up = rounded(gelu(rounded(linear(x, prefix + "intermediate.dense"))))
        x = norm(rounded(x + linear(up, prefix + "output.dense")), prefix + "output")

    hidden = rounded(gelu(rounded(linear(x, "cls.predictions.transform.dense"))))
    logits = norm(hidden, "cls.predictions.transform") @ table.T + w["cls.predictions.bias"]
    labels = batch["labels"]
    masked = labels >= 0
    of_tokens = -jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), jnp.where(masked, labels, 0)[..., None], axis=-1)[..., 0]
    pooled = rounded(jnp.tanh(rounded(linear(x[:, 0], "bert.pooler.dense"))))
    of_sequences = -jnp.take_along_axis(jax.nn.log_softmax(linear(pooled, "cls.seq_relationship"), axis=-1),
                                        batch["next_sentence_label"][:, None], axis=-1)[:, 0]
    count = masked.sum()
    total = jnp.where(masked, of_tokens, 0).sum() / count + of_sequences.mean()
    # Scaled so that their mean is the loss; zero where nothing is predicted.
    places = labels.size + of_sequences.size
    losses = jnp.concatenate([jnp.where(masked, of_tokens, 0).ravel() * places / count, of_sequences * places / of_sequences.size])
    return total, {"losses": losses, "statistics": {}, "margin": jnp.inf, "strays": {}}
