"""Computes gpu-validate's figures from records."""
import statistics

from validation.plan import CEILING_GOALS, FP8_GOALS, LLMC, MFU_GOALS, RATIO_GOALS


def energy_of(record):
    """Joules per sample over all trials, of the narrowest scope that has them, with the meters' uncertainty; None without a meter."""
    for scope in ("device", "package", "node"):
        joules = uncertainty = samples = 0
        methods = set()
        for trial in record["trials"]:
            rows = [row for row in trial.get("energy", []) if row["counted"] and row["scope"] == scope]
            if not rows or any(row["energy_j"] is None for row in rows):
                break
            joules += sum(row["energy_j"] for row in rows)
            uncertainty += sum(row["uncertainty_j"] or 0 for row in rows)
            samples += len(trial["step_time_s"]) * record["workload"]["global_batch"]
            methods |= {row["method"] for row in rows}
        else:
            if joules > 0 and samples > 0:
                return {"scope": scope, "method": " ".join(sorted(methods)), "j_per_sample": joules / samples,
                        "uncertainty_share": uncertainty / joules}
    return None


def blocks_of(record, seconds):
    """Samples per second from the median step of each block of about `seconds`, for each trial."""
    rates = []
    for trial in record["trials"]:
        times = trial["step_time_s"]
        if not times:
            continue
        steps = max(1, round(seconds / statistics.median(times)))
        for at in range(0, max(1, len(times) // steps)):
            rates.append(record["workload"]["global_batch"] / statistics.median(times[at * steps:(at + 1) * steps]))
    return rates


def block_ratios(first, last, peer):
    """trainwatt ÷ PyTorch by block: blocks before PyTorch with its first blocks, blocks after it with its last ones."""
    half = (len(peer) + 1) // 2 if last else len(peer)
    return [ours / theirs for a, b in ((first, peer[:half]), (last, peer[half:] or peer)) for ours, theirs in zip(a, b)]


def name_of(point):
    """network, precision, micro-batch, tokens and options, as in every table."""
    tokens = f"×{point['seq_len']}" if point["seq_len"] else ""
    return " ".join([point["model"], point["precision"], f"mb{point['micro_batch']}{tokens}", point.get("options", "")]).strip()


def compare_joules(point):
    """Adds joules of a sample ÷ PyTorch's, with the uncertainty of both, or null with the reason. Only the GPU's own are compared."""
    if point.get("samples_per_s") is None or "torch" not in point:
        return
    own, peer, reason = point.get("energy"), point["torch"].get("energy"), None
    if own is None:
        reason = point.get("energy_reason") or "no meter counted trainwatt's steps"
    elif own["scope"] != "device":
        reason = f"trainwatt's joules are of the {own['scope']}, not of the GPU"
    elif peer is None:
        reason = f"PyTorch's steps have no joules: {point['torch'].get('energy_reason') or 'not measured'}"
    point["joules_reason"], point["joules_ratio_to_torch"] = reason, None
    if reason is None:
        point["joules_ratio_to_torch"] = own["j_per_sample"] / peer["j_per_sample"]
        point["joules_ratio_uncertainty_share"] = (own["uncertainty_share"] ** 2 + peer["uncertainty_share"] ** 2) ** 0.5


def compute(summary, goals, fp8_launches):
    """Adds to the summary what follows from its points: ratios to bf16, of joules to PyTorch's, and the goals of this call with what was measured."""
    points = {(point["model"], point["precision"], point.get("options", "")): point for point in summary["points"]}
    for (model, precision, options), point in points.items():
        bf16 = points.get((model, "bf16", options), {}).get("samples_per_s")
        if bf16 and point.get("samples_per_s") and precision != "bf16":
            point["ratio_to_bf16"] = point["samples_per_s"] / bf16
        compare_joules(point)

    def goal(what, key, asked, figure, spread, reason):
        point = points.get((*key, ""), {})
        measured = point.get(figure)
        why = "" if measured is not None else point.get(reason) or point.get("reason") or "not measured in this call"
        return {"goal": what.format(*key), "asked": asked, "measured": measured, "range": point.get(spread), "reason": why,
                "state": "not measured" if measured is None else "reached" if measured >= asked else "missed"}

    if "llmc" not in summary and any(one.model in LLMC for one in goals):
        summary["llmc"] = [{"model": one.model, "precision": one.precision, "micro_batch": one.micro_batch, "seq_len": one.seq_len, "ratio": None,
                            "reason": "not measured in this call, which needs --llmc DIR for it"} for one in goals if one.model in LLMC]
    summary["goals"] = []
    for one in goals:
        key = (one.model, one.precision)
        for wanted, what, figure, spread, reason in (
                (RATIO_GOALS, "{} {}: samples/s ÷ compiled PyTorch", "ratio_to_torch", "ratio_to_torch_range", "torch_reason"),
                (MFU_GOALS, "{} {}: MFU", "mfu", None, "mfu_reason"),
                (CEILING_GOALS, "{} {}: FLOP/s ÷ FLOP/s of its products alone", "of_ceiling", None, None)):
            if key in wanted:
                summary["goals"].append(goal(what, key, wanted[key], figure, spread, reason))
    for launch in fp8_launches:
        if launch.model in FP8_GOALS:
            summary["goals"].append(goal("{} {}: samples/s ÷ bf16", (launch.model, "fp8"), FP8_GOALS[launch.model], "ratio_to_bf16", None, None))


def furthest(profile, count=3):
    """The operators with the most time above their least time, which is what could be gained at most."""
    known = [row for row in profile["operators"] if row["above_least_s"] is not None and row["above_least_s"] > 0]
    return sorted(known, key=lambda row: -row["above_least_s"])[:count]
