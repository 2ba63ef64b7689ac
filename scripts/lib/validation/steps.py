"""gpu-validate's pieces that time training steps of trainwatt: ratios, fp8, energy, buckets, precisions."""
import json
import os
import statistics

from validation import figures, plan
from validation.runner import Failed, LeftOut, Runner


def why_ended(code, output):
    """One line: trainwatt-train's own last one, because mpirun adds its own; or "unsupported: " and the reason."""
    lines = [line for line in output.splitlines() if line.strip()]
    line = next((line for line in reversed(lines) if line.startswith("trainwatt-train:")), lines[-1] if lines else "no output")
    unsupported = "error[unsupported]: "
    return f"unsupported: {line.split(unsupported, 1)[1]}" if unsupported in line else f"exit code {code}: {line}"


class Steps(Runner):
    def train(self, launch, name, limit, ranks=1):
        """The records of one launch of trainwatt-train by precision, and the reason why others are missing."""
        folder = os.path.join(self.work, "steps", name)
        command = ["mpirun", "--bind-to", "none", "-np", str(ranks), self.program("trainwatt-train"), "--device", self.device,
                   "--model", launch.model, "--precision", ",".join(launch.precisions), "--micro-batch", str(launch.micro_batch),
                   "--window", str(launch.window), "--trials", str(launch.trials), "--out", folder, *launch.more]
        if launch.seq_len:
            command += ["--seq-len", str(launch.seq_len)]
        if self.options.rehearse:
            command += ["--threads", "1"]
        try:
            code, output = self.run(command, "steps.log", limit)
            why = f"timeout after {limit:.0f} s" if code is None else why_ended(code, output)
        except Failed as error:
            why = str(error)
        return {record["workload"]["precision"]: record for record in self.records(folder)}, why

    def device_of(self, name):
        """The device that a launch trained on, as its report says; None without a report."""
        try:
            with open(os.path.join(self.work, "steps", name, "report.json"), encoding="utf-8") as file:
                return json.load(file)["context"]["devices"][0]["name"]
        except (OSError, ValueError, LookupError):
            return None

    def add_point(self, one, precision, window, more):
        point = {"model": one.model, "precision": precision, "micro_batch": one.micro_batch, "seq_len": one.seq_len, "window_s": window,
                 "trials": plan.TRIALS, **({"options": " ".join(more)} if more else {})}
        self.summary["points"].append(point)
        return point

    def take(self, point, record, name):
        summary, verdict = record["summary"], record["verdict"]
        point["verdict"] = verdict
        for key in ("samples_per_s", "tokens_per_s", "flops_per_s", "step_time_s"):
            point[key] = summary[key]["value"] if summary.get(key) else None
        for key in ("of_ceiling", "mfu", "mfu_reason", "loss_first", "loss_last", "peak_device_memory_bytes_per_rank", "energy_reason"):
            point[key] = summary.get(key)
        point["op_share"] = summary.get("op_share") or {}
        point["op_seconds"] = summary.get("op_seconds") or {}
        point["report"], point["device"] = f"steps/{name}/report.json", self.device_of(name)
        point["execution"] = record.get("execution")
        point["energy"] = figures.energy_of(record)
        if point["samples_per_s"] is None:
            point["reason"] = f"{verdict['status']}: " + "; ".join(verdict["reasons"])

    def measure(self, launches):
        """Adds a point to the summary for each precision of each launch; the names of those without a throughput."""
        bad = []
        for launch in launches:
            points = {precision: self.add_point(launch, precision, launch.window, launch.more) for precision in launch.precisions}
            name = "-".join([launch.model, *launch.precisions, *launch.more[1:]])
            found, why = self.train(launch, name, min(launch.limit, max(0, self.left())))
            for precision, point in points.items():
                if precision in found:
                    self.take(point, found[precision], name)
                else:
                    point["reason"] = why
                    if why.startswith("unsupported: "):  # of a launch with no other point
                        point["verdict"] = {"status": "unsupported", "flags": [], "reasons": [why.removeprefix("unsupported: ")]}
                if point.get("samples_per_s") is None and point.get("verdict", {}).get("status") != "unsupported":
                    bad.append(f"{launch.model} {precision}")
        return bad

    def measured_line(self, first, bad):
        """What a piece says that added the points from `first` on."""
        points = self.summary["points"][first:]
        measured = sum(point.get("samples_per_s") is not None for point in points)
        unsupported = sum(point.get("verdict", {}).get("status") == "unsupported" for point in points)
        text = f"{measured} of {len(points)} points measured" + (f", {unsupported} not supported by this device" if unsupported else "")
        if bad:
            raise Failed(f"{text}; no throughput of {', '.join(bad)}; see steps.log")
        return text

    def precisions(self):
        if not self.launches:
            raise LeftOut("these networks have no other points")
        first = len(self.summary["points"])
        return self.measured_line(first, self.measure(self.launches))

    def fp8(self):
        if not self.fp8_launches:
            raise LeftOut("none of these networks has a goal in fp8")
        first = len(self.summary["points"])
        return self.measured_line(first, self.measure(self.fp8_launches))

    # ---- gradient buckets ----
    def with_buckets(self, launch, ranks, size):
        """The figures of one size, or the reason why there are none."""
        communicator = "mpi" if self.options.rehearse else "nccl"
        launch = launch._replace(more=("--comm", communicator, "--bucket-mib", f"{size:g}"))
        found, why = self.train(launch, f"buckets-{ranks}-{size:g}", min(launch.limit, max(0, self.left())), ranks)
        record = found.get(launch.precisions[0])
        one = {"ranks": ranks, "bucket_mib": size}
        rate = record and record["summary"].get("samples_per_s")
        if not rate:
            return {**one, "reason": "; ".join(record["verdict"]["reasons"]) if record and record["verdict"]["reasons"] else why}
        execution, step = record.get("execution") or {}, record["summary"].get("step_time_s")
        hidden = [trial["phase_s"]["communication"] for trial in record["trials"] if "communication" in trial.get("phase_s", {})]
        return {**one, "samples_per_s": rate["value"], "step_time_s": step and step["value"],
                "communication_s": statistics.median(hidden) if hidden else None,
                "communicator": execution.get("communicator"), "step_mode": execution.get("step_mode")}

    def buckets(self):
        """Steps with several sizes of gradient buckets: on all GPUs of this machine, then on one, where they only cut graphs."""
        launch, sizes, needed = plan.REHEARSED_BUCKETS if self.options.rehearse else plan.BUCKETS
        if self.options.models and launch.model not in self.options.models.split(","):
            raise LeftOut(f"measured with {launch.model} only")
        gpus = 2 if self.options.rehearse else self.gpus()
        again = f"call again with --only buckets --models {launch.model}"
        measured, late = [], 0
        point = {"model": launch.model, "precision": launch.precisions[0], "micro_batch": launch.micro_batch, "seq_len": launch.seq_len}
        for ranks in (gpus, 1) if gpus > 1 and not self.options.rehearse else (gpus,):
            for size in sizes:
                if self.left() < needed:
                    late += 1
                    continue
                measured.append(self.with_buckets(launch, ranks, size))
                if "libnccl" in measured[-1].get("reason", ""):
                    raise LeftOut("NCCL is not installed")
        if not measured:
            raise LeftOut(f"no time was left: {again}")
        usual = {one["ranks"]: one["samples_per_s"] for one in measured if one["bucket_mib"] == plan.DEFAULT_BUCKET_MIB and "reason" not in one}
        for one in measured:
            if "reason" not in one and one["ranks"] in usual:
                one["ratio_to_default"] = one["samples_per_s"] / usual[one["ranks"]]
        self.summary["buckets"] = {"point": figures.name_of(point), "sizes": measured}
        bad = [f"{one['bucket_mib']:g} MiB on {one['ranks']}" for one in measured if "reason" in one]
        text = f"{len(measured) - len(bad)} of {len(measured) + late} sizes measured"
        for ranks in usual:
            best = max((one for one in measured if one["ranks"] == ranks and "reason" not in one), key=lambda one: one["samples_per_s"])
            text += (f"; fastest on {ranks} {'rank' if ranks == 1 else 'ranks'}: {best['bucket_mib']:g} MiB, {best['ratio_to_default']:.3f} × "
                     f"the default of {plan.DEFAULT_BUCKET_MIB}")
        if late:
            text += f"; no time for {late}: {again}"
        if bad:
            raise Failed(f"{text}; no throughput with {', '.join(bad)}; see steps.log")
        return text

    # ---- ratios and energy ----
    def point_of(self, goal, more=()):
        """The point of the goal, which both pieces share; with --deterministic no it is a point of its own."""
        for point in self.summary["points"]:
            if (point["model"], point["precision"], point.get("options", "")) == (goal.model, goal.precision, " ".join(more)):
                return point
        return self.add_point(goal, goal.precision, goal.window, more)

    def ours(self, goal, turn, what, window, trials, more=()):
        """One launch of trainwatt, whose blocks and figures go to the goal's point. Returns whether there was a throughput."""
        point = self.point_of(goal, more)
        launch = plan.Launch(goal.model, [goal.precision], goal.micro_batch, goal.seq_len, window, trials, None, more)
        name = f"{goal.model}-{goal.precision}-{what}"
        # A rehearsal may run on a slow machine: only the budget ends its launches.
        limit = max(0, self.left()) if self.options.rehearse else self.allowed(f"{goal.model} {what}", goal.energy)
        found, why = self.train(launch, name, limit)
        record = found.get(goal.precision)
        rate = record and record["summary"].get("samples_per_s")
        if rate is None and point.get("samples_per_s") is not None:
            point[f"{what}_failed"] = why  # keep what was measured before
            return False
        if record is None:
            point["reason"] = why
            return False
        ceilings = point.get("of_ceiling_values", [])
        self.take(point, record, name)
        point["window_s"] = window
        if point.get("of_ceiling") is not None:
            point["of_ceiling_values"] = [*ceilings, point["of_ceiling"]]
            point["of_ceiling"] = statistics.median(point["of_ceiling_values"])
        if rate is not None:
            blocks = self.blocks.setdefault((goal.model, goal.precision, more), {})
            blocks[turn] = blocks.get(turn, []) + figures.blocks_of(record, goal.window)
            self.hold(goal, more)
        return rate is not None

    def theirs(self, goal):
        point = self.point_of(goal)
        if goal.model in plan.WITHOUT_PEER:
            point["torch_reason"] = plan.NO_PEER
            return
        limit = self.allowed(f"{goal.model} torch")
        peer = self.peer(point, limit, "0.2" if self.options.rehearse else str(goal.window), goal.ways)
        if peer:
            self.blocks[goal.model, goal.precision, ()]["torch"] = peer["samples_per_s"]["blocks"]
            self.hold(goal)

    def hold(self, goal, more=()):
        """Computes the ratio of trainwatt to PyTorch from the blocks measured so far. PyTorch has one order of summation, its own."""
        blocks, point = self.blocks[goal.model, goal.precision, more], self.point_of(goal, more)
        peer = self.blocks[goal.model, goal.precision, ()].get("torch", [])
        ours = blocks.get("first", []) + blocks.get("last", [])
        point["blocks_samples_per_s"] = {turn: rates for turn, rates in blocks.items()}
        ratios = figures.block_ratios(blocks.get("first", []), blocks.get("last", []), peer)
        if ratios:
            point["ratio_to_torch"] = statistics.median(ratios)
            point["ratio_to_torch_range"] = [min(ratios), max(ratios)]
            point["ratio_to_torch_blocks"] = ratios
        if more and "torch" in self.point_of(goal):
            point["torch"] = self.point_of(goal)["torch"]
        point["samples_per_s"] = statistics.median(ours)
        if point.get("tokens_per_s") is not None and goal.seq_len:
            point["tokens_per_s"] = point["samples_per_s"] * goal.seq_len

    def ratios(self):
        if not self.goals:
            raise LeftOut("none of these networks has a goal")
        self.end_compiling()
        bad = []
        for goal in self.goals:
            if not self.options.rehearse and self.left() < goal.ours:
                self.point_of(goal)["reason"] = f"no time was left: call again with --models {goal.model}"
                bad.append(f"{goal.model} {goal.precision}")
                continue
            if not self.ours(goal, "first", "ours", goal.window, plan.TRIALS):
                bad.append(f"{goal.model} {goal.precision}")
                continue
            if not self.why_no_torch():
                self.theirs(goal)
            if goal.has_attention:  # PyTorch adds in any order, too
                self.ours(goal, "last", "any-order", goal.window, plan.TRIALS, plan.ANY_ORDER)
            if any(what == f"{goal.model} again" for what, _ in self.shares):  # otherwise the energy window is the last block of trainwatt
                self.ours(goal, "last", "again", goal.window, plan.TRIALS)
        points = [self.point_of(goal) for goal in self.goals]
        compared = sum("ratio_to_torch" in point for point in points)
        version = {point["torch"]["torch"] for point in points if "torch" in point}
        text = f"{compared} of {len(points)} networks compared" + (f" with PyTorch {' '.join(version)}" if version else "") + (
            f"; {self.why_no_torch()}" if self.why_no_torch() else "")
        if bad:
            raise Failed(f"{text}; no throughput of {', '.join(bad)}; see steps.log")
        if compared == 0 and not self.why_no_torch():
            raise Failed(f"{text}; see torch.log")
        return text

    def energy(self):
        goals = [goal for goal in self.goals if goal.energy]
        if not goals:
            raise LeftOut("none of these networks has an energy window")
        window = 0.4 if self.options.rehearse else plan.ENERGY_WINDOW
        bad, done, late = [], [], []
        for goal in goals:
            if not any(what == f"{goal.model} energy" for what, _ in self.shares) and self.left() < goal.energy:
                late.append(goal.model)
            elif self.ours(goal, "last", "energy", window, 1):
                done.append(self.point_of(goal)["energy"])
            else:
                bad.append(goal.model)
        text = f"{len(done)} {'window' if len(done) == 1 else 'windows'} of {window} s, {sum(one is not None for one in done)} with joules" + (
            f"; no time for {', '.join(late)}: call again with --only energy --models {late[0]}" if late else "")
        if bad:
            raise Failed(f"{text}; no window of {', '.join(bad)}; see steps.log")
        if not done:
            raise LeftOut(text)
        return text
