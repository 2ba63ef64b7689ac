#!/usr/bin/env python3
"""Compares exported float32 steps of Llama and BERT with the public definitions themselves, transformers' LlamaForCausalLM and
BertForPreTraining: transformers_check.py FOLDER...

Needs PyTorch and transformers; scripts/check-oracle --transformers PYTHON runs it with a Python that has them. The exported
weights are loaded under their own names, and the public network must have the same ones; loss and gradients are computed in
float64, above 100 million parameters in float32. The error of a gradient that is zero in truth (1e-9 of the others: BERT's biases
of keys) is relative to the whole gradient. Prints a line "PASS …" or "FAIL …" for each folder.
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

import compare
import exported
import steps

LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4
MOST_FLOAT64_PARAMETERS = 100_000_000


def llama(shape):
    config = transformers.LlamaConfig(
        vocab_size=shape["vocabulary"], hidden_size=shape["width"], intermediate_size=shape["hidden"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"],
        max_position_embeddings=shape["max_seq"], rms_norm_eps=shape["rms_norm_epsilon"], hidden_act=shape["activation"],
        tie_word_embeddings=shape["tied_head"], rope_theta=float(shape["rope_theta"]),
        rope_scaling={"rope_type": "llama3", "rope_theta": float(shape["rope_theta"]), "factor": float(shape["rope_factor"]),
                      "low_freq_factor": float(shape["rope_low_factor"]), "high_freq_factor": float(shape["rope_high_factor"]),
                      "original_max_position_embeddings": shape["rope_original_seq"]},
        attention_bias=False, mlp_bias=False, use_cache=False, attn_implementation="eager")
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config)


def llama_buffers(model):
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)  # its frequencies are no weights


def llama_loss(model, batch):
    logits = model(input_ids=batch["input_ids"]).logits  # labels are the next tokens already: the model would shift them again
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())


def bert(shape):
    config = transformers.BertConfig(
        vocab_size=shape["vocabulary"], hidden_size=shape["width"], intermediate_size=shape["hidden"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], max_position_embeddings=shape["max_seq"],
        type_vocab_size=shape["segments"], layer_norm_eps=shape["layer_norm_epsilon"], hidden_act=shape["activation"],
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, tie_word_embeddings=True, attn_implementation="eager")
    with torch.device("meta"):
        return transformers.BertForPreTraining(config)


def bert_buffers(model):
    embeddings = model.bert.embeddings
    embeddings.position_ids.copy_(torch.arange(embeddings.position_ids.shape[-1])[None])
    embeddings.token_type_ids.zero_()


def bert_loss(model, batch):
    return model(**batch).loss  # both heads' mean losses, added; labels are -100 where nothing is predicted


# The network without values, what it needs besides weights, and its loss on the exported batch.
OF_KIND = {"bert": (bert, bert_buffers, bert_loss), "llama": (llama, llama_buffers, llama_loss)}


def check(folder):
    step = json.loads((folder / "step.json").read_text())
    if step["model"]["kind"] not in OF_KIND or step["precision"] != "float32":
        exported.fail(1, "wrong-export", f"{folder}: wanted a float32 step of {' or '.join(OF_KIND)}, not {step['precision']} of {step['model']['kind']}")
    make, make_buffers, loss_of = OF_KIND[step["model"]["kind"]]
    weights = exported.load_file(folder / "weights.safetensors")
    count = sum(weight.size for weight in weights.values())
    dtype = torch.float64 if count <= MOST_FLOAT64_PARAMETERS else torch.float32
    model = make(step["model"]).to_empty(device="cpu").to(dtype)
    model.tie_weights()  # to_empty() has separated them
    make_buffers(model)
    public = dict(model.named_parameters())
    if set(public) != set(weights):
        exported.fail(1, "wrong-export", f"{folder}: names differ: {sorted(set(public) ^ set(weights))}")
    with torch.no_grad():
        for name, parameter in public.items():
            parameter.copy_(torch.from_numpy(weights.pop(name).copy()))
    batch = {name: torch.from_numpy(np.array(value)) for name, value in exported.load_file(folder / "batch.safetensors").items()}
    loss = loss_of(model, batch)
    loss.backward()
    reference_loss = loss.item()
    loss_error = abs(step["loss"] - reference_loss) / reference_loss
    references = {name: parameter.grad.numpy() for name, parameter in public.items()}
    zero = compare.vanishing(references)
    whole = steps.global_norm(references)
    worst, worst_name = 0.0, ""
    for name, ours in exported.load_file(folder / "gradients.safetensors").items():
        difference = compare.norm(ours - references[name])
        error = difference / (whole if name in zero else compare.norm(references[name]))
        if not error <= worst:
            worst, worst_name = error, name
    good = loss_error <= LOSS_TOLERANCE and worst <= GRADIENT_TOLERANCE
    print(f"{'PASS' if good else 'FAIL'} {step['model']['name']}, {count:,} parameters, {step['model']['layers']} layers, "
          f"{'x'.join(map(str, batch['input_ids'].shape))} tokens, transformers {transformers.__version__} in {str(dtype).split('.')[-1]}: "
          f"loss {step['loss']:.7f} and {reference_loss:.7f}, error {loss_error:.1e}; {len(public)} gradients, worst {worst:.1e} "
          f"({worst_name})", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if all([check(Path(folder)) for folder in sys.argv[1:]]) else 1)
