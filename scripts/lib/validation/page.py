"""gpu-validate's page for people, summary.md, and the text of a profile."""
from validation.figures import furthest, name_of
from validation.plan import DEFAULT_BUCKET_MIB

MEANINGS = {"facts": "says which machine this is", "asks": "asks the libraries for each product of the suites",
            "tests": "runs the tests that need a GPU", "ratios": "compares bf16 steps with compiled PyTorch",
            "fp8": "compares fp8 with bf16", "energy": "measures joules in windows of 60 s",
            "llmc": "compares bf16 steps with llm.c",
            "checks": "trains on two ranks, with recomputation, with accumulation, and after a point that does not fit",
            "oracle": "compares exported steps with PyTorch in float64", "memory": "looks for accesses outside of buffers",
            "nccl": "trains with NCCL", "buckets": "compares sizes of gradient buckets",
            "precisions": "measures other networks and precisions", "ops": "times products and attention alone",
            "torch-rest": "runs PyTorch on the other points", "profile": "puts each operator beside its least time"}

COLUMNS = """- **point**: network, precision, micro-batch (`mb`) × tokens of a sample, options. By default trainwatt's sums do not depend on the order in
  which blocks of the GPU run, so that two steps give the same bits; `--deterministic no` allows any order, as PyTorch does.
- **÷ PyTorch**: samples/s ÷ those of PyTorch with `torch.compile` on the same work. With a range: median of blocks (trainwatt, PyTorch twice,
  trainwatt) with minimum and maximum. Without: one measurement each, one after the other.
- **÷ bf16**: samples/s ÷ those of the same network in bf16.
- **of ceiling**: FLOP/s of the step ÷ FLOP/s of its own products and convolutions run alone.
- **MFU**: FLOP/s of the step ÷ the vendor's dense peak.
- **J/sample**: energy of the GPU, with the meter's uncertainty; (short): from windows under 60 s. **PyTorch J/sample**: of its timed blocks,
  by the same counter of the GPU. **J ÷ PyTorch**: less than 1 is less energy for the same samples.
- **flag**: what `trainwatt show` explains of the point's report in `steps/` of the archive; busy_host, for example: other programs used the CPU.
- **–**: does not apply or was not measured; the reason is in the last column, or below if all points have the same."""
GOALS = "A goal is reached if the figure is at least the one asked for."
LEAST = """**Least time**: FLOPs at the vendor's dense peak or bytes at the memory's bandwidth, whichever takes longer; calculated. **Above least**: the
time of an operator in a profiled step, whose operators run one by one, less its least time: what could be gained at most. Named are the three
operators of each point with the most of it. **Outside operators**: the rest of the profiled step. `profiles/` in the archive has all."""
BUCKETS = """**Bucket**: `--bucket-mib`, in steps whose gradients go through the named library. One rank has nothing to exchange: its rows say what it
costs that each full bucket ends a graph of the backward pass. On several ranks, small buckets start the exchange early and large ones use the
links better. **Communication**: what the backward pass does not hide. One launch for each size: differences of about 1 % mean nothing."""
LLMC = """**÷ llm.c**: samples/s ÷ those of llm.c's own program on the same micro-batch and tokens, in bf16 with float32 copies of the weights: median of
blocks (trainwatt, llm.c, trainwatt, llm.c) with minimum and maximum. Its steps are timed by itself, with events of the device."""
REHEARSED_LEAST = """This is a CPU, which the list of vendor peaks does not have. So the first columns are this CPU's, the last one is the least time of the same
step on an {}, calculated and not measured. They are of different devices: do not compare them. On a GPU of the list, this table names
the operators of each network that are furthest from the device's limit instead."""


def shown(value, form):
    return "–" if value is None else format(value, form)


def seconds(value):
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value is not None and value >= size:
            return f"{value / size:.3g} {unit}"
    return "–" if value is None else f"{value / 1e-9:.3g} ns"


def cell(text):
    """One line without the table's own sign: a reason may contain any text."""
    return str(text).replace("|", "/").replace("\n", " ")


def rows_of(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(cell, row)) + " |" for row in rows)])


def goals_table(goals):
    def row(goal):
        measured = shown(goal["measured"], ".3f")
        if goal["range"]:
            measured += " [{:.3f} … {:.3f}]".format(*goal["range"])
        return [goal["goal"], f"≥ {goal['asked']}", measured, "**MISSED**" if goal["state"] == "missed" else goal["state"], goal["reason"] or "–"]
    return rows_of(["goal", "asked", "measured", "result", "why not measured"], map(row, goals))


def number(value):
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def lacking(summary):
    """(figure, reason, whether it is the reason of all measured points) of each figure that measured points lack."""
    measured = [point for point in summary["points"] if point.get("samples_per_s") is not None]
    found = []
    for figure, of in (("÷ PyTorch", lambda point: None if "ratio_to_torch" in point else
                        point.get("torch_reason") or summary.get("no_torch") or "no time was left, or not asked for in this call"),
                       ("MFU", lambda point: None if point.get("mfu") is not None else point.get("mfu_reason") or "no vendor peak"),
                       ("J/sample", lambda point: None if point.get("energy") else point.get("energy_reason") or "no meter counted"),
                       ("J ÷ PyTorch", lambda point: point.get("joules_reason") if point.get("energy") else None)):
        reasons = [of(point) for point in measured]
        is_common = len(measured) > 1 and len(set(reasons)) == 1
        found += [(figure, reason, is_common) for reason in dict.fromkeys(reasons) if reason]
    return found


def points_table(summary):
    # Of windows as short as these, and said below where a meter is missing.
    expected = {"short", "few_trials", "no_energy_meter"}
    common = {(figure, reason) for figure, reason, is_common in lacking(summary) if is_common}

    def row(point):
        rate, peer, energy = point.get("samples_per_s"), point.get("torch", {}), point.get("energy")
        notes = [] if rate else [point.get("reason", "")]
        notes += [f"{what}: {point[key]}" for key, what in (("energy_failed", "window of 60 s"), ("again_failed", "second blocks"),
                                                           ("profile_reason", "profile")) if rate and point.get(key)]
        if rate:
            verdict = point["verdict"]
            notes += [] if verdict["status"] == "valid" else [f"{verdict['status']}: {'; '.join(verdict['reasons'])}"]
            notes += [f"flag {flag}" for flag in verdict["flags"] if flag not in expected]
            notes += [f"{figure}: {reason}" for figure, reason, _ in lacking({"points": [point], "no_torch": summary.get("no_torch")})
                      if (figure, reason) not in common]
        if len(peer.get("ways", {})) > 1:
            notes.append("PyTorch's variants, samples/s: " + ", ".join(
                f"{name} " + (number(way["samples_per_s"]["median"]) if "error" not in way else f"({way['error']})")
                for name, way in peer["ways"].items()))
        ratio = shown(point.get("ratio_to_torch"), ".3f")
        if "ratio_to_torch_range" in point:
            ratio += " [{:.3f} … {:.3f}]".format(*point["ratio_to_torch_range"])
        joules = "–"
        if energy:
            joules = f"{energy['j_per_sample']:.4g} ± {energy['uncertainty_share']:.1%}{'' if point['window_s'] >= 60 else ' (short)'}"
        theirs, compared = peer.get("energy"), shown(point.get("joules_ratio_to_torch"), ".3f")
        if point.get("joules_ratio_to_torch") is not None:
            compared += f" ± {point['joules_ratio_uncertainty_share']:.1%}"
        return [name_of(point), number(rate), number(point.get("tokens_per_s")), number(peer.get("samples_per_s", {}).get("median")), ratio,
                shown(point.get("ratio_to_bf16"), ".3f"), shown(point.get("of_ceiling"), ".3f"), shown(point.get("mfu"), ".3f"), joules,
                f"{theirs['j_per_sample']:.4g} ± {theirs['uncertainty_share']:.1%}" if theirs else "–", compared, "; ".join(notes) or "–"]
    head = ["point", "samples/s", "tokens/s", "PyTorch samples/s", "÷ PyTorch", "÷ bf16", "of ceiling", "MFU", "J/sample", "PyTorch J/sample",
            "J ÷ PyTorch", "notes"]
    return rows_of(head, map(row, summary["points"]))


def largest(profile, count=3):
    return ", ".join(f"{row['operator']} {row['share']:.0%}" for row in profile["operators"][:count])


def profiles_table(points):
    def row(point):
        profile = point["profile"]
        above = [f"{one['operator']} {seconds(one['above_least_s'])} ({one['times_least']:.1f} × its least time)" for one in furthest(profile)]
        uncounted = [f"{one['operator']} {seconds(one['measured_s'])}" for one in profile["operators"] if one["least_s"] is None and one["share"] > 0.01]
        if not profile["least_times_of"]:
            above = ["not known for this device"]
        return [name_of(point), seconds(profile["step_s"]), seconds(profile["least_step_s"]), "; ".join(above) or "none",
                ", ".join(uncounted) or "–", f"{max(0, profile['share_outside_operators']):.0%}"]
    return rows_of(["point", "step", "least time", "furthest from the device's limit: time above least", "without a least time", "outside operators"],
                   map(row, points))


def rehearsed_profiles_table(points):
    head = ["point", "step on this CPU", "largest shares of a step on this CPU", f"calculated: least step on an {points[0]['profile']['least_times_of']}"]
    return rows_of(head, ([name_of(point), seconds(point["profile"]["step_s"]), largest(point["profile"]),
                           seconds(point["profile"]["least_step_s"])] for point in points))


def buckets_table(buckets):
    def row(one):
        return [one["ranks"], f"{one['bucket_mib']:g}", one.get("communicator") or "–", one.get("step_mode") or "–",
                seconds(one.get("step_time_s")), seconds(one.get("communication_s")), number(one.get("samples_per_s")), shown(one.get("ratio_to_default"), ".3f"),
                one.get("reason") or "–"]
    return rows_of(["ranks", "bucket, MiB", "exchange by", "steps as", "step", "communication", "samples/s", f"÷ {DEFAULT_BUCKET_MIB} MiB", "notes"],
                   map(row, buckets["sizes"]))


def llmc_table(compared):
    def row(one):
        ratio = "–" if one["ratio"] is None else "{:.3f} [{:.3f} … {:.3f}]".format(one["ratio"], *one["ratio_range"])
        return [name_of(one), number(one.get("samples_per_s")), number(one.get("llmc_samples_per_s")), ratio, one.get("llmc_options") or "–", one["reason"] or "–"]
    return rows_of(["point", "samples/s", "llm.c samples/s", "÷ llm.c", "its options", "why not measured"], map(row, compared))


def machine(facts):
    named = [facts.get("Product Name"), facts.get("Driver Version") and f"driver {facts['Driver Version']}",
             facts.get("CUDA Version") and f"CUDA {facts['CUDA Version']}",
             facts.get("Current Power Limit") and f"power limit {facts['Current Power Limit']}", facts.get("cpus") and f"{facts['cpus']} CPUs",
             facts.get("kernel") and f"Linux {facts['kernel']}"]
    return ", ".join(one for one in named if one)


def page(summary):
    rehearsed, pieces = summary["rehearsed"], summary["pieces"]
    failed = [name for name, piece in pieces.items() if piece["state"] == "FAILED"]
    lines = ["# gpu-validate", ""]
    if rehearsed:
        lines += ["**A rehearsal on the CPU with tiny networks: it tests the script, and no figure means anything for a GPU.**", ""]
    lines += [f"{len(pieces)} pieces: " + (f"{len(failed)} failed ({', '.join(failed)})." if failed else "none failed.")
              + f" {summary['made_at']}" + (f", {machine(summary['facts'])}" if summary.get("facts") else "") + ".", ""]
    if summary.get("goals") and not rehearsed:
        lines += ["## Goals", "", GOALS, "", goals_table(summary["goals"]), ""]
    if summary["points"]:
        lines += ["## Training steps", "", points_table(summary), "",
                  *(f"{figure} is – for all points: {reason}." for figure, reason, is_common in lacking(summary) if is_common), "", COLUMNS, ""]
    if compared := summary.get("llmc"):
        lines += ["## Against llm.c", "", llmc_table(compared), "", LLMC, ""]
    if buckets := summary.get("buckets"):
        lines += ["## Gradient buckets", "", f"{buckets['point']}:", "", buckets_table(buckets), "", BUCKETS, ""]
    if profiled := [point for point in summary["points"] if "profile" in point]:
        lines += ["## Where the time of a step goes", ""]
        lines += ([REHEARSED_LEAST.format(profiled[0]["profile"]["least_times_of"]), "", rehearsed_profiles_table(profiled)] if rehearsed else
                  [LEAST, "", profiles_table(profiled)]) + [""]
    lines += ["## Pieces", "", rows_of(["piece", "what it does", "ran", "result", "seconds"], (
        [name, MEANINGS[name], "yes" if piece["state"] == "ran" else piece["state"], piece["text"], f"{piece['seconds']:.0f}"]
        for name, piece in pieces.items())), ""]
    return "\n".join(lines)


def profile_text(point):
    """All operators of a point, for a file of the archive; the ledger's own text follows it there."""
    profile = point["profile"]
    lines = [f"{name_of(point)}: a step of {seconds(profile['step_s'])}" + (
        f"; least time on an {profile['least_times_of']}: {seconds(profile['least_step_s'])}" if profile["least_times_of"] else
        "; no least times of this device")]
    if not profile["is_comparable"]:
        lines.append("The shares were measured on a CPU, in a rehearsal; the least times are calculated for a GPU. Do not compare them.")
    lines += ["", f"{'operator':<34}{'share of profiled step':>24}{'measured':>12}{'least':>12}{'× least':>10}{'above least':>14}"]
    for row in profile["operators"]:
        lines.append(f"{row['operator']:<34}{row['share']:>24.1%}{seconds(row['measured_s']):>12}{seconds(row['least_s']):>12}"
                     f"{shown(row['times_least'], '.2f'):>10}{seconds(row['above_least_s']) if (row['above_least_s'] or 0) > 0 else '–':>14}")
    lines.append(f"{'outside operators':<34}{max(0, profile['share_outside_operators']):>24.1%}")
    return "\n".join(lines) + "\n"
