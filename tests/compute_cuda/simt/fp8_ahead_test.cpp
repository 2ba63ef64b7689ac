// Operators that write the input of a linear layer in fp8 rounded: bit by bit what the operator and the rounding behind
// it write.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/error.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

/// Memory on 16 bytes, also where the device's begins elsewhere.
class Aligned {
 public:
  Aligned(Device& device, std::size_t bytes) : buffer_(device, bytes + 16), bytes_(bytes) {
    std::memset(data(), 0xa5, bytes);
  }
  void* data() const {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(buffer_.data()) + 15) / 16 * 16);
  }
  Tensor tensor() const { return {data(), DType::byte, {static_cast<std::int64_t>(bytes_)}}; }
  bool operator==(const Aligned& other) const {
    const auto *a = static_cast<const unsigned char*>(data()), *b = static_cast<const unsigned char*>(other.data());
    // The sign of a NaN is the host's choice.
    return bytes_ == other.bytes_ && std::equal(a, a + bytes_, b, [](unsigned char one, unsigned char two) {
             return one == two || ((one & e4m3::nan) == e4m3::nan && (two & e4m3::nan) == e4m3::nan);
           });
  }

 private:
  Buffer buffer_;
  std::size_t bytes_;
};

/// A scale, and what is rounded under it.
struct Rounded {
  std::int64_t rows, columns;
  Aligned straight, transposed, memory;
  Rounded(Device& device, std::int64_t the_rows, std::int64_t the_columns)
      : rows(the_rows),
        columns(the_columns),
        straight(device, static_cast<std::size_t>(rows * columns)),
        transposed(device, static_cast<std::size_t>(rows * columns) + 16),
        memory(device, sizeof(Fp8Scale)) {
    Fp8Scale start;
    start.scale = 32, start.inverse = 1.0f / 32;
    start.greatest = std::bit_cast<std::uint32_t>(0.125f);
    std::memcpy(memory.data(), &start, sizeof start);
  }
  Fp8Scale* scale() const { return static_cast<Fp8Scale*>(memory.data()); }
  RoundedInput input(bool with_transposed, bool follows) const {
    return {straight.tensor(), with_transposed ? transposed.tensor() : Tensor{}, scale(), follows};
  }
  /// The way of a layer that rounds by itself.
  void round(const Tensor& y, bool with_transposed, bool follows) const {
    auto* const inverse = static_cast<char*>(transposed.data()) + rows * columns;
    cuda::fp8_round(nullptr, false, y.as<bf16>(), rows, columns, scale(), straight.data(),
                    with_transposed ? transposed.data() : nullptr, follows,
                    with_transposed ? reinterpret_cast<float*>(inverse) : nullptr);
  }
};

class RoundedAhead : public DeviceTest {
 protected:
  /// run(name, y, rounded) is the operator, whose other outputs are called by that name.
  template <class Run>
  void expect_same(Lab& lab, const Dims& dims, const Run& run, bool may_keep_y = false) {
    struct Way {
      bool follows, with_transposed, keeps_y;
    };
    for (const Way& way :
         {Way{true, true, false}, Way{false, true, false}, Way{true, false, false}, Way{true, true, true}}) {
      const auto& [follows, with_transposed, keeps_y] = way;
      if (keeps_y && !may_keep_y) continue;
      SCOPED_TRACE(dims.str() + (follows ? " follows" : "") + (with_transposed ? " transposed" : "") +
                   (keeps_y ? " and y" : ""));
      const Rounded behind(device(), dims[0], dims[1]), ahead(device(), dims[0], dims[1]);
      const Tensor y = lab.out("y", DType::bf16, dims);
      const std::vector<Tensor> others = run("apart", y, RoundedInput{});
      behind.round(y, with_transposed, follows);
      const Tensor kept = keeps_y ? lab.out("y", DType::bf16, dims) : Tensor{};
      const std::vector<Tensor> same = run("ahead", kept, ahead.input(with_transposed, follows));
      EXPECT_TRUE(behind.straight == ahead.straight);
      EXPECT_TRUE(behind.transposed == ahead.transposed);
      EXPECT_TRUE(behind.memory == ahead.memory) << "the scale's greatest";
      EXPECT_NE(follows, ahead.scale()->greatest == std::bit_cast<std::uint32_t>(0.125f));
      if (keeps_y) {
        EXPECT_EQ(std::memcmp(kept.data, y.data, y.bytes()), 0);
      }
      ASSERT_EQ(others.size(), same.size());
      for (std::size_t i = 0; i < same.size(); ++i)
        EXPECT_EQ(std::memcmp(others[i].data, same[i].data, same[i].bytes()), 0) << "output " << i;
    }
  }
  Tensor in(Lab& lab, const Dims& dims, std::uint64_t salt, double size = 1) {
    return lab.in(DType::bf16, dims, normal(dims.count(), salt, size));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, RoundedAhead, testing::ValuesIn(device_cases()), device_case_name);

// Lanes with four packs and with eight, and rows wider than a warp holds; slabs of 32 rows and of half as many.
TEST_P(RoundedAhead, Norms) {
  if (dtype() != DType::bf16) return;  // the one dtype that is stored beside fp8
  for (const Dims& s : {Dims{16, 16}, Dims{48, 48}, Dims{80, 272}, Dims{16, 1040}, Dims{32, 2048}, Dims{16, 2064}}) {
    for (const bool residual : {false, true}) {
      Lab lab(device());
      const Tensor x = in(lab, s, 1, 3), other = residual ? in(lab, s, 2) : Tensor{}, gamma = in(lab, {s[1]}, 3),
                   beta = in(lab, {s[1]}, 4);
      const auto sum_of = [&](const std::string& name) {
        return residual ? lab.out(name + " sum", DType::bf16, s) : Tensor{};
      };
      expect_same(
          lab, s,
          [&](const std::string& name, const Tensor& y, const RoundedInput& rounded) {
            const LayerNormForward args{.x = x,
                                        .residual = other,
                                        .sum = sum_of(name),
                                        .gamma = gamma,
                                        .beta = beta,
                                        .y = y,
                                        .mean = lab.out(name + " mean", DType::float32, {s[0]}),
                                        .rstd = lab.out(name + " rstd", DType::float32, {s[0]}),
                                        .rounded = rounded};
            device().layer_norm_forward(*lab.stream, args);
            return residual ? std::vector{args.sum, args.mean, args.rstd} : std::vector{args.mean, args.rstd};
          },
          true);
      expect_same(
          lab, s,
          [&](const std::string& name, const Tensor& y, const RoundedInput& rounded) {
            const RmsNormForward args{.x = x,
                                      .residual = other,
                                      .sum = sum_of(name),
                                      .gamma = gamma,
                                      .y = y,
                                      .rstd = lab.out(name + " rstd", DType::float32, {s[0]}),
                                      .rounded = rounded};
            device().rms_norm_forward(*lab.stream, args);
            return residual ? std::vector{args.sum, args.rstd} : std::vector{args.rstd};
          },
          true);
      lab.finish();
    }
  }
}

TEST_P(RoundedAhead, ElementByElement) {
  if (dtype() != DType::bf16) return;
  for (const Dims& s : {Dims{16, 16}, Dims{80, 48}, Dims{272, 144}}) {
    Lab lab(device());
    Floats values = normal(s.count(), 1, 3);
    values[5] = 1e30f;  // saturates
    values[17] = -std::numeric_limits<float>::infinity();
    values[static_cast<std::size_t>(s.count()) - 1] = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = lab.in(DType::bf16, s, values), pairs = in(lab, {s[0], 2 * s[1]}, 2, 3);
    for (const Activation activation : {Activation::gelu_erf, Activation::tanh, Activation::relu}) {
      expect_same(lab, s, [&](const std::string&, const Tensor& y, const RoundedInput& rounded) {
        device().activation_forward(*lab.stream, {x, y, activation, rounded});
        return std::vector<Tensor>{};
      });
    }
    expect_same(lab, s, [&](const std::string&, const Tensor& y, const RoundedInput& rounded) {
      device().swiglu_forward(*lab.stream, {pairs, y, rounded});
      return std::vector<Tensor>{};
    });
    expect_same(lab, s, [&](const std::string&, const Tensor& y, const RoundedInput& rounded) {
      if (rounded)
        cuda::gelu_rounded(nullptr, x.as<bf16>(), s[0], s[1], rounded);
      else
        cuda::gelu_forward(nullptr, DType::bf16, x.data, y.data, s.count());
      return std::vector<Tensor>{};
    });
    lab.finish();
  }
}

TEST_P(RoundedAhead, WhatDoesNotFitIsRefused) {
  const Dims s{16, 32};
  Lab lab(device());
  const Rounded to(device(), s[0], s[1]);
  const Tensor x = lab.in(dtype(), s, normal(s.count(), 1)), y{to.transposed.data(), dtype(), s};
  const auto refused = [&](Device& where, const Tensor& kept, const RoundedInput& rounded, const char* why) {
    try {
      where.activation_forward(*lab.stream, {x, kept, Activation::tanh, rounded});
      ADD_FAILURE() << "taken, but " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  const RoundedInput good = to.input(false, true);
  if (dtype() != DType::bf16) return refused(device(), {}, good, "bf16, to be rounded to fp8");
  refused(device(), y, good, "none where it is rounded");
  refused(device(), {}, {}, "no tensor");
  RoundedInput bad = good;
  bad.straight = good.straight.slice(1, good.straight.dims);
  refused(device(), {}, bad, "memory on 16 bytes");
  bad.straight = good.straight.slice(0, {256});
  refused(device(), {}, bad, "(512)");
  bad = good;
  bad.transposed = to.transposed.tensor().slice(0, {512});
  refused(device(), {}, bad, "(528)");
  bad.transposed = {to.straight.data(), DType::byte, {528}};
  refused(device(), {}, bad, "memory apart");
  refused(reference_device(), {}, good, "none on this device");
}

}  // namespace
}  // namespace tw::test
