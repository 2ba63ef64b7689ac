# The sources of our own kernels. nvcc compiles them into tw_compute_cuda, and a host compiler into the simt tests.
set(tw_cuda_kernels
  columns.cu elementwise.cu layer_norm.cu optimizer.cu)
