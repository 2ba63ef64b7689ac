# shellcheck shell=bash disable=SC2154  # $here is the caller's
# Files from PyPI, for CI. Sourced with $here set to tests/house.

# from_pypi NAME REQUIREMENTS FOLDER: unpacks the wheels that REQUIREMENTS lists with their hashes into FOLDER/unpacked. Exits with 77
# and "skip: REASON" where NAME cannot be downloaded within three minutes, with 1 where a file is not the expected one.
from_pypi() {
  local name=$1 requirements=$2 folder=$3 wheel
  rm -rf "$folder"
  mkdir -p "$folder"
  timeout 180 python3 -m pip download --disable-pip-version-check --no-input --retries 1 --timeout 20 --quiet --no-deps \
    --only-binary :all: --requirement "$requirements" --dest "$folder" >"$folder.log" 2>&1 || {
    cat "$folder.log" >&2
    if grep -q 'DO NOT MATCH' "$folder.log"; then exit 1; fi
    echo "skip: $name cannot be downloaded from PyPI: $(tail -n 1 "$folder.log")"
    exit 77
  }
  for wheel in "$folder"/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder/unpacked"
  done
}
