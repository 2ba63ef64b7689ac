#!/usr/bin/env python3
"""Compares exported training steps with JAX: check.py [--json] FOLDER... Exit code 0: all within tolerance, 1: not."""

import json
import sys
import time

import compare
import exported
import step as stepping
from arithmetic import Bf16, Exact


def check(folder):
    began = time.monotonic()
    export = exported.read_export(folder)
    truth = stepping.run(export, Exact())
    if export.precision == "float32":
        tolerance = compare.Float32Tolerance()
    elif export.precision == "bf16":
        tolerance = compare.Bf16Tolerance(export, truth, stepping.run(export, Bf16()))
    else:
        exported.fail(1, "wrong-export", f"{folder}: no tolerance is known for precision {export.precision}")
    findings = compare.compare(export, truth, tolerance)
    return {
        "folder": str(folder), "model": export.model, "precision": export.precision,
        "parameters": sum(w.size for w in export.weights.values()), "loss": export.step["loss"], "framework_loss": truth.loss,
        "passed": all(f.good for f in findings), "seconds": time.monotonic() - began, "findings": findings,
    }


def print_table(result, worst):
    print(f"\n{result['model']} {result['precision']}: {result['parameters']:,} parameters, loss {result['loss']:.7f}, "
          f"framework (float64) {result['framework_loss']:.7f}, {result['seconds']:.0f} s")
    print(f"  {'what':14} {'checked':>7}  {'error':>8}  {'allowed':>8}  worst")
    kinds = list(dict.fromkeys(f.what for f in result["findings"]))
    for kind in kinds:
        findings = [f for f in result["findings"] if f.what == kind]
        findings.sort(key=lambda f: -(f.error / f.tolerance if f.tolerance else f.error))
        failed = [f for f in findings if not f.good]
        for row, f in enumerate(failed if len(failed) > worst else findings[: 1 if kind == "loss" else worst]):
            count = len(findings) if row == 0 else ""
            print(f"  {kind if row == 0 else '':14} {count:>7}  {f.error:8.1e}  {f.tolerance:8.1e}  {f.name}"
                  f"{' (' + f.note + ')' if f.note else ''}{'' if f.good else '  <-- FAIL'}")
    print(f"  {'PASS' if result['passed'] else 'FAIL'}")


def main():
    parser = exported.Parser(__doc__)
    parser.add_argument("folders", nargs="+", help="what --export-step wrote")
    parser.add_argument("--json", action="store_true", help="all findings, one JSON object a line for each folder, instead of tables")
    parser.add_argument("--worst", type=int, default=3, help="rows for each kind of comparison")
    arguments = parser.parse_args()
    results = []
    for folder in arguments.folders:
        results.append(check(folder))
        if arguments.json:
            print(json.dumps(results[-1], default=vars))
        else:
            print_table(results[-1], arguments.worst)
        sys.stdout.flush()
    return 0 if all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
