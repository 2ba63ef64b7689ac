// RMS norm, by the kernels of norm.cuh.
#include "models/compute/cuda/kernels/norm.cuh"

namespace tw::models::cuda {

void rms_norm_forward(cudaStream_t stream, const RmsNormForward& args) {
  if (args.rounded) return rms_norm_rounded(stream, args);
  with_type(args.x.dtype,
            [&]<class T>(T*) { launch_norm_forward<false>(stream, norm_of<T>(args), norm_is_aligned<T>(args)); });
}

std::size_t scratch_bytes(const RmsNormBackward& args) {
  return norm_backward_scratch<false>(args.x.dims[0], args.x.dims[1]);
}

void rms_norm_backward(cudaStream_t stream, const RmsNormBackward& args, void* scratch) {
  with_type(args.x.dtype, [&]<class T>(T*) {
    const NormBackward<T> a{args.dy.as<T>(), args.x.as<T>(), args.gamma.as<T>(),    args.d_residual.as<T>(),
                            args.dx.as<T>(), nullptr,        args.rstd.as<float>(), static_cast<float*>(scratch),
                            args.x.dims[0],  args.x.dims[1]};
    launch_norm_backward<false>(stream, a,
                                aligned<width_of<T>>({args.dy, args.x, args.gamma, args.d_residual, args.dx}),
                                args.accumulate, args.d_gamma.as<float>(), nullptr);
  });
}

}  // namespace tw::models::cuda
