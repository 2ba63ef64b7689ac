// Pooling over NHWC images, and their pixels as rows of a matrix; channels are the vector axis.
#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

namespace {
/// Keeps the larger of best and x with its place; the first of equals stays, a NaN wins and stays.
template <class T>
TW_LOOP void maximum_loop(const T* x, T* best, std::int32_t* where, std::int32_t offset, Index channels) {
  TW_SIMD
  for (Index c = 0; c < channels; ++c) {
    const float v = to_float(x[c]), old = to_float(best[c]);
    const bool better = (v > old) | (v != v);
    store(best + c, better ? v : old);  // exact: both are T already
    where[c] = better ? offset : where[c];
  }
}
}  // namespace

void max_pool_forward(int threads, DType dtype, const MaxPoolForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index height = args.x.dims[1], width = args.x.dims[2], channels = args.x.dims[3];
    const Index batch = args.x.dims[0], out_height = args.y.dims[1], out_width = args.y.dims[2];
    const int kernel = args.kernel;
    in_shares(threads, args.y.count(), batch * out_height, 1, [&](Range range) {
      for (Index line = range.begin; line < range.end; ++line) {
        const Index b = line / out_height, top = line % out_height * args.stride - args.padding;
        for (Index ow = 0; ow < out_width; ++ow) {
          const Index left = ow * args.stride - args.padding;
          T* best = args.y.as<T>() + (line * out_width + ow) * channels;
          std::int32_t* where = args.argmax.as<std::int32_t>() + (line * out_width + ow) * channels;
          bool first = true;
          for (int kh = 0; kh < kernel; ++kh) {
            if (top + kh < 0 || top + kh >= height) continue;
            for (int kw = 0; kw < kernel; ++kw) {
              if (left + kw < 0 || left + kw >= width) continue;
              const T* x = args.x.as<T>() + ((b * height + top + kh) * width + left + kw) * channels;
              const std::int32_t offset = kh * kernel + kw;
              if (first) {
                TW_SIMD
                for (Index c = 0; c < channels; ++c) {
                  best[c] = x[c];
                  where[c] = offset;
                }
                first = false;
                continue;
              }
              maximum_loop(x, best, where, offset, channels);
            }
          }
        }
      }
    });
  });
}

void max_pool_backward(int threads, DType dtype, const MaxPoolBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index height = args.dx.dims[1], width = args.dx.dims[2], channels = args.dx.dims[3];
    const Index batch = args.dx.dims[0], out_height = args.dy.dims[1], out_width = args.dy.dims[2];
    const Index kernel = args.kernel, stride = args.stride, padding = args.padding;
    in_shares(threads, args.dx.count(), batch * height, 1, [&](Range range) {
      for (Index line = range.begin; line < range.end; ++line) {
        const Index b = line / height, h = line % height;
        // Windows that hold row h: oh·stride ≤ h + padding ≤ oh·stride + kernel − 1
        const Index oh_end = (h + padding) / stride + 1 < out_height ? (h + padding) / stride + 1 : out_height;
        const Index oh_begin = h + padding < kernel ? 0 : (h + padding - kernel) / stride + 1;
        for (Index w = 0; w < width; ++w) {
          const Index ow_end = (w + padding) / stride + 1 < out_width ? (w + padding) / stride + 1 : out_width;
          const Index ow_begin = w + padding < kernel ? 0 : (w + padding - kernel) / stride + 1;
          T* dx = args.dx.as<T>() + (line * width + w) * channels;
          for (Index c0 = 0; c0 < channels; c0 += 64) {
            const Index run = channels - c0 < 64 ? channels - c0 : 64;
            float sum[64] = {};
            for (Index oh = oh_begin; oh < oh_end; ++oh) {
              for (Index ow = ow_begin; ow < ow_end; ++ow) {
                const auto offset =
                    static_cast<std::int32_t>((h + padding - oh * stride) * kernel + w + padding - ow * stride);
                const Index at = ((b * out_height + oh) * out_width + ow) * channels + c0;
                const std::int32_t* where = args.argmax.as<std::int32_t>() + at;
                const T* dy = args.dy.as<T>() + at;
                TW_SIMD
                for (Index c = 0; c < run; ++c) sum[c] += where[c] == offset ? to_float(dy[c]) : 0.0f;
              }
            }
            TW_SIMD
            for (Index c = 0; c < run; ++c) store(dx + c0 + c, sum[c]);
          }
        }
      }
    });
  });
}

void average_pool_forward(int threads, DType dtype, const AveragePoolForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index batch = args.x.dims[0], pixels = args.x.dims[1] * args.x.dims[2], channels = args.x.dims[3];
    const float inverse = 1.0f / static_cast<float>(pixels);
    in_shares(threads, args.x.count(), batch, 1, [&](Range range) {
      for (Index b = range.begin; b < range.end; ++b) {
        for (Index c0 = 0; c0 < channels; c0 += 256) {
          const Index run = channels - c0 < 256 ? channels - c0 : 256;
          float sum[256] = {};
          for (Index p = 0; p < pixels; ++p) {
            const T* x = args.x.as<T>() + (b * pixels + p) * channels + c0;
            TW_SIMD
            for (Index c = 0; c < run; ++c) sum[c] += to_float(x[c]);
          }
          T* y = args.y.as<T>() + b * channels + c0;
          TW_SIMD
          for (Index c = 0; c < run; ++c) store(y + c, sum[c] * inverse);
        }
      }
    });
  });
}

void average_pool_backward(int threads, DType dtype, const AveragePoolBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index batch = args.dx.dims[0], pixels = args.dx.dims[1] * args.dx.dims[2], channels = args.dx.dims[3];
    const float inverse = 1.0f / static_cast<float>(pixels);
    in_shares(threads, args.dx.count(), batch * pixels, 1, [&](Range range) {
      for (Index p = range.begin; p < range.end; ++p) {
        const T* dy = args.dy.as<T>() + p / pixels * channels;
        T* dx = args.dx.as<T>() + p * channels;
        TW_SIMD
        for (Index c = 0; c < channels; ++c) store(dx + c, to_float(dy[c]) * inverse);
      }
    });
  });
}

void gather_patches(int threads, const ConvolutionShape& shape, const void* x_data, Index first, Index count,
                    void* rows_data) {
  const Index pixel = shape.in_channels * static_cast<Index>(size_of(shape.dtype)), kernel = shape.kernel;
  const Index out_width = shape.out_width(), plane = shape.out_height() * out_width;
  const char* x = static_cast<const char*>(x_data);
  char* rows = static_cast<char*>(rows_data);
  in_shares(threads, count * kernel * kernel * shape.in_channels, count, 1, [&](Range range) {
    for (Index i = range.begin; i < range.end; ++i) {
      const Index position = (first + i) % plane, image = (first + i) / plane;
      const Index top = position / out_width * shape.stride - shape.padding;
      const Index left = position % out_width * shape.stride - shape.padding;
      char* to = rows + i * kernel * kernel * pixel;
      for (Index h = top; h < top + kernel; ++h) {
        for (Index w = left; w < left + kernel; ++w, to += pixel) {
          if (h < 0 || h >= shape.height || w < 0 || w >= shape.width) {
            std::memset(to, 0, static_cast<std::size_t>(pixel));
          } else {
            std::memcpy(to, x + ((image * shape.height + h) * shape.width + w) * pixel,
                        static_cast<std::size_t>(pixel));
          }
        }
      }
    }
  });
}

void spread_pixels(int threads, const ConvolutionShape& shape, const void* rows_data, void* dx_data) {
  const Index pixel = shape.in_channels * static_cast<Index>(size_of(shape.dtype));
  const Index line = shape.width * pixel, out_height = shape.out_height(), out_width = shape.out_width();
  const char* rows = static_cast<const char*>(rows_data);
  char* dx = static_cast<char*>(dx_data);
  in_shares(threads, shape.batch * shape.height * shape.width * shape.in_channels, shape.batch * shape.height, 1,
            [&](Range range) {
              for (Index i = range.begin; i < range.end; ++i) {
                const Index h = i % shape.height, image = i / shape.height;
                char* to = dx + i * line;
                std::memset(to, 0, static_cast<std::size_t>(line));
                if (h % shape.stride != 0 || h / shape.stride >= out_height) continue;
                const char* from = rows + (image * out_height + h / shape.stride) * out_width * pixel;
                for (Index w = 0; w < out_width; ++w) {
                  std::memcpy(to + w * shape.stride * pixel, from + w * pixel, static_cast<std::size_t>(pixel));
                }
              }
            });
}

}  // namespace tw::models::cpu::TW_ISA
