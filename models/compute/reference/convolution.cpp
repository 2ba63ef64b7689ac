// Convolution, NHWC, as seven nested loops. The innermost runs over channels that lie side by side.
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {

void ReferenceConvolution::do_refresh(Stream&) {
  weight_copy_ = taken(shape().math, load(weight()));
  transposed_ = transposed(weight_copy_, shape().out_channels, weight().count() / shape().out_channels);
}

void ReferenceConvolution::do_forward(Stream&, const ConvolutionForward& args) {
  const ConvolutionShape& s = shape();
  const std::int64_t out_height = s.out_height(), out_width = s.out_width();
  const std::int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  const Values x = taken(shape().math, load(args.x));
  Values y(static_cast<std::size_t>(args.y.count()), 0.0);
#pragma omp parallel for num_threads(threads_) if (args.y.count() * weight().count() / s.out_channels > 1000000)
  for (std::int64_t row = 0; row < s.batch * out_height; ++row) {
    const std::int64_t n = row / out_height, oh = row % out_height;
    for (std::int64_t ow = 0; ow < out_width; ++ow) {
      double* out = y.data() + (row * out_width + ow) * s.out_channels;
      for (int kh = 0; kh < s.kernel.height; ++kh) {
        const std::int64_t ih = oh * s.stride.height + kh - s.padding.height;
        if (ih < 0 || ih >= s.height) continue;
        for (int kw = 0; kw < s.kernel.width; ++kw) {
          const std::int64_t iw = ow * s.stride.width + kw - s.padding.width;
          if (iw < 0 || iw >= s.width) continue;
          const double* in = x.data() + ((n * s.height + ih) * s.width + iw) * s.in_channels;
          const double* w = transposed_.data() + (kh * s.kernel.width + kw) * group_in * s.out_channels;
          for (std::int64_t first = 0; first < s.out_channels; first += group_out) {
            const double* seen = in + first / group_out * group_in;
            for (std::int64_t ic = 0; ic < group_in; ++ic) {
              for (std::int64_t oc = first; oc < first + group_out; ++oc)
                out[oc] += seen[ic] * w[ic * s.out_channels + oc];
            }
          }
        }
      }
    }
  }
  store(args.y, y);
}

void ReferenceConvolution::do_backward_input(Stream&, const ConvolutionBackwardInput& args) {
  const ConvolutionShape& s = shape();
  const std::int64_t out_height = s.out_height(), out_width = s.out_width();
  const std::int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  const Values dy = taken(shape().math, load(args.dy));
  Values dx(static_cast<std::size_t>(args.dx.count()), 0.0);
#pragma omp parallel for num_threads(threads_) if (args.dy.count() * weight().count() / s.out_channels > 1000000)
  for (std::int64_t row = 0; row < s.batch * s.height; ++row) {
    const std::int64_t n = row / s.height, ih = row % s.height;
    for (std::int64_t iw = 0; iw < s.width; ++iw) {
      double* in = dx.data() + (row * s.width + iw) * s.in_channels;
      for (int kh = 0; kh < s.kernel.height; ++kh) {
        const std::int64_t down = ih + s.padding.height - kh;
        if (down < 0 || down % s.stride.height != 0 || down / s.stride.height >= out_height) continue;
        for (int kw = 0; kw < s.kernel.width; ++kw) {
          const std::int64_t right = iw + s.padding.width - kw;
          if (right < 0 || right % s.stride.width != 0 || right / s.stride.width >= out_width) continue;
          const std::int64_t position = (n * out_height + down / s.stride.height) * out_width + right / s.stride.width;
          const double* out = dy.data() + position * s.out_channels;
          for (std::int64_t oc = 0; oc < s.out_channels; ++oc) {
            const double* w = weight_copy_.data() + ((oc * s.kernel.height + kh) * s.kernel.width + kw) * group_in;
            double* seen = in + oc / group_out * group_in;
            for (std::int64_t ic = 0; ic < group_in; ++ic) seen[ic] += out[oc] * w[ic];
          }
        }
      }
    }
  }
  store(args.dx, dx);
}

void ReferenceConvolution::do_backward_weights(Stream&, const ConvolutionBackwardWeights& args) {
  const ConvolutionShape& s = shape();
  const std::int64_t out_height = s.out_height(), out_width = s.out_width();
  const std::int64_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  const Values x = taken(shape().math, load(args.x)), dy = taken(shape().math, load(args.dy));
  Values d_weight(static_cast<std::size_t>(args.d_weight.count()), 0.0);
#pragma omp parallel for num_threads(threads_) if (args.dy.count() * args.d_weight.count() / s.out_channels > 1000000)
  for (std::int64_t oc = 0; oc < s.out_channels; ++oc) {
    for (std::int64_t n = 0; n < s.batch; ++n) {
      for (std::int64_t oh = 0; oh < out_height; ++oh) {
        for (std::int64_t ow = 0; ow < out_width; ++ow) {
          const double factor = dy[((n * out_height + oh) * out_width + ow) * s.out_channels + oc];
          for (int kh = 0; kh < s.kernel.height; ++kh) {
            const std::int64_t ih = oh * s.stride.height + kh - s.padding.height;
            if (ih < 0 || ih >= s.height) continue;
            for (int kw = 0; kw < s.kernel.width; ++kw) {
              const std::int64_t iw = ow * s.stride.width + kw - s.padding.width;
              if (iw < 0 || iw >= s.width) continue;
              const double* in = x.data() + ((n * s.height + ih) * s.width + iw) * s.in_channels;
              const double* seen = in + oc / group_out * group_in;
              double* w = d_weight.data() + ((oc * s.kernel.height + kh) * s.kernel.width + kw) * group_in;
              for (std::int64_t ic = 0; ic < group_in; ++ic) w[ic] += factor * seen[ic];
            }
          }
        }
      }
    }
  }
  store_gradient(args.d_weight, d_weight, args.accumulate);
}

}  // namespace tw::models::reference
