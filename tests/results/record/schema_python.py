"""Python's jsonschema takes the good fixtures, the examples of prices and the manual's rules, and of the faults in
broken.txt it finds exactly those marked "schema"; each example without a key that its schema requires is refused."""
import json
import pathlib
import re
import sys

import jsonschema

fixtures, root = map(pathlib.Path, sys.argv[1:])
schemas = root / "results" / "schema"
wrong = []


def validator_of(name):
    schema = json.loads((schemas / f"{name}.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def without_comments(text):
    """JSON with // and /* */, which prices and rules may have; what looks like one inside a string stays."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or " ", text, flags=re.DOTALL)


def check_good(validator, name, value):
    wrong.extend(f"{name}: {e.json_path}: {e.message}" for e in validator.iter_errors(value))


def check_example(validator, name, text):
    value = json.loads(without_comments(text))
    check_good(validator, name, value)
    for key in validator.schema["required"]:
        less = {other: item for other, item in value.items() if other != key}
        if validator.is_valid(less):
            wrong.append(f"{name}: the schema takes it without {key}")
    if validator.is_valid({**value, "unheard_of": 1}):
        wrong.append(f"{name}: the schema takes a key that it does not know")


report = validator_of("report")
good = {name: (fixtures / f"{name}.json").read_text() for name in ("good", "good_energy", "good_target")}
for name, text in good.items():
    check_good(report, f"{name}.json", json.loads(text))
checked = 0
for line in (fixtures / "broken.txt").read_text().splitlines():
    if not line or line.startswith("#"):
        continue
    kind, name, old, new, _ = line.split(" | ")
    if old not in good[name]:
        wrong.append(f"{line}: not in {name}.json")
        continue
    fails = not report.is_valid(json.loads(good[name].replace(old, new, 1)))
    if fails != (kind == "schema"):
        wrong.append(f"{line}: the schema {'refuses' if fails else 'accepts'} it")
    checked += 1

prices = sorted((root / "results" / "prices").glob("*.json"))
for path in prices:
    check_example(validator_of("prices"), path.name, path.read_text())
rules = [block for block in re.findall(r"^```json\n(.*?)^```", (root / "results" / "README.md").read_text(), re.DOTALL | re.MULTILINE)
         if '"rules"' in block]
for number, block in enumerate(rules, 1):
    check_example(validator_of("baseline"), f"results/README.md, rules {number}", block)
for what, count in (("faults", checked), ("files of prices", len(prices)), ("rules in results/README.md", len(rules))):
    if count == 0:
        wrong.append(f"no {what} found to check")
print("\n".join(wrong) or f"{checked} faults as expected, {len(prices)} files of prices and {len(rules)} of rules are good")
sys.exit(bool(wrong))
