#error "dnnl.h: this machine has no HPC stack (tests/house/build_without_hpc.sh)"
