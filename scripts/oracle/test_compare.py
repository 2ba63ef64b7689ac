#!/usr/bin/env python3
"""Tests that the comparison fails when it should: steps of synthetic networks, correct and with wrong optimizers.

scripts/check-oracle runs it first. Only NumPy computes here; the network functions are not called."""

import unittest
from pathlib import Path

import numpy as np

import compare
import exported
import steps as stepping

GPT2 = {"wte.weight": (96, 48), "wpe.weight": (32, 48), "h.0.ln_1.weight": (48,), "h.0.ln_1.bias": (48,),
        "h.0.attn.c_attn.weight": (48, 144), "h.0.attn.c_attn.bias": (144,), "h.0.mlp.c_fc.weight": (48, 192),
        "ln_f.weight": (48,)}
# Steps of the size that ResNet-50 takes: its decay is a quarter to a half of a weight's last place.
RESNET = {"conv1.weight": (64, 3, 7, 7), "bn1.weight": (64,), "bn1.bias": (64,), "layer1.0.conv2.weight": (64, 64, 3, 3),
          "layer1.0.downsample.0.weight": (256, 64, 1, 1), "layer1.0.downsample.1.weight": (256,), "fc.weight": (100, 256),
          "fc.bias": (100,)}
ADAMW = {"kind": "adamw", "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0, "learning_rate": 6e-5}
INCEPTION_SGD = {"kind": "sgd", "momentum": 0.9, "weight_decay": 4e-5, "clip_norm": 0, "learning_rate": 0.001125}
SGD = {"kind": "sgd", "momentum": 0.9, "weight_decay": 1e-4, "clip_norm": 0, "learning_rate": 0.0003125}


def float32_step(export, decayed, rate_factor=1.0, beta2=None, frozen=()):
    """The optimizer as the devices run it, in float32; the arguments are its mutations."""
    o, f = export.step["optimizer"], np.float32
    norm = stepping.global_norm(export.gradients)
    clip = f(min(1.0, o["clip_norm"] / norm) if o["clip_norm"] else 1.0)
    rate, updated = f(o["learning_rate"] * rate_factor), {}
    for name, w in export.weights.items():
        g, decay = export.gradients[name] * clip, f(o["weight_decay"] if name in decayed else 0)
        if o["kind"] == "adamw":
            m, v = (f(1) - f(o["beta1"])) * g, (f(1) - f(o["beta2"])) * g * g
            correction1, correction2 = f(1) - f(o["beta1"]), f(1) - f(beta2 or o["beta2"])
            new = w * (f(1) - rate * decay) - rate * (m / correction1) / (np.sqrt(v / correction2) + f(o["epsilon"]))
        else:
            new = w - rate * (g + decay * w)
        updated[name] = w if name in frozen else new
    return updated


def made_up(shapes, optimizer, weight_size=0.02, gradient_size=0.05):
    """An export with the true gradients, and the truth."""
    random = np.random.default_rng(7)
    weights, gradients = {}, {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            weights[name] = random.normal(0, weight_size, shape).astype(np.float32)
        else:
            weights[name] = np.full(shape, 1.0 if name.endswith(".weight") else 0.0, np.float32)
        gradients[name] = random.normal(0, gradient_size, shape).astype(np.float32)
    tokens = optimizer is ADAMW
    batch = {"input_ids" if tokens else "images": None}
    step = {"optimizer": dict(optimizer), "loss": 2.0, "gradient_norm": stepping.global_norm(gradients), "precision": "float32",
            "model": {"kind": "gpt2" if tokens else "resnet"}}
    export = exported.Export(Path(), step, weights, {}, batch, gradients, {}, {}, {})
    step["optimizer"]["weight_decay_parameters"] = [name for name, shape in shapes.items() if len(shape) > 1]
    export.updated = float32_step(export, step["optimizer"]["weight_decay_parameters"])
    truth = stepping.Step(2.0, np.full(4, 2.0), stepping.to_float64(gradients), {}, 1.0, {})
    return export, truth


class Comparison(unittest.TestCase):
    def failures(self, export, truth):
        findings = compare.compare(export, truth, compare.Float32Tolerance())
        return {(f.what, f.name.split("[")[0]) for f in findings if not f.good}

    def each(self):
        return made_up(GPT2, ADAMW), made_up(RESNET, SGD)

    def assert_seen(self, export, truth, what, names):
        seen = {name for kind, name in self.failures(export, truth) if kind in what}
        self.assertEqual(set(names), seen)

    def test_the_right_step_passes(self):
        for export, truth in self.each():
            self.assertEqual(set(), self.failures(export, truth))

    def test_no_decay_is_seen_in_every_decayed_tensor(self):
        for export, truth in self.each():
            export.updated = float32_step(export, ())
            self.assert_seen(export, truth, ["decay"], export.step["optimizer"]["weight_decay_parameters"])

    def test_steps_below_the_last_place_of_most_weights_round_as_they_should(self):
        export, truth = made_up({"fc.weight": (500, 2048)}, INCEPTION_SGD, 0.1, 5e-6)
        self.assertEqual(set(), self.failures(export, truth))
        export.updated = float32_step(export, ())
        self.assert_seen(export, truth, ["decay"], ["fc.weight"])

    def test_decay_of_everything_is_seen_where_weights_are_not_zero(self):
        for export, truth in self.each():
            export.updated = float32_step(export, export.weights)
            others = set(export.weights) - set(export.step["optimizer"]["weight_decay_parameters"])
            self.assert_seen(export, truth, ["decay"], [name for name in others if np.any(export.weights[name])])

    def test_a_wrong_declaration_is_seen_even_where_the_step_follows_it(self):
        for export, truth in self.each():
            declared = export.step["optimizer"]["weight_decay_parameters"]
            gamma = next(name for name, w in export.weights.items() if w.ndim == 1 and np.any(w))
            declared.append(gamma)
            export.updated = float32_step(export, declared)
            self.assertIn(("decay set", ""), self.failures(export, truth))
            self.assertIn(("decay", gamma), self.failures(export, truth))

    def test_an_untouched_weight_is_seen(self):
        for export, truth in self.each():
            gammas = [name for name, w in export.weights.items() if w.ndim == 1 and np.any(w)]
            export.updated = float32_step(export, export.step["optimizer"]["weight_decay_parameters"], frozen=gammas)
            self.assert_seen(export, truth, ["optimizer"], gammas)
            self.assert_seen(export, truth, ["step"], gammas)

    def test_a_wrong_learning_rate_is_seen_everywhere(self):
        for export, truth in self.each():
            export.updated = float32_step(export, export.step["optimizer"]["weight_decay_parameters"], rate_factor=1.01)
            self.assert_seen(export, truth, ["optimizer"], export.weights)

    def test_a_bias_correction_of_another_beta_is_seen_everywhere(self):
        export, truth = made_up(GPT2, ADAMW)
        export.updated = float32_step(export, export.step["optimizer"]["weight_decay_parameters"], beta2=0.951)
        self.assert_seen(export, truth, ["optimizer"], export.weights)

    def test_a_wrong_gradient_is_seen(self):
        for export, truth in self.each():
            name = next(iter(truth.gradients))
            truth.gradients[name] = truth.gradients[name] * 1.0002
            self.assertIn(("gradient", name), self.failures(export, truth))

    def test_a_unit_or_an_element_far_from_the_jump_is_seen(self):
        export, truth = made_up(RESNET, SGD)
        export.relu, export.pools = {"bn1": np.zeros((2, 40, 40, 64))}, {"maxpool": np.zeros((2, 20, 20, 64))}
        truth.strays = {"bn1": (3, 9e-4), "maxpool": (3, 9e-4)}
        self.assertEqual(set(), self.failures(export, truth))
        truth.strays = {"bn1": (3, 2e-3), "maxpool": (3, 2e-3)}
        self.assertEqual({("relu_strays", "bn1"), ("pool_strays", "maxpool")}, self.failures(export, truth))
        truth.strays = {"bn1": (300, 1e-6), "maxpool": (300, 1e-6)}
        self.assertEqual({("relu_strays", "bn1"), ("pool_strays", "maxpool")}, self.failures(export, truth))
        truth.strays = {"bn1": (1, np.nan), "maxpool": (1, np.nan)}
        self.assertEqual({("relu_strays", "bn1"), ("pool_strays", "maxpool")}, self.failures(export, truth))

    def test_nan_is_not_good(self):
        for export, truth in self.each():
            for name in export.updated:
                export.updated[name] = np.full_like(export.updated[name], np.nan)
            seen = self.failures(export, truth)
            for what in ("optimizer", "updated", "step"):
                self.assertEqual(set(export.weights), {name for kind, name in seen if kind == what}, what)


if __name__ == "__main__":
    unittest.main()
