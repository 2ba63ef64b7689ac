# The sources of our own kernels. nvcc compiles them into tw_compute_cuda, and a host compiler into the simt tests. (sort.cu
# has none: it calls the toolkit's library, for which the tests have one of the host's.)
set(tw_cuda_kernels
  attention.cu batch_norm.cu classifier.cu columns.cu elementwise.cu embedding.cu fp8.cu fp8_ahead.cu layer_norm.cu optimizer.cu
  pool.cu recommendation.cu rms_norm.cu rotary.cu rows.cu swiglu.cu synthetic.cu)
