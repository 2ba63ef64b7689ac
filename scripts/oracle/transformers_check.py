#!/usr/bin/env python3
"""Compares exported float32 steps of Llama with the public definition itself, transformers' LlamaForCausalLM:
transformers_check.py FOLDER...

Needs PyTorch and transformers; scripts/check-oracle --transformers PYTHON runs it with a Python that has them. The exported
weights are loaded under their own names, and the public network must have the same ones; loss and gradients are computed in
float64, above 100 million parameters in float32. Prints a line "PASS …" or "FAIL …" for each folder.
Exit code 0: loss within 1e-5 and each gradient within 1e-4, 1: not, 77: a package is not installed."""

import json
import sys
from pathlib import Path

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import exported

LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4
MOST_FLOAT64_PARAMETERS = 100_000_000


def configuration(shape):
    return transformers.LlamaConfig(
        vocab_size=shape["vocabulary"], hidden_size=shape["width"], intermediate_size=shape["hidden"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"],
        max_position_embeddings=shape["max_seq"], rms_norm_eps=shape["rms_norm_epsilon"], hidden_act=shape["activation"],
        tie_word_embeddings=shape["tied_head"], rope_theta=float(shape["rope_theta"]),
        rope_scaling={"rope_type": "llama3", "rope_theta": float(shape["rope_theta"]), "factor": float(shape["rope_factor"]),
                      "low_freq_factor": float(shape["rope_low_factor"]), "high_freq_factor": float(shape["rope_high_factor"]),
                      "original_max_position_embeddings": shape["rope_original_seq"]},
        attention_bias=False, mlp_bias=False, use_cache=False, attn_implementation="eager")


def check(folder):
    step = json.loads((folder / "step.json").read_text())
    if step["model"]["kind"] != "llama" or step["precision"] != "float32":
        raise SystemExit(f"{folder}: wanted a float32 step of a Llama, not {step['precision']} of {step['model']['kind']}")
    weights = exported.load_file(folder / "weights.safetensors")
    count = sum(weight.size for weight in weights.values())
    dtype = torch.float64 if count <= MOST_FLOAT64_PARAMETERS else torch.float32
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(configuration(step["model"]))
    model = model.to_empty(device="cpu").to(dtype)
    model.tie_weights()  # to_empty() has separated them
    with torch.device("cpu"):
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)  # its frequencies are no weights
    public = dict(model.named_parameters())
    if set(public) != set(weights):
        raise SystemExit(f"{folder}: names differ: {sorted(set(public) ^ set(weights))}")
    with torch.no_grad():
        for name, parameter in public.items():
            parameter.copy_(torch.from_numpy(weights.pop(name).copy()))
    batch = exported.load_file(folder / "batch.safetensors")
    tokens, labels = (torch.from_numpy(np.array(batch[name])) for name in ("input_ids", "labels"))
    logits = model(input_ids=tokens).logits  # labels are the next tokens already: the model would shift them again
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    reference_loss = loss.item()
    loss_error = abs(step["loss"] - reference_loss) / reference_loss
    worst, worst_name = 0.0, ""
    for name, ours in exported.load_file(folder / "gradients.safetensors").items():
        reference = public[name].grad.numpy()
        difference = np.linalg.norm((ours - reference).ravel().astype(np.float64))
        error = float(difference / np.linalg.norm(reference.ravel().astype(np.float64)))
        if not error <= worst:
            worst, worst_name = error, name
    good = loss_error <= LOSS_TOLERANCE and worst <= GRADIENT_TOLERANCE
    print(f"{'PASS' if good else 'FAIL'} {step['model']['name']}, {count:,} parameters, {step['model']['layers']} layers, "
          f"{'x'.join(map(str, tokens.shape))} tokens, transformers {transformers.__version__} in {str(dtype).split('.')[-1]}: "
          f"loss {step['loss']:.7f} and {reference_loss:.7f}, error {loss_error:.1e}; {len(public)} gradients, worst {worst:.1e} "
          f"({worst_name})", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if all([check(Path(folder)) for folder in sys.argv[1:]]) else 1)
