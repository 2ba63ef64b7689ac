"""The pieces of gpu-validate, their order and time limits."""
import collections

PIECES = ("facts", "tests", "ratios", "energy", "checks", "oracle", "memory", "nccl", "precisions", "ops", "torch-rest")
# Test programs with cases of the label gpu, and a filter for these cases.
GPU_TESTS = {"cuda_device_test": "*", "cuda_steps_test": "*", "cudnn_gpu_test": "*", "compute_contract_test": "*cuda*",
             "compute_operators_test": "*cuda*", "compute_products_test": "*cuda*", "models_golden_test": "*cuda*"}
# Time limits of pieces, if less than the time left.
LIMITS = {"facts": 60, "tests": 180, "checks": 90, "oracle": 60, "memory": 30, "nccl": 45, "ops": 45}
# Seconds that a process gets for its report after SIGTERM; mpirun gives its ranks OMPI_MCA_odls_base_sigkill_timeout of them.
ENDING = 12
# A point with a goal: network, precision, micro-batch, tokens; seconds of a block of steps (at least 30 steps, 20 for gpt2-1558m);
# PyTorch's ways (torch_step.py), most important first, for the largest network only two; and the reserved seconds: for one launch of
# trainwatt, for PyTorch, and for a window of 60 s with its warm-up of 30 to 60 s (0: no energy window). ResNet-50's steps start
# after some 40 s of compiling in cuDNN.
Goal = collections.namedtuple("Goal", "model precision micro_batch seq_len window ways ours torch energy")
GOALS = [
    Goal("gpt2-124m", "bf16", 32, 1024, 2.0, "16-bit-cudnn,16-bit,float32", 30, 60, 125),
    Goal("gpt2-1558m", "bf16", 8, 1024, 3.5, "16-bit-cudnn,float32", 45, 90, 0),
    Goal("resnet-50", "bf16", 256, None, 3.0, "", 75, 60, 260),
]
ENERGY_WINDOW, TRIALS = 60, 3
FACTS, PREPARING = 10, 130  # shares of facts, and of tests with PyTorch's compilation
# A launch of trainwatt-train: network, precisions, micro-batch, tokens, seconds of a trial, trials, seconds after which it is told to
# end with its finished points, and further options. A network has one micro-batch in all precisions, so that ratios are meaningful.
# Convolutions in 16 bits, which cuDNN compiles, have their own launch.
Launch = collections.namedtuple("Launch", "model precisions micro_batch seq_len window trials limit more", defaults=((),))
# Most important first, in case time runs out. gpt2-355m has the layers of bert-large, here with its sequence length of 512.
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
# Goals: trainwatt ÷ compiled PyTorch, share of the ceiling, fp8 ÷ bf16 of trainwatt.
RATIO_GOALS = {("gpt2-124m", "bf16"): 1.1, ("gpt2-1558m", "bf16"): 1.1, ("resnet-50", "bf16"): 1.05}
CEILING_GOALS = {("gpt2-1558m", "bf16"): 0.70}
FP8_GOALS = {"gpt2-1558m": 1.25}


def shares_of(goals, wanted):
    """(what, seconds) of all reserved time, in order of execution."""
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
