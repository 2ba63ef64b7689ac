#!/usr/bin/env bash
# schema_python.sh SCRIPT ARGUMENT…: runs a check that needs Python's jsonschema; 77 where it is missing.
set -euo pipefail
for python in python3 /usr/bin/python3; do   # a python3 in front of the distribution's may lack its packages
  if "$python" -c 'import jsonschema; jsonschema.Draft7Validator' 2>/dev/null; then
    exec "$python" "$@"
  fi
done
echo "skip: Python's jsonschema is not installed (python3-jsonschema)"
exit 77
