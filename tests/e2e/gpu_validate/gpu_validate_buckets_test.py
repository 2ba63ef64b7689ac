"""The piece of scripts/gpu-validate that compares sizes of gradient buckets, over a stand-in for trainwatt-train."""
import json
import os
import unittest
import unittest.mock

import support
from gpu_validate_script import Script, load


class Buckets(Script):
    def test_sizes_of_buckets(self):
        module = load()
        build, tools = self.out.parent / "build", self.out.parent / "tools"
        for folder in (build / "bin", tools, self.out):
            folder.mkdir(parents=True)
        (tools / "mpirun").write_text("#!/bin/bash\nwhile [ \"$1\" != -np ]; do shift; done\nexec \"${@:3}\"\n")
        (tools / "mpirun").chmod(0o755)
        program = build / "bin" / "trainwatt-train"
        record = {"workload": {"precision": "bf16"}, "execution": {"communicator": "nccl", "step_mode": "graph"}, "trials": [],
                  "verdict": {"status": "valid", "flags": [], "reasons": []}, "summary": {"samples_per_s": {"value": 5.0}}}

        def outcome(end, **more):
            program.write_text("#!/bin/bash\nall=$*\nwhile [ $# -gt 0 ]; do [ \"$1\" = --out ] && out=$2; shift; done\n"
                               f"rm -rf $out\n{end}\nmkdir -p $out; echo '{json.dumps(record)}' > $out/records.jsonl\n")
            program.chmod(0o755)
            path = f"{tools}:{os.environ['PATH']}"
            with unittest.mock.patch.dict(os.environ, support.environment(OMPI_MCA_odls_base_sigkill_timeout="1", PATH=path)):
                validation = module.Validation(self.options(build, budget=support.HANG, **more))
                return validation.buckets(), validation.summary["buckets"]

        text, summary = outcome("")
        self.assertEqual(text, "4 of 4 sizes measured; fastest on 1 rank: 25 MiB, 1.000 × the default of 25")
        self.assertEqual(summary["sizes"][0], {"ranks": 1, "bucket_mib": 25, "samples_per_s": 5.0, "step_time_s": None, "communication_s": None,
                                               "communicator": "nccl", "step_mode": "graph", "ratio_to_default": 1})
        wrong = "[[ $all != *' --bucket-mib 1024 '* && $all != *' --bucket-mib 1024' ]] || { echo 'trainwatt-train: error[x]: no' >&2; exit 4; }"
        with self.assertRaisesRegex(module.Failed, "3 of 4 sizes measured; fastest .*; no throughput with 1024 MiB on 1; see steps.log"):
            outcome(wrong)
        # Without the default there is nothing to compare with.
        with self.assertRaisesRegex(module.Failed, "^3 of 4 sizes measured; no throughput with 25 MiB on 1;"):
            outcome(wrong.replace("1024", "25"))
        with self.assertRaisesRegex(module.LeftOut, "NCCL is not installed"):
            outcome("echo 'trainwatt-train: error[library-missing]: libnccl.so.2: cannot open' >&2; exit 3")
        with self.assertRaisesRegex(module.LeftOut, "measured with gpt2-124m only"):
            outcome("", models="resnet-50")
        with unittest.mock.patch.object(module.plan, "BUCKETS", module.plan.BUCKETS._replace(seconds=support.HANG + 1)), \
                self.assertRaisesRegex(module.LeftOut, "no time was left: call again with --only buckets --models gpt2-124m"):
            outcome("")
        # GPUs of the driver; a process may see fewer of them.
        (tools / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: A'; echo '  MIG 1g'; echo 'GPU 1: A'; echo 'GPU 2: A'\n")
        (tools / "nvidia-smi").chmod(0o755)
        for visible, gpus in ((None, 3), ("1,2", 2), ("0", 1), ("", 1)):
            seen = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
            with unittest.mock.patch.dict(os.environ, {"PATH": f"{tools}:{os.environ['PATH']}", **seen}):
                if visible is None:
                    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                self.assertEqual(module.Validation(self.options(build)).gpus(), gpus, visible)
        # All of them first, then one.
        text, summary = outcome("")
        self.assertEqual([(one["ranks"], one["bucket_mib"]) for one in summary["sizes"]],
                         [(ranks, size) for ranks in (3, 1) for size in module.plan.BUCKETS.sizes_mib])
        self.assertRegex(text, "^8 of 8 sizes measured; fastest on 3 ranks: .*; fastest on 1 rank: ")


if __name__ == "__main__":
    unittest.main()
