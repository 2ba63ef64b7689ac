// Layer norm, by the kernels of norm.cuh.
#include "models/compute/cuda/kernels/norm.cuh"

namespace tw::models::cuda {

void layer_norm_forward(cudaStream_t stream, const LayerNormForward& args) {
  with_type(args.x.dtype, [&]<class T>(T*) {
    const NormForward<T> a{args.x.as<T>(),   args.residual.as<T>(), args.gamma.as<T>(),    args.beta.as<T>(),
                           args.sum.as<T>(), args.y.as<T>(),        args.mean.as<float>(), args.rstd.as<float>(),
                           args.x.dims[0],   args.x.dims[1],        args.epsilon};
    launch_norm_forward<true>(stream, a,
                              aligned<width_of<T>>({args.x, args.residual, args.sum, args.gamma, args.beta, args.y}));
  });
}

std::size_t scratch_bytes(const LayerNormBackward& args) {
  return norm_backward_scratch<true>(args.x.dims[0], args.x.dims[1]);
}

void layer_norm_backward(cudaStream_t stream, const LayerNormBackward& args, void* scratch) {
  with_type(args.x.dtype, [&]<class T>(T*) {
    const NormBackward<T> a{args.dy.as<T>(), args.x.as<T>(),        args.gamma.as<T>(),    args.d_residual.as<T>(),
                            args.dx.as<T>(), args.mean.as<float>(), args.rstd.as<float>(), static_cast<float*>(scratch),
                            args.x.dims[0],  args.x.dims[1]};
    launch_norm_backward<true>(stream, a, aligned<width_of<T>>({args.dy, args.x, args.gamma, args.d_residual, args.dx}),
                               args.accumulate, args.d_gamma.as<float>(), args.d_beta.as<float>());
  });
}

}  // namespace tw::models::cuda
