"""Python's jsonschema takes and refuses the same config files as the programs do (configs.txt)."""
import json
import pathlib
import sys

import jsonschema

configs, schema_path = map(pathlib.Path, sys.argv[1:])
schema = json.loads(schema_path.read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
wrong, checked = [], 0
for line in configs.read_text().splitlines():
    if not line or line.startswith("#"):
        continue
    kind, text = line.split(" | ")[:2]
    refused = any(validator.iter_errors(json.loads(text)))
    if refused != (kind == "schema"):
        wrong.append(f"{line}: the schema {'refuses' if refused else 'accepts'} it")
    checked += 1
print("\n".join(wrong) or f"{checked} configs as expected")
sys.exit(bool(wrong) or checked == 0)
