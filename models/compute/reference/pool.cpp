// Max pooling and global average pooling, NHWC.
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {

void ReferenceDevice::do_max_pool_forward(Stream&, const MaxPoolForward& args) {
  const std::int64_t height = args.x.dims[1], width = args.x.dims[2], channels = args.x.dims[3];
  const std::int64_t out_height = args.y.dims[1], out_width = args.y.dims[2];
  const Values x = load(args.x);
  Values y(static_cast<std::size_t>(args.y.count()));
  std::int32_t* argmax = args.argmax.as<std::int32_t>();
  for (std::int64_t i = 0; i < args.y.count(); ++i) {
    const std::int64_t c = i % channels, ow = i / channels % out_width, oh = i / channels / out_width % out_height;
    const std::int64_t n = i / channels / out_width / out_height;
    bool found = false;
    for (int kh = 0; kh < args.kernel; ++kh) {
      for (int kw = 0; kw < args.kernel; ++kw) {
        const std::int64_t ih = oh * args.stride + kh - args.padding, iw = ow * args.stride + kw - args.padding;
        if (ih < 0 || ih >= height || iw < 0 || iw >= width) continue;
        const double value = x[((n * height + ih) * width + iw) * channels + c];
        if (!found || value > y[i] || value != value) {  // the first of equals stays, a NaN wins and stays
          found = true;
          y[i] = value;
          argmax[i] = kh * args.kernel + kw;
        }
      }
    }
  }
  store(args.y, y);
}

void ReferenceDevice::do_max_pool_backward(Stream&, const MaxPoolBackward& args) {
  const std::int64_t height = args.dx.dims[1], width = args.dx.dims[2], channels = args.dx.dims[3];
  const std::int64_t out_height = args.dy.dims[1], out_width = args.dy.dims[2];
  const Values dy = load(args.dy);
  const std::int32_t* argmax = args.argmax.as<std::int32_t>();
  Values dx(static_cast<std::size_t>(args.dx.count()), 0.0);
  for (std::int64_t i = 0; i < args.dy.count(); ++i) {
    const std::int64_t c = i % channels, ow = i / channels % out_width, oh = i / channels / out_width % out_height;
    const std::int64_t n = i / channels / out_width / out_height;
    const std::int64_t ih = oh * args.stride + argmax[i] / args.kernel - args.padding;
    const std::int64_t iw = ow * args.stride + argmax[i] % args.kernel - args.padding;
    dx[((n * height + ih) * width + iw) * channels + c] += dy[i];
  }
  store(args.dx, dx);
}

void ReferenceDevice::do_average_pool_forward(Stream&, const AveragePoolForward& args) {
  const std::int64_t batch = args.x.dims[0], area = args.x.dims[1] * args.x.dims[2], channels = args.x.dims[3];
  const Values x = load(args.x);
  Values y(static_cast<std::size_t>(batch * channels), 0.0);
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t i = 0; i < area; ++i) {
      for (std::int64_t c = 0; c < channels; ++c) y[n * channels + c] += x[(n * area + i) * channels + c];
    }
  }
  for (double& value : y) value /= area;
  store(args.y, y);
}

void ReferenceDevice::do_average_pool_backward(Stream&, const AveragePoolBackward& args) {
  const std::int64_t batch = args.dx.dims[0], area = args.dx.dims[1] * args.dx.dims[2], channels = args.dx.dims[3];
  const Values dy = load(args.dy);
  Values dx(static_cast<std::size_t>(args.dx.count()));
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t i = 0; i < area; ++i) {
      for (std::int64_t c = 0; c < channels; ++c) dx[(n * area + i) * channels + c] = dy[n * channels + c] / area;
    }
  }
  store(args.dx, dx);
}

}  // namespace tw::models::reference
