// Pooling over NHWC images, their pixels as rows of a matrix, and parts of their channels; channels are the vector
// axis.
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

/// Windows along one axis of an image.
struct Axis {
  Index kernel, stride, padding, count;
  Axis(int the_kernel, int the_stride, int the_padding, Index windows)
      : kernel(the_kernel), stride(the_stride), padding(the_padding), count(windows) {}
  /// Those that hold position i: o·stride ≤ i + padding ≤ o·stride + kernel − 1.
  Range windows(Index i) const {
    const Index end = (i + padding) / stride + 1;
    return {i + padding < kernel ? 0 : (i + padding - kernel) / stride + 1, end < count ? end : count};
  }
  /// Of position i in window o.
  Index place(Index i, Index o) const { return i + padding - o * stride; }
  /// Positions of window o inside an image of `extent`.
  Range inside(Index o, Index extent) const {
    const Index first = o * stride - padding, end = first + kernel;
    return {first < 0 ? 0 : first, end < extent ? end : extent};
  }
};

/// sum[c] += x[c]
template <class T>
TW_LOOP void sum_loop(const T* x, float* sum, Index channels) {
  TW_SIMD
  for (Index c = 0; c < channels; ++c) sum[c] += to_float(x[c]);
}
template <class T>
TW_LOOP void scaled_store_loop(const float* sum, float factor, T* y, Index channels) {
  TW_SIMD
  for (Index c = 0; c < channels; ++c) store(y + c, sum[c] * factor);
}
constexpr Index channels_at_once = 256;

/// Each pixel of `to` (height × width × channels, `images` of them) becomes factor · the sum over the pixels of `from`
/// that rows(h) × columns(w) spans in the same image.
template <class T, class Rows, class Columns>
void sum_pixels(int threads, const T* from, Index from_height, Index from_width, T* to, Index images, Index height,
                Index width, Index channels, float factor, const Rows& rows, const Columns& columns) {
  in_shares(threads, images * height * width * channels, images * height, 1, [&](Range range) {
    for (Index line = range.begin; line < range.end; ++line) {
      const Index image = line / height;
      const Range over = rows(line % height);
      for (Index w = 0; w < width; ++w) {
        const Range across = columns(w);
        for (Index c0 = 0; c0 < channels; c0 += channels_at_once) {
          const Index run = channels - c0 < channels_at_once ? channels - c0 : channels_at_once;
          float sum[channels_at_once] = {};
          for (Index h = over.begin; h < over.end; ++h) {
            for (Index i = across.begin; i < across.end; ++i)
              sum_loop(from + ((image * from_height + h) * from_width + i) * channels + c0, sum, run);
          }
          scaled_store_loop(sum, factor, to + (line * width + w) * channels + c0, run);
        }
      }
    }
  });
}
}  // namespace

void max_pool_forward(int threads, DType dtype, const MaxPoolForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index height = args.x.dims[1], width = args.x.dims[2], channels = args.x.dims[3];
    const Index batch = args.x.dims[0], out_height = args.y.dims[1], out_width = args.y.dims[2];
    const PerAxis kernel = args.kernel;
    in_shares(threads, args.y.count(), batch * out_height, 1, [&](Range range) {
      for (Index line = range.begin; line < range.end; ++line) {
        const Index b = line / out_height, top = line % out_height * args.stride.height - args.padding.height;
        for (Index ow = 0; ow < out_width; ++ow) {
          const Index left = ow * args.stride.width - args.padding.width;
          T* best = args.y.as<T>() + (line * out_width + ow) * channels;
          std::int32_t* where = args.argmax.as<std::int32_t>() + (line * out_width + ow) * channels;
          bool first = true;
          for (int kh = 0; kh < kernel.height; ++kh) {
            if (top + kh < 0 || top + kh >= height) continue;
            for (int kw = 0; kw < kernel.width; ++kw) {
              if (left + kw < 0 || left + kw >= width) continue;
              const T* x = args.x.as<T>() + ((b * height + top + kh) * width + left + kw) * channels;
              const std::int32_t offset = kh * kernel.width + kw;
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
    const Axis rows(args.kernel.height, args.stride.height, args.padding.height, out_height);
    const Axis columns(args.kernel.width, args.stride.width, args.padding.width, out_width);
    in_shares(threads, args.dx.count(), batch * height, 1, [&](Range range) {
      for (Index line = range.begin; line < range.end; ++line) {
        const Index b = line / height, h = line % height;
        const Range over = rows.windows(h);
        for (Index w = 0; w < width; ++w) {
          const Range across = columns.windows(w);
          T* dx = args.dx.as<T>() + (line * width + w) * channels;
          for (Index c0 = 0; c0 < channels; c0 += 64) {
            const Index run = channels - c0 < 64 ? channels - c0 : 64;
            float sum[64] = {};
            for (Index oh = over.begin; oh < over.end; ++oh) {
              for (Index ow = across.begin; ow < across.end; ++ow) {
                const auto offset =
                    static_cast<std::int32_t>(rows.place(h, oh) * columns.kernel + columns.place(w, ow));
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
    if (args.kernel != 0) {
      const Axis rows(args.kernel.height, args.stride.height, args.padding.height, args.y.dims[1]);
      const Axis columns(args.kernel.width, args.stride.width, args.padding.width, args.y.dims[2]);
      const Index in_height = args.x.dims[1], in_width = args.x.dims[2];
      const float factor = args.sum ? 1.0f : 1.0f / static_cast<float>(args.kernel.area());
      sum_pixels(
          threads, args.x.as<T>(), in_height, in_width, args.y.as<T>(), args.y.dims[0], args.y.dims[1], args.y.dims[2],
          args.y.dims[3], factor, [&](Index oh) { return rows.inside(oh, in_height); },
          [&](Index ow) { return columns.inside(ow, in_width); });
      return;
    }
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
    if (args.kernel != 0) {
      const Axis rows(args.kernel.height, args.stride.height, args.padding.height, args.dy.dims[1]);
      const Axis columns(args.kernel.width, args.stride.width, args.padding.width, args.dy.dims[2]);
      const float factor = args.sum ? 1.0f : 1.0f / static_cast<float>(args.kernel.area());
      sum_pixels(
          threads, args.dy.as<T>(), args.dy.dims[1], args.dy.dims[2], args.dx.as<T>(), args.dx.dims[0], args.dx.dims[1],
          args.dx.dims[2], args.dx.dims[3], factor, [&](Index h) { return rows.windows(h); },
          [&](Index w) { return columns.windows(w); });
      return;
    }
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
  const Index pixel = shape.in_channels * static_cast<Index>(size_of(shape.dtype)), area = shape.kernel.area();
  const Index out_width = shape.out_width(), plane = shape.out_height() * out_width;
  const char* x = static_cast<const char*>(x_data);
  char* rows = static_cast<char*>(rows_data);
  in_shares(threads, count * area * shape.in_channels, count, 1, [&](Range range) {
    for (Index i = range.begin; i < range.end; ++i) {
      const Index position = (first + i) % plane, image = (first + i) / plane;
      const Index top = position / out_width * shape.stride.height - shape.padding.height;
      const Index left = position % out_width * shape.stride.width - shape.padding.width;
      char* to = rows + i * area * pixel;
      for (Index h = top; h < top + shape.kernel.height; ++h) {
        for (Index w = left; w < left + shape.kernel.width; ++w, to += pixel) {
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
                if (h % shape.stride.height != 0 || h / shape.stride.height >= out_height) continue;
                const char* from = rows + (image * out_height + h / shape.stride.height) * out_width * pixel;
                for (Index w = 0; w < out_width; ++w) {
                  std::memcpy(to + w * shape.stride.width * pixel, from + w * pixel, static_cast<std::size_t>(pixel));
                }
              }
            });
}

void copy_columns(int threads, const void* x_data, Index x_width, void* y_data, Index y_width, Index rows,
                  Index bytes) {
  const char* x = static_cast<const char*>(x_data);
  char* y = static_cast<char*>(y_data);
  in_shares(threads, rows * bytes / static_cast<Index>(sizeof(float)), rows, 1, [&](Range range) {
    for (Index r = range.begin; r < range.end; ++r)
      std::memcpy(y + r * y_width, x + r * x_width, static_cast<std::size_t>(bytes));
  });
}

}  // namespace tw::models::cpu::TW_ISA
