"""Errors of the Python scripts, as the programs print them."""
import argparse
import os
import sys


def fail(status, code, text):
    """Prints what happened, where, and what to do, and exits: status 2 for usage, 3 for the environment. The codes are listed in
    scripts/packaging/README.md."""
    print(f"{os.path.basename(sys.argv[0])}: error[{code}]: {text}", file=sys.stderr)
    sys.exit(status)


class Parser(argparse.ArgumentParser):
    """Options of a script, whose --help is its description."""

    def __init__(self, description):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message):
        code = "unknown-option" if message.startswith("unrecognized arguments") else "bad-value"
        fail(2, code, f"{message}; see --help")
