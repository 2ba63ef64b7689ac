"""The pieces of gpu-validate, their order and time limits."""
import collections

# In order of worth: gpu-validate's description says why.
PIECES = ("facts", "asks", "tests", "ratios", "fp8", "energy", "checks", "oracle", "memory", "nccl", "llmc", "buckets", "precisions",
          "ops", "torch-rest", "profile")
# The test program that asks the libraries for every product of the suites, and a filter for its cases on a GPU.
ASKS = {"suite_plans_test": "*cuda*"}
# The other test programs with cases of the label gpu: a filter for them, and the share of the time that each gets where they run one
# after another. Most valuable first: steps and products, in fp8 and bf16 at the head, then cuDNN's, then single operators. Each program is
# started once, because each process opens the GPU and loads the libraries anew.
GpuTest = collections.namedtuple("GpuTest", "wanted share")
GPU_TESTS = {"cuda_steps_test": GpuTest("*", 4), "compute_products_test": GpuTest("*cuda*", 2), "cudnn_gpu_test": GpuTest("*", 3),
             "models_golden_test": GpuTest("*cuda*", 2), "cuda_device_test": GpuTest("*", 1),
             "compute_operators_test": GpuTest("*cuda*", 2), "compute_contract_test": GpuTest("*cuda*", 1)}
REHEARSED_TESTS = {"compute_contract_test": GpuTest("*cpu*", 1)}
# Time limits of pieces, if less than the time left.
LIMITS = {"facts": 60, "asks": 30, "tests": 180, "checks": 90, "oracle": 60, "memory": 30, "nccl": 45, "buckets": 150, "ops": 45}
# Seconds that a process gets for its report after SIGTERM; mpirun gives its ranks OMPI_MCA_odls_base_sigkill_timeout of them.
ENDING = 12
# A point with a goal: network, precision, micro-batch, tokens; seconds of a block of steps (at least 30 steps, 10 for gpt2-1558m and
# llama3.2-1b); PyTorch's ways (torch_step.py), most important first, for large networks only two; whether it has attention, whose
# order of summation is an option; and the reserved seconds: for one launch of trainwatt, for PyTorch, and for a window of 60 s with
# its warm-up of 30 to 60 s. ResNet-50's steps start after some 40 s of compiling in cuDNN. Most important first.
Goal = collections.namedtuple("Goal", "model precision micro_batch seq_len window ways has_attention ours torch energy")
GOALS = [
    Goal("gpt2-124m", "bf16", 32, 1024, 2.0, "16-bit-cudnn,16-bit,float32", True, 30, 60, 125),
    Goal("gpt2-1558m", "bf16", 32, 1024, 7.0, "16-bit-cudnn,float32", True, 50, 110, 150),
    Goal("llama3.2-1b", "bf16", 8, 4096, 5.0, "16-bit-cudnn,float32", True, 45, 95, 140),
    Goal("resnet-50", "bf16", 256, None, 3.0, "", False, 75, 60, 260),
]
ENERGY_WINDOW, TRIALS = 60, 3
# Shares of facts, of asks and tests with PyTorch's compilation, of this compilation alone, of profile at the end.
FACTS, PREPARING, COMPILING, PROFILING = 10, 130, 90, 5
ANY_ORDER = ("--deterministic", "no")
# A launch of trainwatt-train: network, precisions, micro-batch, tokens, seconds of a trial, trials, seconds after which it is told to
# end with its finished points, and further options. A network has one micro-batch in all precisions, so that ratios are meaningful.
# Convolutions in 16 bits, which cuDNN compiles, have their own launch.
Launch = collections.namedtuple("Launch", "model precisions micro_batch seq_len window trials limit more", defaults=((),))
FP8 = [Launch("gpt2-1558m", ["fp8"], 32, 1024, 3.5, 3, 60)]  # has a goal, so also a share
# Most important first, in case time runs out.
PRECISIONS = [
    Launch("bert-large", ["bf16"], 64, 512, 2.0, 3, 60),
    Launch("inception-v3", ["bf16"], 256, None, 2.0, 3, 120),
    Launch("dlrm", ["bf16", "float32"], 65536, None, 1.0, 3, 90, ("--table-rows-at-most", "10000000")),
    Launch("gpt2-124m", ["float32", "tf32", "fp16", "fp8"], 32, 1024, 0.7, 3, 75),
    Launch("llama3.2-1b", ["fp8", "tf32", "fp16", "float32"], 8, 4096, 1.5, 3, 110),
    Launch("resnet-50", ["float32", "tf32"], 256, None, 0.7, 3, 60),
    Launch("resnet-50", ["fp16"], 256, None, 0.7, 3, 110),
    Launch("bert-large", ["fp8", "tf32", "fp16", "float32"], 64, 512, 0.7, 3, 75),
    Launch("inception-v3", ["float32", "tf32"], 256, None, 0.7, 3, 60),
    Launch("inception-v3", ["fp16"], 256, None, 0.7, 3, 120),
    Launch("gpt2-1558m", ["tf32", "fp16", "float32"], 32, 1024, 1.5, 3, 110),
]
# Steps with gradients through NCCL and these sizes of buckets in MiB, most telling first: the default, one bucket for all gradients,
# sizes between and below. Reserved is nothing; a launch starts if there are these seconds.
Buckets = collections.namedtuple("Buckets", "launch sizes_mib seconds")
BUCKETS = Buckets(Launch("gpt2-124m", ["bf16"], 32, 1024, 1.0, 3, 60), (25, 1024, 100, 5), 25)
REHEARSED_BUCKETS = Buckets(Launch("gpt2-tiny", ["float32"], 8, 64, 0.1, 1, 300), (25, 0.25), 0)
DEFAULT_BUCKET_MIB = 25
REHEARSED_GOALS = [Goal("gpt2-tiny", "bf16", 8, 64, 0.2, "", True, 20, 20, 20), Goal("resnet-tiny", "float32", 8, None, 0.2, "", False, 20, 20, 0)]
REHEARSED_FP8 = [Launch("gpt2-tiny", ["fp8"], 8, 64, 0.2, 3, 300)]
REHEARSED = [
    Launch("gpt2-tiny", ["float32", "tf32", "fp16"], 8, 64, 0.2, 3, 300),
    Launch("llama-tiny", ["float32"], 8, 64, 0.2, 1, 300),
    Launch("dlrm-tiny", ["float32"], 64, None, 0.2, 1, 300, ("--table-rows-at-most", "100")),
]
# Micro-batches above fill 141 GB (H200); GPUs with less than this many MiB get these ones.
LARGE_MIB = 120000
SMALLER = {"gpt2-1558m": 8, "llama3.2-1b": 2}
# On a GPU with less than this, a part of a larger one for example, a step of any network may leave no room for other programs.
BESIDE_MIB = 64000
# Together they have time for everything with a goal. The first has asks and tests, which do not depend on the network: the others leave
# them out, unless --only names them.
CALLS = ("gpt2-124m", "gpt2-1558m", "llama3.2-1b", "resnet-50", "bert-large,inception-v3,dlrm")
# Goals: trainwatt ÷ compiled PyTorch, MFU, share of the ceiling, fp8 ÷ bf16 of trainwatt.
RATIO_GOALS = {("gpt2-124m", "bf16"): 1.25, ("gpt2-1558m", "bf16"): 1.25, ("llama3.2-1b", "bf16"): 1.25, ("resnet-50", "bf16"): 1.1}
MFU_GOALS = {("gpt2-1558m", "bf16"): 0.53}
CEILING_GOALS = {("gpt2-1558m", "bf16"): 0.70}
FP8_GOALS = {"gpt2-1558m": 1.25}
# Networks that llm.c has, by its names for random weights; seconds of one of its launches, which makes those weights on one processor.
LLMC = {"gpt2-124m": "d12", "gpt2-1558m": "d48"}
LLMC_SECONDS = {"gpt2-124m": 45, "gpt2-1558m": 180}
# Networks that torch_step.py does not have.
WITHOUT_PEER = ("dlrm", "dlrm-tiny", "resnet-tiny")
NO_PEER = "torch_step.py does not have this network"
# A rehearsal's ledger: a CPU is not in the list of vendor peaks.
REHEARSED_LEDGER = "NVIDIA H200"
# A pack fits through what takes 60 MiB, such as a mail gateway or a job's sandbox.
PACK_LIMIT_MIB = 60


def fitting(one, memory_mib):
    """The goal or launch with the micro-batch for a GPU with this memory (None: unknown, the large one)."""
    if memory_mib and memory_mib < LARGE_MIB and one.model in SMALLER:
        return one._replace(micro_batch=SMALLER[one.model])
    return one


def fills(goal, memory_mib):
    """Whether a step of the goal may take so much of this memory (None: unknown, a large one) that no other program fits beside it."""
    return goal.model in SMALLER or bool(memory_mib and memory_mib < BESIDE_MIB)


def shares_of(goals, launches, wanted, budget):
    """(what, seconds) of all reserved time, in order of execution. Energy windows have a share only as far as the budget has time for all
    shares; they are dropped from the last goal on."""
    def shares(with_energy):
        made = [("facts", FACTS)] if "facts" in wanted else []
        if "asks" in wanted or "tests" in wanted:
            made.append(("preparing", PREPARING))
        elif "ratios" in wanted and goals:
            made.append(("preparing", COMPILING))
        if "ratios" in wanted:
            for goal in goals:
                made += [(f"{goal.model} ours", goal.ours), (f"{goal.model} torch", goal.torch)]
                if goal.has_attention:
                    made.append((f"{goal.model} any-order", goal.ours))
                if goal.model not in with_energy:
                    made.append((f"{goal.model} again", goal.ours))
        if "fp8" in wanted:
            made += [(f"{launch.model} fp8", launch.limit) for launch in launches]
        return made + [(f"{model} energy", seconds) for model, seconds in with_energy.items()]

    windows = {goal.model: goal.energy for goal in goals if goal.energy and "energy" in wanted}
    at_the_end = PROFILING if "profile" in wanted else 0
    while windows and sum(seconds for _, seconds in shares(windows)) + at_the_end > budget:
        windows.popitem()
    return shares(windows)
