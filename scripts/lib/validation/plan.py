"""What gpu-validate does, in which order, and how long it may take."""
import collections

PIECES = ("facts", "tests", "ratios", "energy", "checks", "oracle", "memory", "nccl", "precisions", "ops", "torch-rest")
# Test programs with cases of the label gpu, and which cases these are.
GPU_TESTS = {"cuda_device_test": "*", "cuda_steps_test": "*", "cudnn_gpu_test": "*", "compute_contract_test": "*cuda*",
             "compute_operators_test": "*cuda*", "compute_products_test": "*cuda*", "models_golden_test": "*cuda*"}
# What a piece may take at most, where that is less than what is left.
LIMITS = {"facts": 60, "tests": 180, "checks": 90, "oracle": 60, "memory": 30, "nccl": 45, "ops": 45}
# What a process that is told to end may take for its report: mpirun gives its ranks OMPI_MCA_odls_base_sigkill_timeout of it.
ENDING = 12
# A point that has a goal: its network, precision, micro-batch, tokens; the seconds of a block of steps, at least 30 of them but for
# gpt2-1558m's 20; PyTorch's ways (torch_step.py) in the order of their worth, the longest of networks in the outermost two alone; and its
# shares: the seconds that are kept for one start of ours, for PyTorch, and for a window of 60 s with its warm-up, which takes half of
# that or all (0: has none). ResNet-50's steps begin after some 40 s of compiling in cuDNN.
Goal = collections.namedtuple("Goal", "model precision micro_batch seq_len window ways ours torch energy")
GOALS = [
    Goal("gpt2-124m", "bf16", 32, 1024, 2.0, "16-bit-cudnn,16-bit,float32", 30, 60, 125),
    Goal("gpt2-1558m", "bf16", 8, 1024, 3.5, "16-bit-cudnn,float32", 45, 90, 0),
    Goal("resnet-50", "bf16", 256, None, 3.0, "", 75, 60, 260),
]
ENERGY_WINDOW, TRIALS = 60, 3
FACTS, PREPARING = 10, 130  # the shares of facts, and of tests with PyTorch's compiling
# A start of trainwatt-train: its network, precisions, micro-batch, tokens, seconds of a trial, trials, the seconds after which it is
# told to end, with what it has, and further options. A network has one micro-batch in all precisions, so that their ratios mean
# something. What cuDNN compiles for convolutions in 16 bits has a start to itself.
Launch = collections.namedtuple("Launch", "model precisions micro_batch seq_len window trials limit more", defaults=((),))
# In the order of their worth, should time run out. gpt2-355m has the layers of bert-large, here in its sequence of 512.
PRECISIONS = [
    Launch("gpt2-1558m", ["fp8"], 8, 1024, 1.5, 3, 60),
    Launch("gpt2-124m", ["bf16"], 32, 1024, 2.0, 3, 60, ("--deterministic", "no")),
    Launch("gpt2-124m", ["float32", "tf32", "fp16", "fp8"], 32, 1024, 0.7, 3, 75),
    Launch("resnet-50", ["float32", "tf32"], 256, None, 0.7, 3, 60),
    Launch("resnet-50", ["fp16"], 256, None, 0.7, 3, 110),
    Launch("gpt2-355m", ["float32", "tf32", "bf16", "fp16", "fp8"], 16, 512, 0.7, 3, 75),
    Launch("gpt2-1558m", ["float32", "tf32", "fp16"], 8, 1024, 0.7, 3, 75),
]
REHEARSED_GOALS = [Goal("gpt2-tiny", "bf16", 8, 64, 0.2, "", 300, 300, 300), Goal("resnet-tiny", "float32", 8, None, 0.2, "", 300, 300, 0)]
REHEARSED = [Launch("gpt2-tiny", ["float32", "tf32", "fp16", "fp8"], 8, 64, 0.3, 3, 300)]
# The goals: ours ÷ PyTorch compiled, the share of the ceiling, fp8 ÷ our own bf16.
RATIO_GOALS = {("gpt2-124m", "bf16"): 1.1, ("gpt2-1558m", "bf16"): 1.1, ("resnet-50", "bf16"): 1.05}
CEILING_GOALS = {("gpt2-1558m", "bf16"): 0.70}
FP8_GOALS = {"gpt2-1558m": 1.25}


def shares_of(goals, wanted):
    """(what, seconds) of all that is kept time for, in the order in which it runs."""
    shares = [("facts", FACTS)]
    if "tests" in wanted or "ratios" in wanted:
        shares.append(("preparing", PREPARING))
    if "ratios" in wanted:
        for goal in goals:
            shares += [(f"{goal.model} ours", goal.ours), (f"{goal.model} torch", goal.torch)]
            if not (goal.energy and "energy" in wanted):
                shares.append((f"{goal.model} ours again", goal.ours))
    if "energy" in wanted:
        shares += [(f"{goal.model} energy", goal.energy) for goal in goals if goal.energy]
    return shares
