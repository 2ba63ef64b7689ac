// Max and average pooling, NHWC.
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
    for (int kh = 0; kh < args.kernel.height; ++kh) {
      for (int kw = 0; kw < args.kernel.width; ++kw) {
        const std::int64_t ih = oh * args.stride.height + kh - args.padding.height;
        const std::int64_t iw = ow * args.stride.width + kw - args.padding.width;
        if (ih < 0 || ih >= height || iw < 0 || iw >= width) continue;
        const double value = x[((n * height + ih) * width + iw) * channels + c];
        if (!found || value > y[i] || value != value) {  // the first of equals stays, a NaN wins and stays
          found = true;
          y[i] = value;
          argmax[i] = kh * args.kernel.width + kw;
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
    const std::int64_t ih = oh * args.stride.height + argmax[i] / args.kernel.width - args.padding.height;
    const std::int64_t iw = ow * args.stride.width + argmax[i] % args.kernel.width - args.padding.width;
    dx[((n * height + ih) * width + iw) * channels + c] += dy[i];
  }
  store(args.dx, dx);
}

namespace {

/// body(index in y, index in x) for each element of each window of an average pool that lies inside the image.
template <class Args, class Body>
void for_each_in_windows(const Dims& x, const Dims& y, const Args& args, Body&& body) {
  const std::int64_t channels = x[3];
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t c = i % channels, ow = i / channels % y[2], oh = i / channels / y[2] % y[1];
    const std::int64_t n = i / channels / y[2] / y[1];
    for (int kh = 0; kh < args.kernel.height; ++kh) {
      for (int kw = 0; kw < args.kernel.width; ++kw) {
        const std::int64_t ih = oh * args.stride.height + kh - args.padding.height;
        const std::int64_t iw = ow * args.stride.width + kw - args.padding.width;
        if (ih < 0 || ih >= x[1] || iw < 0 || iw >= x[2]) continue;
        body(i, ((n * x[1] + ih) * x[2] + iw) * channels + c);
      }
    }
  }
}

}  // namespace

void ReferenceDevice::do_average_pool_forward(Stream&, const AveragePoolForward& args) {
  const std::int64_t batch = args.x.dims[0], area = args.x.dims[1] * args.x.dims[2], channels = args.x.dims[3];
  const Values x = load(args.x);
  if (args.kernel != 0) {
    Values sums(static_cast<std::size_t>(args.y.count()), 0.0);
    for_each_in_windows(args.x.dims, args.y.dims, args,
                        [&](std::int64_t to, std::int64_t from) { sums[to] += x[from]; });
    if (!args.sum)
      for (double& value : sums) value /= args.kernel.area();
    store(args.y, sums);
    return;
  }
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
  Values dx(static_cast<std::size_t>(args.dx.count()), 0.0);
  if (args.kernel != 0) {
    const auto divisor = static_cast<double>(args.sum ? 1 : args.kernel.area());
    for_each_in_windows(args.dx.dims, args.dy.dims, args,
                        [&](std::int64_t from, std::int64_t to) { dx[to] += dy[from] / divisor; });
    store(args.dx, dx);
    return;
  }
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t i = 0; i < area; ++i) {
      for (std::int64_t c = 0; c < channels; ++c) dx[(n * area + i) * channels + c] = dy[n * channels + c] / area;
    }
  }
  store(args.dx, dx);
}

void ReferenceDevice::do_copy_channels(Stream&, const CopyChannels& args) {
  const int last = args.x.dims.rank() - 1;
  const std::int64_t in = args.x.dims[last], out = args.y.dims[last], rows = args.x.count() / in;
  const std::size_t element = size_of(args.x.dtype);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(args.y.as<char>() + static_cast<std::size_t>(r * out + args.to) * element,
                args.x.as<char>() + static_cast<std::size_t>(r * in + args.from) * element,
                static_cast<std::size_t>(args.count) * element);
  }
}

}  // namespace tw::models::reference
