"""The good fixtures satisfy the schema; of the faults in broken.txt it finds exactly those marked "schema"."""
import json
import pathlib
import sys

import jsonschema

fixtures, schema_path = map(pathlib.Path, sys.argv[1:])
schema = json.loads(schema_path.read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
good = {name: (fixtures / f"{name}.json").read_text() for name in ("good", "good_energy", "good_target")}
wrong = []
for name, text in good.items():
    wrong += [f"{name}.json: {e.json_path}: {e.message}" for e in validator.iter_errors(json.loads(text))]
checked = 0
for line in (fixtures / "broken.txt").read_text().splitlines():
    if not line or line.startswith("#"):
        continue
    kind, name, old, new, _ = line.split(" | ")
    if old not in good[name]:
        wrong.append(f"{line}: not in {name}.json")
        continue
    fails = any(validator.iter_errors(json.loads(good[name].replace(old, new, 1))))
    if fails != (kind == "schema"):
        wrong.append(f"{line}: the schema {'refuses' if fails else 'accepts'} it")
    checked += 1
print("\n".join(wrong) or f"{checked} faults as expected")
sys.exit(bool(wrong) or checked == 0)
