"""First weights of the networks, drawn with NumPy from their published initialisations: (shape, rng) → name → float64."""

import math

import numpy as np

import inception_units


def gpt2(shape, rng):
    """Radford et al. 2019, as released: normal(0.02), positions normal(0.01); projections into the residual stream smaller
    by √(2·layers), as the paper has it."""
    width, layers = shape["width"], shape["layers"]
    weights = {}

    def matrix(name, rows, columns, scale=1.0):
        weights[name] = rng.normal(0, 0.02 * scale, (rows, columns))

    def linear(name, inputs, outputs, scale=1.0):
        matrix(name + ".weight", inputs, outputs, scale)
        weights[name + ".bias"] = np.zeros(outputs)

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = np.ones(width), np.zeros(width)

    matrix("wte.weight", shape["vocabulary"], width)
    matrix("wpe.weight", shape["max_seq"], width, 0.5)
    residual = 1 / math.sqrt(2 * layers)
    for layer in range(layers):
        h = f"h.{layer}."
        norm(h + "ln_1")
        linear(h + "attn.c_attn", width, 3 * width)
        linear(h + "attn.c_proj", width, width, residual)
        norm(h + "ln_2")
        linear(h + "mlp.c_fc", width, 4 * width)
        linear(h + "mlp.c_proj", 4 * width, width, residual)
    norm("ln_f")
    return weights


def llama(shape, rng):
    """Megatron-LM's, with which MLPerf trains it: normal(0.02), projections into the residual stream smaller by √(2·layers), norms 1."""
    width, head_dim = shape["width"], shape["width"] // shape["heads"]
    weights = {}

    def matrix(name, inputs, outputs, scale=1.0):
        weights[name + ".weight"] = rng.normal(0, 0.02 * scale, (outputs, inputs))

    matrix("model.embed_tokens", width, shape["vocabulary"])
    residual = 1 / math.sqrt(2 * shape["layers"])
    for layer in range(shape["layers"]):
        prefix = f"model.layers.{layer}."
        for name, heads in (("q_proj", shape["heads"]), ("k_proj", shape["kv_heads"]), ("v_proj", shape["kv_heads"])):
            matrix(f"{prefix}self_attn.{name}", width, heads * head_dim)
        matrix(prefix + "self_attn.o_proj", width, width, residual)
        matrix(prefix + "mlp.gate_proj", width, shape["hidden"])
        matrix(prefix + "mlp.up_proj", width, shape["hidden"])
        matrix(prefix + "mlp.down_proj", shape["hidden"], width, residual)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}{name}.weight"] = np.ones(width)
    weights["model.norm.weight"] = np.ones(width)
    if not shape["tied_head"]:
        matrix("lm_head", width, shape["vocabulary"])
    return weights


def bert(shape, rng):
    """Devlin et al. 2018, as in Hugging Face's BERT: normal(0.02) without truncation, biases 0, norms 1."""
    width, hidden = shape["width"], shape["hidden"]
    weights = {}

    def matrix(name, rows, columns):
        weights[name + ".weight"] = rng.normal(0, 0.02, (rows, columns))

    def linear(name, inputs, outputs):
        matrix(name, outputs, inputs)
        weights[name + ".bias"] = np.zeros(outputs)

    def norm(name):
        weights[name + ".LayerNorm.weight"], weights[name + ".LayerNorm.bias"] = np.ones(width), np.zeros(width)

    for name, rows in (("word", shape["vocabulary"]), ("position", shape["max_seq"]), ("token_type", shape["segments"])):
        matrix(f"bert.embeddings.{name}_embeddings", rows, width)
    norm("bert.embeddings")
    for layer in range(shape["layers"]):
        prefix = f"bert.encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            linear(f"{prefix}attention.self.{name}", width, width)
        linear(prefix + "attention.output.dense", width, width)
        norm(prefix + "attention.output")
        linear(prefix + "intermediate.dense", width, hidden)
        linear(prefix + "output.dense", hidden, width)
        norm(prefix + "output")
    linear("bert.pooler.dense", width, width)
    linear("cls.predictions.transform.dense", width, width)
    norm("cls.predictions.transform")
    weights["cls.predictions.bias"] = np.zeros(shape["vocabulary"])
    linear("cls.seq_relationship", width, 2)
    return weights


def dlrm(shape, rng):
    """facebookresearch/dlrm's: rows of a table uniform within ±√(1/rows), weights normal(√(2/(in + out))), biases normal(√(1/out))."""
    weights = {}

    def mlp(name, inputs, outputs):
        for index, out in enumerate(outputs):
            layer = f"{name}.{2 * index}"
            weights[layer + ".weight"] = rng.normal(0, math.sqrt(2 / (inputs + out)), (out, inputs))
            weights[layer + ".bias"] = rng.normal(0, math.sqrt(1 / out), out)
            inputs = out

    width, tables = shape["bottom"][-1], len(shape["table_rows"])
    mlp("bot_l", shape["dense_features"], shape["bottom"])
    for table, rows in enumerate(shape["table_rows"]):
        weights[f"emb_l.{table}.weight"] = rng.uniform(-math.sqrt(1 / rows), math.sqrt(1 / rows), (rows, width))
    mlp("top_l", width + (tables + 1) * tables // 2, [*shape["top"], 1])
    return weights


def resnet(shape, rng):
    """torchvision's: convolutions by He et al. (arXiv 1502.01852, fan-out), the classifier by Goyal et al. (arXiv 1706.02677)."""
    weights = {}

    def convolution(name, inputs, outputs, kernel):
        weights[name + ".weight"] = rng.normal(0, math.sqrt(2 / (outputs * kernel**2)), (outputs, inputs, kernel, kernel))

    def norm(name, channels):
        weights[name + ".weight"], weights[name + ".bias"] = np.ones(channels), np.zeros(channels)

    inputs, width = shape["stem_width"], shape["stem_width"]
    convolution("conv1", shape["image_channels"], width, shape["stem_kernel"])
    norm("bn1", width)
    for stage, blocks in enumerate(shape["blocks"], 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            for index, (rows, columns, kernel) in enumerate(((inputs, width, 1), (width, width, 3), (width, 4 * width, 1)), 1):
                convolution(f"{name}.conv{index}", rows, columns, kernel)
                norm(f"{name}.bn{index}", columns)
            if block == 0:
                convolution(f"{name}.downsample.0", inputs, 4 * width, 1)
                norm(f"{name}.downsample.1", 4 * width)
            inputs = 4 * width
        width *= 2
    weights["fc.weight"] = rng.normal(0, 0.01, (shape["classes"], inputs))
    weights["fc.bias"] = np.zeros(shape["classes"])
    return weights


def inception(shape, rng):
    """The authors' (TensorFlow models, inception_v3), whose truncation at two deviations is left out: normal(0.1), of the auxiliary
    head's second convolution normal(0.01), of its classifier normal(0.001); biases 0, norms 1. Channels: Szegedy et al.,
    arXiv 1512.00567, as torchvision has them."""
    narrowing, weights = shape["narrowing"], {}

    def unit(name, inputs, outputs, rows, columns, deviation=0.1):
        outputs //= narrowing
        weights[name + ".conv.weight"] = rng.normal(0, deviation, (outputs, inputs, rows, columns))
        weights[name + ".bn.weight"], weights[name + ".bn.bias"] = np.ones(outputs), np.zeros(outputs)
        return outputs

    def classifier(name, inputs, deviation=0.1):
        weights[name + ".weight"], weights[name + ".bias"] = rng.normal(0, deviation, (shape["classes"], inputs)), np.zeros(shape["classes"])

    channels = shape["image_channels"]
    for (name, _, _), outputs, kernel in zip(inception_units.STEM, (32, 32, 64, 80, 192), (3, 3, 3, 1, 3), strict=True):
        channels = unit(name, channels, outputs, kernel, kernel)

    def module(name, parts):
        """parts: channels, rows and columns of each unit, in inception_units' order. Returns the module's channels."""
        kind = inception_units.kind_of(name)
        of, joined = {"x": channels, "pooled": channels}, channels if kind in "BD" else 0
        for (part, source, _, is_joined), sizes in zip(inception_units.UNITS[kind], parts, strict=True):
            of[part] = unit(f"{name}.{part}", of[source], *sizes)
            joined += of[part] if is_joined else 0
        return joined

    letter = {"5": "bcd", "6": "bcdef", "7": "bcd"}
    for place, features in zip(letter["5"], shape["pool_features"]):
        channels = module("Mixed_5" + place, [(64, 1, 1), (48, 1, 1), (64, 5, 5), (64, 1, 1), (96, 3, 3), (96, 3, 3), (features, 1, 1)])
    channels = module("Mixed_6a", [(384, 3, 3), (64, 1, 1), (96, 3, 3), (96, 3, 3)])
    for place, c in zip(letter["6"], shape["factorised_channels"]):
        channels = module("Mixed_6" + place, [(192, 1, 1), (c, 1, 1), (c, 1, 7), (192, 7, 1), (c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1),
                                              (192, 1, 7), (192, 1, 1)])
    seen = unit("AuxLogits.conv0", channels, 128, 1, 1)
    seen = unit("AuxLogits.conv1", seen, 768, shape["auxiliary_kernel"], shape["auxiliary_kernel"], 0.01)
    classifier("AuxLogits.fc", seen, 0.001)
    channels = module("Mixed_7a", [(192, 1, 1), (320, 3, 3), (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3)])
    for place in letter["7"][:shape["wide_modules"]]:
        channels = module("Mixed_7" + place, [(320, 1, 1), (384, 1, 1), (384, 1, 3), (384, 3, 1), (448, 1, 1), (384, 3, 3), (384, 1, 3),
                                              (384, 3, 1), (192, 1, 1)])
    classifier("fc", channels)
    return weights
