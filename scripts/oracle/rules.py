"""Training recipes from the papers for each kind of network, independent of the framework."""


class Gpt2:
    # Optimizer of GPT-3 (Brown et al., arXiv 2005.14165, appendix B; GPT-2's was not published). AdamW's epsilon: the same place.
    OPTIMIZER = {"kind": "adamw", "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}

    @staticmethod
    def is_decayed(name):
        """Weight decay is for matrices, embeddings included; no bias and no layer norm (nanoGPT's rule: two or more dimensions)."""
        return name.endswith(".weight") and ".ln_" not in f".{name}"


class Llama:
    # MLPerf Training's rules for Llama 3.1 8B (mlcommons/logging, training 5.1.0).
    OPTIMIZER = {"kind": "adamw", "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.1, "clip_norm": 1.0}

    @staticmethod
    def is_decayed(name):
        """Weight decay is for matrices, embeddings included; not for norms (Megatron-LM's rule: two or more dimensions)."""
        return "norm" not in name


class ResNet:
    # He et al., arXiv 1512.03385, §3.4.
    OPTIMIZER = {"kind": "sgd", "momentum": 0.9, "weight_decay": 1e-4, "clip_norm": 0}

    @staticmethod
    def is_decayed(name):
        """Weight decay is for convolutions and the classifier's matrix; Goyal et al., arXiv 1706.02677, §5.1, exempts batch norm."""
        layer = name.removesuffix(".weight")
        is_convolution = layer.split(".")[-1].startswith("conv") or layer.endswith("downsample.0")
        return layer != name and (is_convolution or layer == "fc")


class Bert:
    # Devlin et al., arXiv 1810.04805, appendix A.2; epsilon and clipping: the released optimizer (google-research/bert, optimization.py).
    OPTIMIZER = {"kind": "adamw", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01, "clip_norm": 1.0}

    @staticmethod
    def is_decayed(name):
        """Weight decay is for matrices, embeddings included; no bias and no layer norm (the released optimizer's list)."""
        return name.endswith(".weight") and "LayerNorm" not in name


class Dlrm:
    # Plain SGD, as facebookresearch/dlrm trains it for MLPerf (bench/run_and_time.sh; torch.optim.SGD without momentum).
    OPTIMIZER = {"kind": "sgd", "momentum": 0, "weight_decay": 0, "clip_norm": 0}

    @staticmethod
    def is_decayed(name):
        """Weights of the MLPs would be, if there was a decay; rows of tables would not."""
        return name.endswith(".weight") and not name.startswith("emb_l.")


class Inception:
    # Szegedy et al., arXiv 1512.00567, §8 (momentum, clipping); weight decay: the authors' code.
    OPTIMIZER = {"kind": "sgd", "momentum": 0.9, "weight_decay": 4e-5, "clip_norm": 2.0}

    @staticmethod
    def is_decayed(name):
        """Weight decay is for convolutions and the classifiers' matrices."""
        return name.endswith((".conv.weight", "fc.weight"))


OF_KIND = {"bert": Bert, "dlrm": Dlrm, "gpt2": Gpt2, "inception": Inception, "llama": Llama, "resnet": ResNet}
