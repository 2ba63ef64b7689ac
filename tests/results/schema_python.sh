#!/usr/bin/env bash
# schema_python.sh PYTHON FOLDER SCHEMA: checks the schema and the fixtures with Python's jsonschema; 77 where it is missing.
set -euo pipefail
python=$1 folder=$2 schema=$3
if [ ! -x "$python" ] || ! "$python" -c 'import jsonschema; jsonschema.Draft7Validator' 2>/dev/null; then
  echo "skip: Python's jsonschema is not installed (python3-jsonschema)"
  exit 77
fi
exec "$python" "$folder/schema_python.py" "$folder/fixtures" "$schema"
