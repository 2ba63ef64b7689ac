"""Computes gpu-validate's figures from records, and its table."""
import statistics

from validation.plan import CEILING_GOALS, FP8_GOALS, RATIO_GOALS


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


def table(points):
    """The summary's table in Markdown. Also computes the ratios to bf16 and stores them in the points."""
    rows = ["| point | samples/s | tokens/s | ÷ bf16 | of ceiling | MFU | PyTorch samples/s | ratio | J/sample | goals and reasons |",
            "|---|---|---|---|---|---|---|---|---|---|"]

    def shown(value, form):
        return "–" if value is None else format(value, form)

    bf16 = {point["model"]: point["samples_per_s"] for point in points
            if point["precision"] == "bf16" and point.get("samples_per_s") and "options" not in point}
    for point in points:
        key, rate = (point["model"], point["precision"]), point.get("samples_per_s")
        if "options" in point:
            key = (*key, point["options"])  # without a goal
        if rate and point["model"] in bf16:
            point["ratio_to_bf16"] = rate / bf16[point["model"]]
        notes = [] if rate else [point.get("reason", "")]
        notes += [point[why] for why in ("energy_failed", "again_failed", "torch_reason") if rate and point.get(why)]
        for figure, goal in ((point.get("ratio_to_torch"), RATIO_GOALS.get(key)), (point.get("of_ceiling"), CEILING_GOALS.get(key)),
                             (point.get("ratio_to_bf16"), FP8_GOALS.get(key[0]) if key[1] == "fp8" else None)):
            if goal is not None:
                notes.append(f"{goal}: " + ("not measured" if figure is None else "reached" if figure >= goal else "MISSED"))
        peer = point.get("torch", {}).get("samples_per_s", {}).get("median")
        ways = point.get("torch", {}).get("ways", {})
        if len(ways) > 1:
            notes.append("PyTorch: " + ", ".join(f"{name} " + (f"{way['samples_per_s']['median']:.4g}" if "error" not in way else
                                                              f"({way['error']})") for name, way in ways.items()))
        ratio = shown(point.get("ratio_to_torch"), ".3f")
        if "ratio_to_torch_range" in point:
            ratio += " [{:.3f} … {:.3f}]".format(*point["ratio_to_torch_range"])
        energy = point.get("energy")
        joules = f"{energy['j_per_sample']:.4g} ± {energy['uncertainty_share']:.1%}{'' if point['window_s'] >= 60 else ' (short)'}" if energy else "–"
        # A reason may contain any text; a table row must be one line.
        text = "; ".join(notes).replace("|", "/").replace("\n", " ")
        name = " ".join([point["model"], point["precision"], f"mb{point['micro_batch']}", point.get("options", "")]).strip()
        rows.append(f"| {name} | {shown(rate, '.4g')} | "
                    f"{shown(point.get('tokens_per_s'), '.4g')} | {shown(point.get('ratio_to_bf16'), '.3f')} | "
                    f"{shown(point.get('of_ceiling'), '.3f')} | {shown(point.get('mfu'), '.3f')} | {shown(peer, '.4g')} | "
                    f"{ratio} | {joules} | {text} |")
    return "\n".join(rows)
