"""Bad input: one line that says what, where and what to do; the exit code of its kind; all ranks end; nothing half-written."""
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import unittest

from support import BIN, HANG, Case, environment, eventually, mpirun, mpirun_each, ranks_of, run, said_codes, tool

USAGE, ENVIRONMENT, INTERRUPTED = 2, 3, 5


class Refusals(Case):
    """What the classes below share."""
    def refused(self, code, words, *args, ranks=None, **env):
        self.assert_one_line_error(run(*args, "--out", self.out, ranks=ranks, **env), code, *words)


class Names(Refusals):
    def test_unknown_model_suggests_the_nearest(self):
        self.refused(USAGE, ["error[unknown-name]", "gpt2-124n", "gpt2-124m"], "--model", "gpt2-124n")

    def test_no_model(self):
        self.refused(USAGE, ["error[no-model]"])

    def test_unknown_precision(self):
        self.refused(USAGE, ["error[unknown-name]", "bf17", "bf16"], "--model", "gpt2-tiny", "--precision", "bf17")

    def test_precision_the_device_lacks(self):
        self.refused(ENVIRONMENT, ["error[unsupported]", "fp8", "bf16"], "--model", "gpt2-tiny", "--precision", "fp8")
        said = run("--device", "cpu", "--model", "gpt2-tiny", "--precision", "fp8", "--out", self.out).stderr
        self.assertEqual(said.count("has no fp8"), 1, "the reason is another one than that it is so")

    def test_options_given_twice(self):
        self.refused(USAGE, ["error[duplicate-value]", "--trials"], "--model", "gpt2-tiny", "--trials", 2, "--trials", 3)
        self.refused(USAGE, ["error[duplicate-value]", "--suite"], "--suite", "quick", "--suite", "standard")

    def test_unknown_communicator(self):
        self.refused(USAGE, ["error[unknown-name]", "--comm 'ncll'", "'nccl'"], "--model", "gpt2-tiny", "--comm", "ncll")

    def test_communicator_that_cannot_serve(self):
        self.refused(ENVIRONMENT, ["error[communicator-unusable]", "--comm nccl", "GPU", " cpu"], "--model", "gpt2-tiny", "--device", "cpu",
                     "--comm", "nccl")

    def test_unknown_device(self):
        self.refused(USAGE, ["error[unknown-name]", "cpuu", "'cpu'"], "--model", "gpt2-tiny", "--device", "cpuu")
        self.refused(USAGE, ["error[unknown-name]", "--device 'gpu'", "'cuda'"], "--model", "gpt2-tiny", "--device", "gpu")

    def test_other_programs_names_of_precisions(self):
        for theirs, ours in (("fp32", "float32"), ("bfloat16", "bf16"), ("float16", "fp16")):
            self.refused(USAGE, ["error[unknown-name]", f"--precision '{theirs}'", f"'{ours}'"], "--model", "gpt2-tiny", "--precision", theirs)

    def test_misspelt_option(self):
        self.refused(USAGE, ["error[unknown-option]", "--micro-bacth", "--micro-batch"], "--model", "gpt2-tiny", "--micro-bacth", 4)


class Values(Refusals):
    def test_batch_not_divisible(self):
        self.refused(USAGE, ["error[batch-not-divisible]", "--global-batch 7"], "--model", "gpt2-tiny", "--global-batch", 7, "--micro-batch", 2)

    def test_batch_over_determined(self):
        self.refused(USAGE, ["error[options-conflict]", "--micro-batch, --accumulate and --global-batch"], "--model", "gpt2-tiny", "--global-batch", 8, "--micro-batch", 2, "--accumulate", 4)

    def test_sequence_too_long(self):
        self.refused(USAGE, ["error[bad-value]", "--seq-len 4096", "1024"], "--model", "gpt2-124m", "--seq-len", 4096)

    def test_sequence_for_images(self):
        self.refused(USAGE, ["error[option-does-not-apply]", "--seq-len"], "--model", "resnet-tiny", "--seq-len", 8)

    def test_too_many_layers(self):
        self.refused(USAGE, ["error[bad-value]", "--layers 99"], "--model", "gpt2-tiny", "--layers", 99)

    def test_more_memory_than_the_node_has(self):
        self.refused(USAGE, ["error[out-of-memory]", "GiB"], "--model", "gpt2-1558m", "--micro-batch", 100000)
        peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak_kib, 2 << 20, "said before anything is allocated: the weights alone are 6 GiB")

    def test_values_that_are_none(self):
        for option, value, words in (("--estimate-watts", "abc", []), ("--estimate-watts", "nan", []), ("--estimate-watts", "-5", []),
                                     ("--threads", "x", []), ("--micro-batch", "1,x", []), ("--gpu-clock", "", [])):
            with self.subTest(option=option, value=value):
                self.refused(USAGE, ["error[bad-value]", option, *words], f"{option}={value}", "--model", "gpt2-tiny")

    def test_a_number_of_threads_from_the_environment_has_the_options_bounds(self):
        self.refused(USAGE, ["error[threads-out-of-range]", "OMP_NUM_THREADS=100000"], "--model", "gpt2-tiny", OMP_NUM_THREADS=100000)


class Numbers(Refusals):
    def test_nonsense_numbers(self):
        for option, value in (("--micro-batch", 0), ("--accumulate", -1), ("--steps", 0), ("--trials", 0), ("--window", 0),
                              ("--seq-len", 0), ("--micro-batch", "x"), ("--threads", -2), ("--warmup", -1),
                              ("--micro-batch", 2**54 + 1), ("--accumulate", 2**62), ("--global-batch", 2**62),
                              ("--seq-len", 2**62)):
            with self.subTest(option=option, value=value):
                process = run("--model", "gpt2-tiny", option, value, "--out", self.out)
                self.assertEqual(process.returncode, USAGE, process.stderr)
                self.assertIn(option.lstrip("-"), process.stderr)
                self.assertFalse(self.out.exists())


class Files(Refusals):
    def test_files_that_cannot_be_used_are_said_before_anything_runs(self):
        """Also where no point would have needed them."""
        none, series, site = self.folder / "none", self.folder / "power.csv", self.folder / "site.json"
        series.write_text("time,watts\n1,many\n")
        stale = self.folder / "stale.csv"
        stale.write_text("time,watts\n1700000000,100\n1700000001,100\n")
        site.write_text('{"knobs": [\n')
        site.chmod(0o644)
        for option, file, words in (("--site", none, ["error[cannot-read]: --site", f"{none}: ", "check the path"]), ("--site", site, ["error[bad-site-file]", "line 2"]),
                                    ("--energy-csv", none, ["error[cannot-read]: --energy-csv", f"{none}: ", "check the path"]),
                                    ("--energy-csv", "/dev/zero", ["error[bad-power-file]", "/dev/zero: "]),
                                    ("--energy-csv", series, ["error[bad-power-file]", f"{series}:2: "]),
                                    ("--energy-csv", stale, ["error[bad-power-file]", f"{stale}: "])):
            with self.subTest(option=option, file=file):
                self.refused(USAGE, words, option, file, "--model", "gpt2-tiny", "--steps", 2)
        self.refused(USAGE, ["error[bad-site-file]", str(site)], "--site", site, "--model", "gpt2-tiny", "--gpu-clock", 1305)

    def test_another_kind_of_file_is_named(self):
        report = pathlib.Path(__file__).parents[1] / "results/fixtures/good.json"
        prices = pathlib.Path(__file__).parents[2] / "results/prices/examples-usd.json"
        for option, file in (("--config", report), ("--config", prices), ("--site", report), ("--energy-csv", report)):
            with self.subTest(option=option, file=file.name):
                model = [] if option == "--config" else ["--model", "gpt2-tiny"]
                self.refused(USAGE, [f"error[wrong-file]: {option} {file}: "], option, file, *model)

    def test_numbers_are_decimal(self):
        process = run("--model", "gpt2-tiny", "--seq-len", "016", "--steps", "010", "--accumulate", "01,010", "--dry-run")
        self.assert_ran(process)
        for word in ("/t16/", "/acc1/", "/acc10/"):
            self.assertIn(word, process.stdout)
        self.refused(USAGE, ["error[bad-value]: --threads 0x1"], "--model", "gpt2-tiny", "--threads", "0x1")

    def test_a_folder_without_a_name(self):
        process = run("--model", "gpt2-tiny", "--steps", 1, "--out", "")
        self.assert_one_line_error(process, USAGE, "error[bad-value]: --out")

    def test_unwritable_output(self):
        process = run("--model", "gpt2-tiny", "--steps", 2, "--out", "/proc/trainwatt/out", ranks=2)
        self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
        self.assertEqual(said_codes(process.stderr), ["not-written"])
        self.assertIn("/proc/trainwatt/out", process.stderr)

    def test_existing_output_is_never_overwritten(self):
        self.out.mkdir()
        (self.out / "report.json").write_text("precious")
        process = run("--model", "gpt2-tiny", "--steps", 2, "--out", self.out)
        self.assertEqual(process.returncode, USAGE)
        self.assertEqual((self.out / "report.json").read_text(), "precious")


class Configs(Refusals):
    def test_misspelt_key_in_a_config(self):
        config = self.folder / "plan.json"
        config.write_text(json.dumps({"model": "gpt2-tiny", "grids": [{"model": "gpt2-tiny", "precison": "bf16"}]}))
        self.refused(USAGE, ["error[bad-config]", str(config), "/grids/0/precison", "'precision'"], "--config", config)

    def test_config_that_is_not_json(self):
        config = self.folder / "plan.json"
        config.write_text('{"model": ')
        self.refused(USAGE, ["error[bad-config]", str(config)], "--config", config)

    def test_config_with_a_wrong_type(self):
        config = self.folder / "plan.json"
        config.write_text('{"model": "gpt2-tiny", "micro_batch": "four"}')
        self.refused(USAGE, ["error[bad-config]", "/micro_batch", "four"], "--config", config)

    def test_missing_config(self):
        self.refused(USAGE, ["error[cannot-read]", "absent.json", "--config"], "--config", self.folder / "absent.json")

    def test_a_step_is_not_exported_of_a_run_to_a_target_or_without_a_size(self):
        config = self.folder / "plan.json"
        config.write_text('{"model": "gpt2-tiny", "target": "default"}')
        no_size = ("--model", "llama-tiny", "--micro-batch", "auto")
        for plan in (("--config", config), ("--suite", "convergence"), no_size):
            process = run(*plan, "--export-step", self.folder / "step")
            self.assert_one_line_error(process, USAGE, "error[options-conflict]", "--export-step")
            self.assertFalse((self.folder / "step").exists())

    def test_doubled_and_unused_keys_in_a_config(self):
        config = self.folder / "plan.json"
        config.write_text('{"model": "gpt2-tiny", "model": "resnet-tiny"}')
        self.refused(USAGE, ["error[bad-config]", str(config), 'key "model"'], "--config", config)
        config.write_text('{"precision": "fp8", "grids": [{"model": "gpt2-tiny", "precision": "float32"}]}')
        self.refused(USAGE, ["error[bad-config]", str(config), "/precision"], "--config", config)

    def test_a_config_that_only_the_first_rank_can_read_serves_all(self):
        command = [*mpirun(2), str(BIN / "trainwatt-train"), "--config", "/dev/stdin", "--out", str(self.out)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment(),
                                 input='{"model": "gpt2-tiny", "steps": 2}')
        self.assert_ran(process)
        self.assertEqual(self.report()["records"][0]["workload"]["ranks"], 2)


class UnlikeRanks(Refusals):
    def test_unknown_model_ends_all_ranks(self):
        process = run("--model", "nonsense", "--out", self.out, ranks=2)
        self.assertEqual(process.returncode, USAGE)
        self.assertEqual(said_codes(process.stderr), ["unknown-name"])

    def test_ranks_started_with_different_plans_are_refused(self):
        program = [str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--out", str(self.out), "--steps"]
        for one, other in ((["3"], ["6"]), (["3"], ["3", "--force"]), (["3", "--site", "a.json"], ["3"]),
                           (["3", "--energy-csv", "a.csv"], ["3", "--energy-csv", "b.csv"]),
                           (["3"], ["3", "--estimate-watts", "50"])):
            with self.subTest(one=one, other=other):
                command = mpirun_each([*program, *one], [*program, *other])
                process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
                self.assert_one_line_error(process, USAGE, "error[ranks-differ]", "rank 1", "rank 0")

    def test_ranks_started_with_different_options_are_refused(self):
        """Whatever only one of them was given: it would wait for the others in another place than they for it."""
        program = [str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--steps", "2", "--out", str(self.out)]
        for option in (["--dry-run"], ["--site", "/dev/null"], ["--energy-csv", "/dev/null"], ["--estimate-watts", "100"],
                       ["--force"], ["--threads", "1"]):
            with self.subTest(option[0]):
                command = mpirun_each([*program, *option], program)
                process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
                self.assert_one_line_error(process, USAGE, "error[ranks-differ]", "rank 1", "rank 0")

    def test_an_option_that_one_rank_does_not_know_ends_all(self):
        program = [str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--out", str(self.out)]
        command = mpirun_each([*program, "--steps", "3"], [*program, "--stepps", "3"])
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assert_one_line_error(process, USAGE, "error[unknown-option]", "--stepps", "--steps")


class Launchers(Refusals):
    def test_ranks_that_a_foreign_launcher_leaves_alone_are_refused(self):
        """As where mpirun or srun belong to another MPI: each process would measure a run of one rank."""
        mpich = dict(PMI_SIZE=2, PMI_RANK=1, MPI_LOCALNRANKS=2, MPI_LOCALRANKID=1)
        for said, variables in (("PMI_SIZE=2", mpich), ("PMI_SIZE=2", dict(PMI_SIZE=2, PMI_RANK=0)),
                                ("PMI_SIZE=2", dict(mpich, SLURM_STEP_ID=0, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=1)),
                                ("SLURM_STEP_NUM_TASKS=2", dict(SLURM_STEP_ID=0, SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2))):
            with self.subTest(variables=variables):
                process = run("--model", "gpt2-tiny", "--steps", 2, "--out", self.out, **variables)
                self.assert_one_line_error(process, ENVIRONMENT, "error[launcher-mismatch]", said, "mpirun")

    def test_the_mpirun_of_this_mpi_counts_whatever_started_it(self):
        """As in a step of srun's with more tasks, or below a launcher of another MPI."""
        for variables in (dict(SLURM_STEP_ID=0, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=4),
                          dict(PMI_SIZE=4, PMI_RANK=0, MPI_LOCALNRANKS=4, MPI_LOCALRANKID=0)):
            with self.subTest(variables=variables):
                process = run("--model", "gpt2-tiny", "--steps", 2, "--dry-run", ranks=2, **variables)
                self.assertEqual(process.returncode, 0, process.stderr)


class Output(Case):
    """What a log and a full disk look like."""

    def limited(self, *args, file_bytes=resource.RLIM_INFINITY):
        """A rank alone, in which a file that grows too large is an error and no signal: as a full disk is."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
        process = subprocess.Popen([str(BIN / "trainwatt-train"), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment(), preexec_fn=limit)
        self.addCleanup(self.end, process)
        return process

    def test_a_log_has_no_colours(self):
        process = run("--model", "gpt2-tiny", "--steps", 2, "--out", self.out, ranks=2)
        self.assert_ran(process)
        self.assertNotIn("\033", process.stdout + process.stderr)

    def test_a_full_disk_leaves_the_points_that_are_on_it_on_the_screen(self):
        process = self.limited("--model", "gpt2-tiny", "--window", 1, "--trials", 1, "--accumulate", "1,2", "--out", self.out)
        self.wait_for_records(process)
        most = (self.out / "records.jsonl").stat().st_size + 10
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        stdout, stderr = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, ENVIRONMENT, stderr)
        self.assertIn("gpt2-tiny/float32/mb8/t128/acc1/np1", stdout)
        self.assertNotIn("gpt2-tiny/float32/mb8/t128/acc2/np1", stdout, "its record is not on the disk")
        lost = [line for line in stderr.splitlines() if "error[not-written]" in line]
        self.assertEqual(len(lost), 2, stderr)
        self.assertIn("gpt2-tiny/float32/mb8/t128/acc2/np1", lost[0])
        self.assertIn(str(self.out / "records.jsonl"), lost[0])
        self.assertIn(str(self.out / "report.json"), lost[1])

    def small_disk(self, kib):
        """A folder on a file system of its own, of so many KiB."""
        folder = self.folder / "disk"
        folder.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder], capture_output=True).returncode:
            self.skipTest("no right to mount a small file system here")
        self.addCleanup(subprocess.run, ["umount", "-l", folder])
        return folder

    def test_an_export_onto_a_full_disk_says_what_to_do_and_leaves_nothing(self):
        report = pathlib.Path(__file__).parents[1] / "results/fixtures/good.json"
        disk = self.small_disk(4)
        (disk / "filler").write_bytes(b"x" * 4096)
        process = tool("export", report, "--to", "markdown,csv", "-o", disk / "tables")
        self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
        self.assertEqual(said_codes(process.stderr), ["not-written"])
        self.assertIn(str(disk / "tables"), process.stderr)
        self.assertEqual([file.name for file in disk.rglob("*")], ["filler"])

    def test_whatever_is_written_onto_a_full_disk_ends_with_one_code(self):
        fixtures = pathlib.Path(__file__).parents[1] / "results/fixtures"
        run_folder = self.folder / "run"
        run_folder.mkdir()
        (run_folder / "report.json").write_bytes((fixtures / "good.json").read_bytes())
        disk = self.small_disk(4)
        (disk / "filler").write_bytes(b"x" * 4096)
        for command, name in ((("html", fixtures / "good.json"), "page.html"), (("bundle", run_folder, "--force"), "offer.tar.zst"),
                              (("freeze", "--suite", "quick"), "kit.json")):
            process = tool(*command, "-o", disk / name)
            self.assertEqual(process.returncode, ENVIRONMENT, f"{command}: {process.stderr}")
            self.assertEqual(said_codes(process.stderr)[-1:], ["not-written"])
            self.assertIn(f"{disk / name}: ", process.stderr)
            self.assertIn(os.strerror(errno.ENOSPC), process.stderr)
            self.assertEqual([file.name for file in disk.rglob("*")], ["filler"])

    def test_a_read_only_folder_is_named(self):
        report = pathlib.Path(__file__).parents[1] / "results/fixtures/good.json"
        disk = self.small_disk(64)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        process = tool("export", report, "--to", "csv", "-o", disk)
        self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
        self.assertEqual(said_codes(process.stderr), ["not-written"])
        self.assertIn(f"{disk / 'report.csv'}: ", process.stderr)
        process = tool("meter", "--out", disk / "m", "--", "true")
        self.assertEqual(process.returncode, 125, process.stderr)
        self.assertEqual(said_codes(process.stderr), ["not-written"])
        self.assertIn(f"{disk / 'm'}: ", process.stderr)
        process = run("--model", "gpt2-tiny", "--steps", 1, "--out", disk / "r")
        self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
        self.assertEqual(said_codes(process.stderr), ["not-written"])
        self.assertIn(f"--out {disk / 'r'}: ", process.stderr)

    def test_a_metered_command_on_a_full_disk_keeps_its_figures(self):
        disk = self.small_disk(8)
        (disk / "m").mkdir()
        (disk / "filler").write_bytes(b"x" * 4096)
        process = tool("meter", "--out", disk / "m" / "r", "--", "true")
        self.assertEqual(process.returncode, 125, process.stderr)
        [lost] = [line for line in process.stderr.splitlines() if "error[not-written]" in line]
        for word in (str(disk / "m" / "r" / "report.json"), "command/true", "--out"):
            self.assertIn(word, lost)
        self.assertIn("no_energy_meter", process.stderr)
        self.assertEqual(list((disk / "m").iterdir()), [])

    def test_a_run_that_fills_the_disk_says_how_to_go_on(self):
        out = self.small_disk(256) / "a run"
        process = self.limited("--model", "gpt2-tiny", "--window", 1, "--trials", 1, "--accumulate", "1,2", "--out", out)
        self.wait_for_records(process, out=out)
        with open(out.parent / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    filler.flush()
            except OSError:
                pass
        stdout, stderr = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, ENVIRONMENT, stderr)
        self.assertIn(f"--resume '{out}'", stderr)
        self.assertIn("not-written", said_codes(stderr))
        self.assertEqual([file.name for file in out.iterdir() if ".tmp." in file.name], [])
        (out.parent / "filler").unlink()
        process = run("--resume", out)
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_a_run_on_a_full_disk_leaves_nothing_that_blocks_the_next(self):
        """Whatever it is that finds no room: what stays holds finished points and can be resumed, or nothing stays."""
        disk = self.small_disk(256)
        out, filler = disk / "r", disk / "filler"
        words = ["--model", "gpt2-tiny", "--micro-batch", 1, "--seq-len", 16, "--threads", 1, "--accumulate", "1,2", "--steps", 2]
        left = set()
        for free_kib in (0, 4, 12, 16, 24, 32):
            with self.subTest(free_kib=free_kib):
                filler.write_bytes(b"x" * ((256 - free_kib) << 10))
                process = run(*words, "--out", out)
                if process.returncode == 0:
                    break
                self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
                self.assertEqual(set(said_codes(process.stderr)), {"not-written"}, process.stderr)
                has_records = (out / "records.jsonl").exists() and (out / "records.jsonl").stat().st_size > 0
                self.assertEqual(out.exists(), has_records, f"{process.stderr}\n{list(disk.rglob('*'))}")
                self.assertEqual("--resume" in process.stderr, has_records, process.stderr)
                filler.unlink()
                process = run(*words, "--resume" if has_records else "--out", out)
                self.assert_ran(process)
                left.add(has_records)
            shutil.rmtree(out, ignore_errors=True)
        self.assertIn(False, left)

    def test_what_does_not_arrive_is_an_error_of_each_program(self):
        for program, words in (("trainwatt", ["--help"]), ("trainwatt-train", ["--help"]), ("trainwatt-train", ["--version"]),
                               ("trainwatt-train", ["--describe=man"]), ("trainwatt-train", ["--model", "gpt2-tiny", "--steps", "2", "--dry-run"]),
                               ("trainwatt-ops", ["--help"]), ("trainwatt-ops", ["--version"]), ("trainwatt-ops", ["--describe=man"])):
            with self.subTest(program=program, words=words), open("/dev/full", "w") as full:
                process = subprocess.run([BIN / program, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG,
                                         env=environment())
                self.assertEqual(process.returncode, ENVIRONMENT, process.stderr)
                self.assertEqual(said_codes(process.stderr), ["not-written"])

    def test_an_export_that_fails_leaves_nothing(self):
        step = self.folder / "step"
        # Of the weights more than 150 MB; what MPI makes for itself is smaller.
        process = self.limited("--model", "gpt2-124m", "--layers", 1, "--micro-batch", 1, "--seq-len", 16, "--export-step", step,
                               file_bytes=64 << 20)
        stdout, stderr = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, ENVIRONMENT, stdout + stderr)
        self.assertIn("step", stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class LostRanks(Case):
    def start_ranks(self, *args, **env):
        return self.start(*args, command=mpirun(2), **env)

    def test_a_killed_rank_ends_the_job_and_keeps_finished_points(self):
        process = self.start_ranks("--model", "gpt2-tiny", "--accumulate", "1,2", "--window", 2, "--trials", 1, "--out", self.out)
        self.wait_for_records(process)
        ranks = ranks_of(process)
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[0], signal.SIGKILL)
        process.communicate(timeout=HANG)
        self.assertNotEqual(process.returncode, 0)
        first = json.loads((self.out / "records.jsonl").read_text().splitlines()[0])
        self.assertEqual(first["verdict"]["status"], "valid")
        self.assertFalse((self.out / "report.json").exists(), "no report is better than half of one")

    def test_sigterm_keeps_finished_points_in_a_report(self):
        # After so many seconds mpirun passes the signal on, and after as many more it kills: by itself after one, in which a
        # slow, busy machine may not have written a report. The second point takes longer than the first of these.
        process = self.start_ranks("--model", "gpt2-tiny", "--accumulate", "1,2", "--window", 6, "--trials", 1, "--out", self.out,
                                   OMPI_MCA_odls_base_sigkill_timeout=5)
        self.wait_for_records(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(len(self.report()["records"]), 1)
        self.assertEqual(tool("validate", self.out / "report.json").returncode, 0)

    def test_sigint_alone_is_exit_5(self):
        process = self.start("--model", "gpt2-tiny", "--window", 600, "--out", self.out)
        self.assertTrue(eventually(lambda: (self.out / "run.json").exists() or process.poll() is not None))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED, out + err)
        self.assertEqual(said_codes(err), ["interrupted"])
        self.assertEqual(self.report()["records"], [], "nothing was complete, but it can be resumed")

    def test_a_signal_while_the_products_are_timed_ends_the_run_there(self):
        """Its log names what the run is at, and it waits for no more than the run of a product."""
        process = self.start("--model", "gpt2-124m", "--micro-batch", 4, "--window", 600, "--trials", 1, "--out", self.out)
        log = []
        for line in process.stderr:
            log.append(line)
            if "timing the products alone" in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, INTERRUPTED, "".join(log) + err)
        self.assertEqual(said_codes(err), ["interrupted"])
        self.assertIn("gpt2-124m", err)
        self.assertNotIn("building plans", err)

    def test_one_rank_without_memory_fails_the_point_on_all(self):
        """One rank throws while it sets up: all agree, the point is `failed`, nobody hangs."""
        train = str(BIN / "trainwatt-train")
        arguments = ["--model", "gpt2-124m", "--micro-batch", "1", "--seq-len", "64", "--steps", "2", "--out", str(self.out)]
        limited = ["bash", "-c", 'ulimit -v 1500000; exec "$0" "$@"', train]
        command = mpirun_each([*limited, *arguments], [train, *arguments])
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assertIn(process.returncode, (ENVIRONMENT, 4), process.stdout + process.stderr)
        self.assertIn("rank 0", process.stdout + process.stderr)

    def test_a_failure_in_a_step_ends_all_ranks(self):
        """One rank fails in the middle of a step while the other waits for it: the job ends, and says where. What does so
        twice is a failed point, and the run goes on behind it."""
        train = [str(BIN / "trainwatt-train"), "--model", "gpt2-tiny", "--window", "600", "--trials", "1"]
        train += ["--resume", str(self.out)]
        failing = ["env", f"LD_PRELOAD={os.environ['TRAINWATT_FAILING_REDUCTION']}"]
        command = mpirun_each(train, [*failing, *train])
        for _ in range(2):
            process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
            self.assertNotEqual(process.returncode, 0, process.stdout + process.stderr)
            said = [line for line in process.stderr.splitlines() if "trainwatt-train: error[internal]: rank 1 on " in line]
            self.assertEqual(len(said), 1, process.stderr)
            self.assertIn("MPI_Allreduce", said[0])
            self.assertFalse((self.out / "report.json").exists(), "nothing was measured")
        process = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
        self.assertEqual(process.returncode, 4, process.stdout + process.stderr)
        [record] = self.report()["records"]
        self.assertEqual(record["verdict"]["status"], "failed")
        self.assertRegex(record["verdict"]["reasons"][0], "^ended the job twice: rank 1 on .*MPI_Allreduce")
        self.assert_ran(tool("validate", self.out / "report.json"))


if __name__ == "__main__":
    unittest.main()
