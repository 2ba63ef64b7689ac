// Kernels that are parts of plans, which no operator test reaches on the CPU: against sums and formulas in float64.
#include <algorithm>
#include <cmath>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/formulas.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {
namespace {

class Parts : public DeviceTest {
 protected:
  /// What the stored dtype keeps.
  Floats stored(Floats values) const {
    if (dtype() == DType::bf16) {
      for (float& value : values) value = to_float(to_bf16(value));
    }
    return values;
  }
  /// Normalised error within the table's tolerance for `op`.
  void expect_close(const Floats& got, const Floats& want, Op op, DType output, int roundings = -1) const {
    EXPECT_LE(normalised_error(got, want), tolerance(op, dtype(), output, got.size(), roundings)) << to_string(op);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Parts, testing::ValuesIn(device_cases()), device_case_name);

/// A tensor of count elements that starts `offset` elements behind a wide boundary, and its neighbours must stay.
struct Offset {
  Tensor whole, part;
  std::int64_t offset = 0;
};
Offset offset_tensor(Lab& lab, DType type, const Floats& values, std::int64_t offset, const std::string& name = "") {
  Floats padded(values.size() + static_cast<std::size_t>(2 * offset), 77.0f);
  std::copy(values.begin(), values.end(), padded.begin() + offset);
  const Dims dims{static_cast<std::int64_t>(padded.size())};
  const Tensor whole = name.empty() ? lab.in(type, dims, padded) : lab.in_out(name, type, dims, padded);
  return {whole, whole.slice(offset, {static_cast<std::int64_t>(values.size())}), offset};
}
/// Its values; fails where a neighbour has changed.
Floats read(Lab& lab, const Offset& tensor) {
  const Floats all = lab.read(tensor.whole);
  for (std::int64_t i = 0; i < tensor.offset; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)], 77.0f);
    EXPECT_EQ(all[all.size() - 1 - static_cast<std::size_t>(i)], 77.0f);
  }
  return {all.begin() + tensor.offset, all.end() - tensor.offset};
}

constexpr std::int64_t counts[] = {1, 31, 33, 1023, 4096, 70001};

TEST_P(Parts, Gelu) {
  for (const std::int64_t count : counts) {
    for (const std::int64_t offset : {0, 1}) {
      Lab lab(device());
      const Floats x = stored(normal(count, 1, 2)), dy = stored(normal(count, 2));
      const Offset input = offset_tensor(lab, dtype(), x, offset), output = offset_tensor(lab, dtype(), x, offset, "y"),
                   in_place = offset_tensor(lab, dtype(), x, offset, "in place"),
                   gradient = offset_tensor(lab, dtype(), dy, offset, "dx");
      cuda::gelu_forward(nullptr, dtype(), input.part.data, output.part.data, count);
      cuda::gelu_forward(nullptr, dtype(), in_place.part.data, in_place.part.data, count);
      cuda::gelu_backward(nullptr, dtype(), input.part.data, gradient.part.data, count);
      Floats want(x.size()), want_gradient(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        want[i] = static_cast<float>(formula::gelu<double>(x[i]));
        want_gradient[i] = static_cast<float>(dy[i] * formula::gelu_derivative<double>(x[i]));
      }
      expect_close(read(lab, output), stored(want), Op::linear_forward, dtype(), 0);
      expect_close(read(lab, gradient), stored(want_gradient), Op::linear_backward_input, dtype(), 0);
      EXPECT_EQ(read(lab, in_place), read(lab, output));
      lab.finish();
    }
  }
}

TEST_P(Parts, ColumnSums) {
  struct Size {
    std::int64_t rows, columns, ld;
  };
  for (const Size s :
       {Size{1, 1, 1}, Size{1, 1023, 1023}, Size{31, 33, 33}, Size{33, 31, 40}, Size{1023, 3, 3}, Size{1023, 8, 8},
        Size{2000, 48, 48}, Size{70, 260, 264}, Size{5000, 33, 40}, Size{3, 2048, 2048}}) {
    for (const std::int64_t offset : {0, 1}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(Dims({s.rows, s.columns, s.ld, offset}).str());
        Lab lab(device());
        const Floats x = integers(s.rows * s.ld, 1, -4, 4), before = integers(s.columns, 2, -9, 9);
        const Offset input = offset_tensor(lab, dtype(), x, offset);
        const Tensor sums = accumulate ? lab.in_out("sums", DType::float32, {s.columns}, before)
                                       : lab.out("sums", DType::float32, {s.columns});
        const Buffer scratch(device(), cuda::column_sums_scratch(s.rows, s.columns));
        cuda::column_sums(nullptr, dtype(), input.part.data, s.rows, s.columns, s.ld, 0.25f, sums.as<float>(),
                          accumulate, scratch.data());
        Floats want(static_cast<std::size_t>(s.columns));
        for (std::int64_t c = 0; c < s.columns; ++c) {
          double sum = 0;
          for (std::int64_t r = 0; r < s.rows; ++r) sum += x[static_cast<std::size_t>(r * s.ld + c)];
          want[static_cast<std::size_t>(c)] =
              static_cast<float>(0.25 * sum + (accumulate ? before[static_cast<std::size_t>(c)] : 0.0f));
        }
        EXPECT_EQ(lab.read(sums), want);
        lab.finish();
      }
    }
  }
}

}  // namespace
}  // namespace tw::test
