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
    """Options of a script. --help is its description; where options have texts of their own, argparse's usage and list too."""

    def __init__(self, description):
        self.has_texts = False
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def add_argument(self, *names, **more):
        self.has_texts = self.has_texts or bool(more.get("help")) and "--help" not in names
        return super().add_argument(*names, **more)

    def format_help(self):
        return super().format_help() if self.has_texts else self.description.strip() + "\n"

    def error(self, message):
        code = "unknown-option" if message.startswith("unrecognized arguments") else "bad-value"
        fail(2, code, f"{message}; see --help")

    def parse_args(self, args=None, namespace=None):
        """Also refuses a value that is empty, as from a shell variable that is not set, or another option."""
        args = sys.argv[1:] if args is None else args
        for before, word in zip(["", *args], args):
            option, given, value = word.partition("=")
            if not word or option.startswith("--") and given and (not value or value.startswith("--")):
                self.error(f"{option or before} needs a value{value and f', not {value!r}'}")
        return super().parse_args(args, namespace)


def count(text):
    """Type of an option: a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number of at least 1, not '{text}'")
    return int(text)
