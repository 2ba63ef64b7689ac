"""gpu-validate's piece llmc: training steps of llm.c's train_gpt2cu, built by the user, for comparison."""
import array
import math
import os
import random
import re
import statistics

from validation import figures, plan
from validation.runner import Failed, LeftOut, Runner

PROGRAM = "train_gpt2cu"
MAGIC, VERSION, VOCABULARY = 20240520, 1, 50257  # of its data files: 256 int32, then uint16 tokens
# As its own recipes for these sizes: nothing recomputed, GELU fused into the forward product. And where that does not fit into the memory.
WAYS = (("-r", "0", "-ge", "1"), ("-r", "1", "-ge", "1"))
NO_TIME = "no time was left"
WARM_STEPS = 3


def program_in(folder):
    path = os.path.join(os.path.abspath(folder), PROGRAM)
    return path if os.access(path, os.X_OK) and not os.path.isdir(path) else None


def write_data(path, tokens):
    """Random tokens, which cost what any others do."""
    chosen = random.Random(1)
    header, body = array.array("i", [MAGIC, VERSION, tokens] + [0] * 253), array.array("H", (chosen.randrange(VOCABULARY) for _ in range(tokens)))
    with open(path, "wb") as file:
        header.tofile(file)
        body.tofile(file)


def read_steps(output):
    """(milliseconds of each step in order, why they mean nothing or None) from what train_gpt2cu printed."""
    precision = re.search(r"^\| precision +\| (\S+)", output, re.M)
    if precision and precision[1] != "BF16":
        return [], f"llm.c was built for {precision[1]}, not for BF16"
    steps = re.findall(r"^step +\d+/\d+ \| loss +(\S+) .*\| ([\d.]+) ms \| .* tok/s", output, re.M)
    if not all(math.isfinite(float(loss)) for loss, _ in steps):
        return [], "its loss is not finite"
    return [float(ms) for _, ms in steps], None


class Llmc(Runner):
    def llmc_block(self, goal, way, steps, data, limit):
        """Samples/s of three blocks of one launch, or the reason why there are none."""
        count = str(steps + WARM_STEPS)
        # No sampling; a validation of one batch, before the first step and behind the last one, which is not timed.
        command = [program_in(self.options.llmc), "-i", data, "-j", data, "-e", plan.LLMC[goal.model], "-b", str(goal.micro_batch), "-t", str(goal.seq_len),
                   "-x", count, "-v", count, "-m", "1", "-s", "0", "-h", "0", *way]
        code, output = self.run(command, "llmc.log", limit)
        times, why = read_steps(output)
        if code is None:
            return [], f"timeout after {limit:.0f} s"
        if code != 0:
            return [], f"exit code {code}: " + (output.strip().splitlines() or ["no output"])[-1]
        if why is None and len(times) < steps + WARM_STEPS:
            why = f"it printed {len(times)} of {count} steps"
        if why:
            return [], why
        each = steps // plan.TRIALS
        return [goal.micro_batch / (statistics.median(times[WARM_STEPS + at * each:][:each]) / 1e3) for at in range(plan.TRIALS)], None

    def against_llmc(self, goal, data):
        """The figures of one network: trainwatt, llm.c, trainwatt, llm.c; or the reason why there are none."""
        ours, theirs, ways = [], [], list(WAYS)
        launch = plan.Launch(goal.model, [goal.precision], goal.micro_batch, goal.seq_len, goal.window, plan.TRIALS, None)
        for turn in ("first", "last"):
            found, why = self.train(launch, f"{goal.model}-llmc-{turn}", min(self.left(), goal.ours))
            record = found.get(goal.precision)
            rates = figures.blocks_of(record, goal.window) if record and record["summary"].get("samples_per_s") else []
            if not rates:
                return {"reason": f"trainwatt: {why}"}
            ours.append(rates)
            steps = plan.TRIALS * max(4, round(goal.window * statistics.median(rates) / goal.micro_batch))
            why = None
            while ways:
                blocks, why = self.llmc_block(goal, ways[0], steps, data, min(self.left(), plan.LLMC_SECONDS[goal.model]))
                if blocks or theirs or why.startswith("timeout"):
                    break
                ways.pop(0)  # the next one needs less memory
            if not blocks:
                return {"reason": f"llm.c: {why}; see llmc.log"}
            theirs.append(blocks)
        ratios = figures.block_ratios(*ours, theirs[0] + theirs[1])
        return {"samples_per_s": statistics.median(ours[0] + ours[1]), "llmc_samples_per_s": statistics.median(theirs[0] + theirs[1]),
                "ratio": statistics.median(ratios), "ratio_range": [min(ratios), max(ratios)], "ratio_blocks": ratios, "llmc_options": " ".join(ways[0])}

    def llmc(self):
        goals = [goal for goal in self.goals if goal.model in plan.LLMC]
        if not goals:
            raise LeftOut(f"llm.c is compared on {' and '.join(plan.LLMC)} only, on a GPU")
        if not self.options.llmc:
            raise LeftOut("--llmc DIR was not given")
        data, compared = os.path.join(self.work, "llmc.bin"), []
        self.summary["llmc"] = compared
        try:
            for goal in goals:
                one = {"model": goal.model, "precision": goal.precision, "micro_batch": goal.micro_batch, "seq_len": goal.seq_len, "ratio": None, "reason": None}
                compared.append(one)
                if self.left() < 2 * goal.ours + plan.LLMC_SECONDS[goal.model]:  # two launches of each, llm.c's in half of their limit
                    one["reason"] = f"{NO_TIME}: call again with --only llmc --models {goal.model}"
                    continue
                write_data(data, 4 * goal.micro_batch * goal.seq_len + 1)
                try:
                    one.update(self.against_llmc(goal, data))
                except Failed as error:
                    one["reason"] = str(error)
        finally:
            if os.path.exists(data):
                os.unlink(data)
        text = f"{sum(one['ratio'] is not None for one in compared)} of {len(compared)} networks compared"
        bad = [one for one in compared if one["ratio"] is None]
        if bad:
            text += "".join(f"; {one['model']}: {one['reason']}" for one in bad)
        if any(not one["reason"].startswith(NO_TIME) for one in bad):
            raise Failed(text)
        if len(bad) == len(compared):
            raise LeftOut(text)
        return text
