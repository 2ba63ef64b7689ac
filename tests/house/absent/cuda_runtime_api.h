#error "cuda_runtime_api.h: this machine has no HPC stack (tests/house/build_without_hpc.sh)"
