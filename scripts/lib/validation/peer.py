"""gpu-validate's pieces that run PyTorch for comparison."""
import contextlib
import json
import os
import sys
import time

from validation import plan
from validation.plan import NO_PEER, WITHOUT_PEER
from validation.runner import Compiling, Failed, LeftOut, Runner

LIB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Peer(Runner):
    def why_no_torch(self):
        if self.no_torch is None:
            try:
                code, output = self.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"],
                                        "torch.log", 60, self.torch_environment)
            except Failed as error:
                return str(error)
            self.no_torch = ("PyTorch cannot be imported" if code != 0 else
                             "PyTorch sees no GPU" if not self.options.rehearse and "True" not in output else "")
        return self.no_torch

    def torch_command(self, point, *more):
        command = [sys.executable, os.path.join(LIB, "torch_step.py"), "--model", point["model"],
                   "--precision", point["precision"], "--micro-batch", str(point["micro_batch"]), "--device", self.device, *more]
        if point["seq_len"]:
            command += ["--seq-len", str(point["seq_len"])]
        return command + (["--no-compile"] if self.options.rehearse else [])

    def begin_compiling(self, is_beside):
        """Called only during pieces that time nothing. Beside other programs on the GPU, only what leaves them room: compiling runs a
        step, and that of a large network takes most of the memory. The others follow with the last call."""
        if self.options.rehearse or not self.goals or self.why_no_torch():
            return
        if not self.compiling:
            log = open(os.path.join(self.work, "compiling.log"), "ab")
            self.compiling = Compiling(lambda command: self.begin(command, log, self.torch_environment))
        for goal in self.goals:
            if goal.model in self.compiled or is_beside and (self.is_exclusive or plan.fills(goal, self.memory_mib)):
                continue
            self.compiled.append(goal.model)
            self.compiling.add(self.torch_command(goal._asdict(), "--compile-only", *(["--ways", goal.ways] if goal.ways else [])))

    def end_compiling(self):
        """Waits for compilation, within the time share of the pieces that run meanwhile."""
        if not self.compiling:
            return
        compiling, self.compiling = self.compiling, None
        compiling.end(max(0, min(self.left(), self.prepared_by - time.monotonic())), self.end)

    def peer(self, point, limit, seconds, ways=""):
        """Runs PyTorch on the point and stores the result in it, or the reason why there is none."""
        code, output = self.run(self.torch_command(point, "--seconds", seconds, *(["--ways", ways] if ways else [])), "torch.log", limit,
                                self.torch_environment)
        results = []
        for line in output.splitlines():
            with contextlib.suppress(ValueError):  # the last line of a process that was ended may be a part of one
                results += [json.loads(line)] if line.startswith('{"model"') else []
        if not results or code not in (0, None):
            point["torch_reason"] = "timeout" if code is None else f"exit code {code}; see torch.log"
            return None
        point["torch"] = results[-1]  # after a timeout: the ways that it had finished
        return point["torch"]

    def torch_rest(self):
        points = [point for point in self.summary["points"] if "torch" not in point and "torch_reason" not in point]
        if not points:
            raise LeftOut("no points were measured")
        if why := self.why_no_torch():
            raise LeftOut(why)
        compared = 0
        known = {(point["model"], point["precision"]): point["torch"] for point in self.summary["points"] if "torch" in point}
        for point in points:
            if point.get("samples_per_s") is None:
                continue
            if point["model"] in WITHOUT_PEER:
                point["torch_reason"] = NO_PEER
                continue
            if point["precision"] == "fp8":
                point["torch_reason"] = "PyTorch alone does not train in fp8"
                continue
            peer = known.get((point["model"], point["precision"]))  # --deterministic no is compared with the same PyTorch steps
            if peer is None and self.left() < (0 if self.options.rehearse else 60):
                point["torch_reason"] = "no time was left"
                continue
            peer = peer or self.peer(point, 120, "0.2" if self.options.rehearse else "1")
            if peer:
                point["torch"] = peer
                compared += 1
                point["ratio_to_torch"] = point["samples_per_s"] / peer["samples_per_s"]["median"]
        return f"{compared} of {len(points)} points compared; summary.json has the reasons for the others"
