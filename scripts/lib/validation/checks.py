"""The pieces of gpu-validate that time nothing. Each returns a line for the summary, or raises Failed or LeftOut (skipped)."""
import os
import re
import shutil
import subprocess
import sys

from validation.plan import ASKS, GPU_TESTS, LIMITS, REHEARSED_TESTS
from validation.runner import Failed, LeftOut, Runner

SCRIPTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Checks(Runner):
    def asks(self):
        """The algorithm that the GPU's library offers for each product and epilogue of the suites, into asks.txt of the archive."""
        (name, wanted), = ASKS.items()
        program = self.program(name)
        if not program:
            raise Failed(f"{name} is not in the build")
        code, output = self.run([program, f"--gtest_filter={'*cpu*' if self.options.rehearse else wanted}"], "asks.log")
        answers = [line.split(" | ", 2)[1:] for line in output.splitlines() if line.startswith("answer | ")]
        with open(os.path.join(self.work, "asks.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{asked}\n    " + answer.replace("; ", "\n    ") + "\n" for asked, answer in answers)
        refused = [asked for asked, answer in answers if answer.startswith("refused: ")]
        apart = sorted({f"{asked}: {call}" for asked, answer in answers
                        for call in re.findall(r"(?:^|; )([^;:]+): a (?:plain product and own kernels|product with bias \()", answer)})
        self.summary["asks"] = {"asked": len(answers), "refused": refused, "epilogues_refused": apart}
        line = f"{len(answers)} shapes asked for, {len(refused)} refused, {len(apart)} epilogues replaced by own kernels; see asks.txt"
        if code != 0 or not answers:
            raise Failed(f"{line}; {'timeout' if code is None else f'exit code {code}'}, see asks.log")
        return line

    def cases_of(self, program, wanted):
        """The names of a test program's cases; none where it does not say. It opens no GPU for that, and no time needs to be left."""
        try:
            done = subprocess.run([program, f"--gtest_filter={wanted}", "--gtest_list_tests"], env=self.environment, cwd=self.work,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False)
        except subprocess.TimeoutExpired:
            return []
        names, suite = [], ""
        for line in done.stdout.splitlines() if done.returncode == 0 else ():
            name = line.split("#")[0].strip()
            if line.startswith(" "):
                names.append(suite + name)
            elif name.endswith("."):
                suite = name
        return names

    def tests(self):
        wanted = REHEARSED_TESTS if self.options.rehearse else GPU_TESTS
        programs = {name: self.program(name) for name in wanted}
        bad = [f"{name} (not in the build)" for name, program in programs.items() if program is None]
        there = [name for name, program in programs.items() if program]
        commands = [[programs[name], f"--gtest_filter={wanted[name].wanted}"] for name in there]
        environment = {"OMP_WAIT_POLICY": "passive", **self.environment}
        if self.is_exclusive:
            results = self.run_each(commands, "tests.log", [wanted[name].share for name in there], environment)
        else:
            # In parallel, as one after the other they would take longer than any other piece; the reference computes on the CPUs.
            environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // max(1, len(there)))))
            results = self.run_beside(commands, "tests.log", environment=environment) if there else []
        cases = {}
        for name, (code, output) in zip(there, results):
            # Counted individually, so that results of a program that was ended count too.
            done, wrong, left_out = (list(dict.fromkeys(re.findall(rf"^\[{word}\] (\S+?)(?:,| \(|$)", output, re.M)))
                                     for word in ("       OK ", "  FAILED  ", "  SKIPPED "))
            cases[name] = {"passed": done, "failed": wrong, "skipped": left_out, "not_reached": []}
            begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
            known = {*done, *wrong, *left_out}
            is_whole = re.search(r"^\[==========\] .* ran\.", output, re.M)
            if code is None or code != 0 and not is_whole:  # ended, or it fell
                cases[name]["not_reached"] = [case for case in self.cases_of(programs[name], wanted[name].wanted) if case not in known]
            if code is None:
                at = f" in {begun[-1]}" if begun and begun[-1] not in known else ""
                bad.append(f"{name} (timeout{at}, {len(done)} passed, {len(wrong)} failed, {len(cases[name]['not_reached']) or 'unknown how many'} "
                           "not reached)")
            elif not known:
                bad.append(f"{name} (no test ran)")
            elif code != 0 and begun and begun[-1] not in known:
                bad.append(f"{name} (exit code {code} in {begun[-1]}, {len(cases[name]['not_reached'])} not reached)")
            elif code != 0 and not wrong:
                bad.append(f"{name} (exit code {code})")
            bad += wrong
        passed, failed, skipped, not_reached = (sum(len(one[state]) for one in cases.values())
                                                for state in ("passed", "failed", "skipped", "not_reached"))
        self.summary["tests"] = {"passed": passed, "failed": failed, "skipped": skipped, "not_reached": not_reached, "bad": sorted(set(bad)),
                                 "cases": cases}
        line = f"{passed} passed, {failed} failed, {skipped} skipped" + (f", {not_reached} not reached" if not_reached else "")
        if self.is_exclusive:
            line += ", one program after another, because the GPU takes one process at a time"
        if bad or passed == 0:
            raise Failed(f"{line}: {', '.join(sorted(set(bad))[:8]) or 'no test passed'}; see tests.log and summary.json")
        return line

    def memory(self):
        tool = shutil.which("compute-sanitizer")
        program = self.program("compute_operators_test")
        if not program or not (tool or self.options.rehearse):
            raise LeftOut("no compute-sanitizer or no test program")
        command = [program, "--gtest_filter=*LayerNorm*cpu*"] if self.options.rehearse else [
            tool, "--tool", "memcheck", "--error-exitcode", "9", program, "--gtest_filter=*cuda*"]
        code, output = self.run(command, "memory.log")
        if "Device not supported" in output:
            raise LeftOut("compute-sanitizer does not support this device")
        errors = re.search(r"ERROR SUMMARY: (\d+) error", output)
        done = len(re.findall(r"^\[       OK \]", output, re.M))
        if done == 0:
            raise Failed("no test ran; see memory.log")
        if code is None and "========= Invalid" not in output:
            return f"no error in the {done} tests that ran within {LIMITS['memory']} s"
        if code != 0:
            raise Failed(f"exit code {code}, {errors.group(0) if errors else 'no error summary'}; see memory.log")
        if self.options.rehearse:
            return f"{done} tests on the CPU, without compute-sanitizer"
        return f"{errors.group(0) if errors else 'no error'} in {done} tests"

    def nccl(self):
        """Steps of one rank with gradients through NCCL: checks that it starts, reduces on our stream and ends."""
        folder, wanted = os.path.join(self.work, "nccl"), "mpi" if self.options.rehearse else "nccl"
        code, output = self.run(["mpirun", "--bind-to", "none", "-np", "1", self.program("trainwatt-train"), "--device", self.device,
                                 "--comm", wanted, "--model", "gpt2-tiny", "--precision", "float32" if self.options.rehearse else "bf16",
                                 "--micro-batch", "8", "--seq-len", "64", "--window", "0.3", "--trials", "1", "--out", folder,
                                 *(["--threads", "1"] if self.options.rehearse else [])], "nccl.log",
                                environment={**self.environment, "TRAINWATT_NCCL_TIMEOUT": str(LIMITS["nccl"] // 2)})  # says what hangs
        if code == 3 and "libnccl" in output:
            raise LeftOut("NCCL is not installed")
        for record in self.records(folder):
            execution, rate = record.get("execution") or {}, record["summary"].get("samples_per_s")
            if execution.get("communicator") == wanted and rate:
                return f"MPI in place of NCCL: {execution['route']}" if self.options.rehearse else execution["route"]
        raise Failed(f"{'timeout' if code is None else f'exit code {code}, no throughput with {wanted.upper()}'}; see nccl.log")

    # ---- small checks ----
    def few_steps(self, name, ranks, *more):
        """Records of five steps of gpt2-tiny, eight samples each."""
        folder = os.path.join(self.work, "checks", name)
        command = ["mpirun", "--bind-to", "none", "-np", str(ranks), self.program("trainwatt-train"), "--device", self.device, "--model",
                   "gpt2-tiny", "--seq-len", "64", "--precision", "float32", "--steps", "5", "--warmup", "0", "--trials", "1", "--out", folder,
                   *more] + (["--threads", "1"] if self.options.rehearse else [])
        code, output = self.run(command, "checks.log", 300 if self.options.rehearse else 30)
        records = self.records(folder)
        if not records:
            last = (output.strip().splitlines() or [""])[-1]
            raise Failed("timeout" if code is None else f"exit code {code}: {last}")
        return records

    def same_losses(self, record):
        """Compares with one rank, one micro-batch and no recomputation: apart from rounding, the sums are the same."""
        if self.plain is None:
            self.plain = self.few_steps("plain", 1, "--micro-batch", "8")[0]["trials"][0]["loss"]
        trials = record["trials"]
        if not trials:
            raise Failed(f"{record['verdict']['status']}: " + "; ".join(record["verdict"]["reasons"]))
        loss = trials[0]["loss"]
        if len(loss) != len(self.plain) or any(not abs(a - b) <= 1e-4 * abs(b) for a, b in zip(loss, self.plain)):
            raise Failed(f"losses {loss}, expected {self.plain}")

    def two_ranks(self):
        if self.is_exclusive:
            raise LeftOut("skipped, the GPU takes one process at a time")
        record = self.few_steps("two-ranks", 2, "--micro-batch", "4", "--comm", "mpi")[0]
        self.same_losses(record)
        if self.device == "cuda" and "shared_gpu" not in record["verdict"]["flags"]:
            raise Failed("two ranks on one GPU lack the flag shared_gpu")

    def recomputed(self):
        record = self.few_steps("recomputed", 1, "--micro-batch", "8", "--recompute")[0]
        self.same_losses(record)
        if not record["execution"]["recompute"]:
            raise Failed("nothing was recomputed")

    def accumulated(self):
        self.same_losses(self.few_steps("accumulated", 1, "--micro-batch", "4", "--accumulate", "2")[0])

    def too_large(self):
        """A point too large for any GPU, followed by one that fits."""
        too_many = "4000000" if self.options.rehearse else "300000"  # 5.6 TB, 0.4 TB; with this seed they run in this order
        records = self.few_steps("too-large", 1, "--micro-batch", f"{too_many},8", "--seed", "1")
        status = [record["verdict"]["status"] for record in records]
        if len(status) != 2 or status[0] != "failed" or not records[1]["trials"]:
            raise Failed(f"expected a failed point and one that ran, got: {', '.join(status)}")
        self.same_losses(records[1])

    def checks(self):
        self.plain, results, left_out = None, {}, []
        for check in (self.two_ranks, self.recomputed, self.accumulated, self.too_large):
            try:
                check()
                results[check.__name__] = "good"
            except LeftOut as error:
                left_out.append(check.__name__)
                results[check.__name__] = str(error)
            except Failed as error:
                results[check.__name__] = str(error)
        self.summary["checks"] = results
        bad = [f"{name}: {text}" for name, text in results.items() if text != "good" and name not in left_out]
        if bad:
            raise Failed("; ".join(bad))
        return ", ".join(f"{name} ({text})" if name in left_out else name for name, text in results.items())

    def oracle(self):
        """One step of both tiny networks, exported here, against PyTorch in float64."""
        if why := self.why_no_torch():
            raise LeftOut(why)
        folders = []
        try:
            for model, batch in (("gpt2-tiny", ["--micro-batch", "4", "--seq-len", "128"]), ("resnet-tiny", ["--micro-batch", "16"])):
                for precision in ("float32", "bf16"):
                    folders.append(os.path.join(self.work, "exported", f"{model}-{precision}"))
                    code, _ = self.run([self.program("trainwatt-train"), "--device", self.device, "--model", model, *batch, "--precision",
                                        precision, "--export-step", folders[-1]], "oracle.log")
                    if code != 0:
                        raise Failed(f"{model} {precision} was not exported; see oracle.log")
            code, output = self.run([sys.executable, os.path.join(SCRIPTS, "oracle", "torch_check.py"), *folders], "oracle.log",
                                    environment=self.torch_environment)
        finally:
            shutil.rmtree(os.path.join(self.work, "exported"), ignore_errors=True)
        lines = [line for line in output.splitlines() if line.startswith(("PASS", "FAIL"))]
        if code == 77:
            raise LeftOut((output.strip().splitlines() or ["?"])[-1])
        if code != 0 or len(lines) != len(folders):
            raise Failed("; ".join(line for line in lines if line.startswith("FAIL")) or "it did not finish; see oracle.log")
        return f"{len(lines)} exported steps agree with PyTorch"
