"""Runs unittest cases for CTest: run_cases.py NAME…, with the working directory on the path of modules.

Prints "skip: REASON", once for each reason, for whatever was skipped: whole tests, subtests, classes and modules. report.awk
holds each reason against the list of accepted skips, also where other cases of the same CTest entry passed.
Exit codes: 0 a case passed and none failed, 1 a case failed or nothing ran, 77 everything was skipped."""
import os
import sys
import unittest


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main(names):
    sys.path.insert(0, os.getcwd())
    cases = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, warnings="default").run(cases)
    for reason in dict.fromkeys(" ".join(why.split()) or "no reason given" for _, why in result.skipped):
        print(f"\nskip: {reason}", flush=True)  # on a line of its own, whatever a program has printed before
    if not result.wasSuccessful():
        return 1
    if result.passed:
        return 0
    if result.skipped:
        return 77
    print(f"no case ran of {' '.join(names)}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
