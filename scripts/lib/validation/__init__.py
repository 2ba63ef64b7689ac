"""The parts of scripts/gpu-validate."""
