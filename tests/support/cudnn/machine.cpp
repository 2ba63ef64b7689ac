#include "tests/support/cudnn/machine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/compute/dtype.hpp"

namespace tw::cudnn {

using namespace models;

namespace {

using cuda::dnn::Pointwise;
using cuda::dnn::Reduction;
using Numbers = std::vector<double>;

double rounded(DataType type, double value) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DataType::bf16:
      return to_float(to_bf16(single));
    case DataType::fp16:
      return to_float(to_fp16(single));
    case DataType::boolean:
      return value != 0;
    case DataType::int32:
      return std::trunc(value);
    default:
      return single;
  }
}

double load(DataType type, const void* data, std::int64_t at) {
  switch (type) {
    case DataType::bf16:
      return to_float(static_cast<const bf16*>(data)[at]);
    case DataType::fp16:
      return to_float(static_cast<const fp16*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

void store(DataType type, void* data, std::int64_t at, double value) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case DataType::bf16:
      static_cast<bf16*>(data)[at] = to_bf16(single);
      return;
    case DataType::fp16:
      static_cast<fp16*>(data)[at] = to_fp16(single);
      return;
    default:
      static_cast<float*>(data)[at] = single;
  }
}

// ---- running a graph ----

class Machine {
 public:
  Machine(const Proposal& proposal, std::map<std::int64_t, void*> memory)
      : proposal_(proposal), memory_(std::move(memory)) {}

  void run(const Node& operation) {
    switch (operation.kind) {
      case Kind::operation_convolution_forward:
      case Kind::operation_convolution_backward_data:
      case Kind::operation_convolution_backward_filter:
        return convolution(operation);
      case Kind::operation_pointwise:
        return pointwise(operation);
      case Kind::operation_reduction:
        return reduction(operation);
      case Kind::operation_matmul:
        return matmul(operation);
      case Kind::operation_reshape:
        return reshape(operation);
      default:
        throw Refusal(bad_parameter, "no such operation");
    }
  }
  /// All tensors in memory that the operations named.
  const std::set<std::int64_t>& used() const { return used_; }

 private:
  bool notes(int note) const { return std::count(proposal_.notes.begin(), proposal_.notes.end(), note) != 0; }
  static Tensor tensor(const Node& operation, Attribute attribute) { return Tensor(*operation.node(attribute)); }

  void* address(const Tensor& t) {
    const auto found = memory_.find(t.uid);
    if (found == memory_.end()) throw Refusal(bad_parameter, "no address for tensor " + std::to_string(t.uid));
    require(
        t.by_value || reinterpret_cast<std::uintptr_t>(found->second) % static_cast<std::uintptr_t>(t.alignment) == 0,
        "a misaligned address");
    used_.insert(t.uid);
    return found->second;
  }
  Numbers read(const Tensor& t) {
    if (t.is_virtual) {
      const auto found = between_.find(t.uid);
      require(found != between_.end(), "a tensor is read before it is written");
      return found->second;
    }
    const void* const data = address(t);
    Numbers numbers;
    for (const std::int64_t offset : t.offsets()) numbers.push_back(load(t.type, data, offset));
    return numbers;
  }
  void write(const Tensor& t, const Numbers& numbers) {
    require(static_cast<std::int64_t>(numbers.size()) == t.count(), "a result of another size");
    if (t.is_virtual) {
      Numbers& kept = between_[t.uid];
      kept.clear();
      for (const double number : numbers) kept.push_back(rounded(t.type, number));
      return;
    }
    void* const data = address(t);
    const std::vector<std::int64_t> offsets = t.offsets();
    std::vector<std::int64_t> sorted = offsets;
    std::ranges::sort(sorted);
    require(std::ranges::adjacent_find(sorted) == sorted.end(), "strides overlap");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double noise = notes(4) ? 1.01 : 1.0;
      store(t.type, data, offsets[i], numbers[i] * noise);
    }
  }
  /// As the engine's multipliers see them.
  Numbers factors(const Tensor& t) {
    Numbers numbers = read(t);
    for (double& number : numbers) {
      if (notes(1)) number /= 2;
      if (!notes(0) || t.type != DataType::float32) continue;
      int exponent = 0;
      const double fraction = std::frexp(number, &exponent);  // 11 significant bits
      number = std::ldexp(std::nearbyint(fraction * 2048) / 2048, exponent);
    }
    return numbers;
  }

  void convolution(const Node& operation) {
    const bool forward = operation.kind == Kind::operation_convolution_forward,
               data = operation.kind == Kind::operation_convolution_backward_data;
    using A = Attribute;
    const Tensor x = tensor(operation, forward ? A::forward_x
                                       : data  ? A::backward_data_dx
                                               : A::backward_filter_x),
                 w = tensor(operation, forward ? A::forward_w
                                       : data  ? A::backward_data_w
                                               : A::backward_filter_dw),
                 y = tensor(operation, forward ? A::forward_y
                                       : data  ? A::backward_data_dy
                                               : A::backward_filter_dy);
    const Node& what = *operation.node(forward ? A::forward_convolution
                                       : data  ? A::backward_data_convolution
                                               : A::backward_filter_convolution);
    require(what.one<int>(A::convolution_mode) == 1 &&
                what.one<DataType>(A::convolution_math_type) == DataType::float32 &&
                what.one<std::int64_t>(A::convolution_spatial_dims) == 2 &&
                what.all<std::int64_t>(A::convolution_dilations) == Extents{1, 1},
            "a cross-correlation in float32 is wanted");
    const std::int64_t stride = what.all<std::int64_t>(A::convolution_strides)[0],
                       padding = what.all<std::int64_t>(A::convolution_pre_padding)[0];
    require(padding == what.all<std::int64_t>(A::convolution_post_padding)[0], "equal padding");
    require(operation.one<float>(forward ? A::forward_alpha
                                 : data  ? A::backward_data_alpha
                                         : A::backward_filter_alpha) == 1,
            "alpha is 1");
    const float beta = operation.one<float>(forward ? A::forward_beta
                                            : data  ? A::backward_data_beta
                                                    : A::backward_filter_beta);
    const std::int64_t n = x.extents[0], c = x.extents[1], h = x.extents[2], width = x.extents[3], k = w.extents[0],
                       r = w.extents[2], oh = y.extents[2], ow = y.extents[3];
    require(w.extents[1] == c && w.extents[3] == r && y.extents[0] == n && y.extents[1] == k &&
                oh == (h + 2 * padding - r) / stride + 1 && ow == (width + 2 * padding - r) / stride + 1,
            "extents that fit");
    const Tensor& result = forward ? y : data ? x : w;
    Numbers sums(static_cast<std::size_t>(result.count()), 0.0);
    if (beta != 0) {
      sums = read(result);
      for (double& sum : sums) sum *= beta;
    }
    const Numbers xs = data ? Numbers() : factors(x), ws = forward || data ? factors(w) : Numbers(),
                  ys = forward ? Numbers() : factors(y);
    for (std::int64_t image = 0; image < n; ++image)
      for (std::int64_t out = 0; out < k; ++out)
        for (std::int64_t i = 0; i < oh; ++i)
          for (std::int64_t j = 0; j < ow; ++j)
            for (std::int64_t in = 0; in < c; ++in)
              for (std::int64_t a = 0; a < r; ++a)
                for (std::int64_t b = 0; b < r; ++b) {
                  const std::int64_t row = i * stride - padding + a, column = j * stride - padding + b;
                  if (row < 0 || row >= h || column < 0 || column >= width) continue;
                  const auto at_x = static_cast<std::size_t>(((image * c + in) * h + row) * width + column),
                             at_w = static_cast<std::size_t>(((out * c + in) * r + a) * r + b),
                             at_y = static_cast<std::size_t>(((image * k + out) * oh + i) * ow + j);
                  if (forward)
                    sums[at_y] += xs[at_x] * ws[at_w];
                  else if (data)
                    sums[at_x] += ys[at_y] * ws[at_w];
                  else
                    sums[at_w] += xs[at_x] * ys[at_y];
                }
    write(result, sums);
  }

  /// For each element of `to`, in row-major order, its position in `from`, whose extents are those of `to` or 1. Where
  /// `in_groups`, equally many neighbours of axis 1 of `to` share a place in `from`.
  static std::vector<std::size_t> positions(const Tensor& from, const Tensor& to, bool in_groups = false) {
    require(from.extents.size() == to.extents.size(), "equal ranks");
    std::vector<std::size_t> all = {0};
    auto step = static_cast<std::size_t>(from.count());
    for (std::size_t axis = 0; axis < to.extents.size(); ++axis) {
      const auto extent = static_cast<std::size_t>(to.extents[axis]),
                 own = static_cast<std::size_t>(from.extents[axis]);
      require(own == 1 || own == extent || (in_groups && axis == 1 && extent % own == 0), "extents that broadcast");
      step /= own;
      const std::size_t group = extent / own;
      std::vector<std::size_t> further;
      further.reserve(all.size() * extent);
      for (const std::size_t position : all)
        for (std::size_t place = 0; place < own; ++place)
          further.insert(further.end(), group, position + place * step);
      all = std::move(further);
    }
    return all;
  }

  void pointwise(const Node& operation) {
    const Node& what = *operation.node(Attribute::operation_pointwise_descriptor);
    const auto mode = what.one<Pointwise>(Attribute::pointwise_mode);
    const Tensor x = tensor(operation, Attribute::operation_pointwise_x),
                 y = tensor(operation, Attribute::operation_pointwise_y);
    const Numbers xs = read(x);
    Numbers results(static_cast<std::size_t>(y.count()));
    const bool unary =
        mode == Pointwise::exp || mode == Pointwise::log || mode == Pointwise::identity || mode == Pointwise::gen_index;
    const Tensor b = unary ? x : tensor(operation, Attribute::operation_pointwise_b);
    const Numbers bs = unary ? xs : read(b);
    const Tensor t = mode == Pointwise::select ? tensor(operation, Attribute::operation_pointwise_t) : x;
    const Numbers ts = mode == Pointwise::select ? read(t) : Numbers();
    const auto axis = static_cast<std::size_t>(
        what.has(Attribute::pointwise_axis) ? what.one<std::int64_t>(Attribute::pointwise_axis) : 0);
    const std::vector<std::size_t> at_x = positions(x, y), at_b = positions(b, y), at_t = positions(t, y);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double left = xs[at_x[i]], right = bs[at_b[i]];
      switch (mode) {
        case Pointwise::add:
          results[i] = left + right;
          break;
        case Pointwise::mul:
          results[i] = left * right;
          break;
        case Pointwise::div:
          results[i] = left / right;
          break;
        case Pointwise::sub:
          results[i] = left - right;
          break;
        case Pointwise::exp:
          results[i] = std::exp(left);
          break;
        case Pointwise::log:
          results[i] = std::log(left);
          break;
        case Pointwise::identity:
          results[i] = left;
          break;
        case Pointwise::greater_or_equal:
          results[i] = left >= right;
          break;
        case Pointwise::select:
          results[i] = ts[at_t[i]] != 0 ? left : right;
          break;
        case Pointwise::gen_index: {
          std::size_t step = 1;
          for (std::size_t behind = axis + 1; behind < y.extents.size(); ++behind)
            step *= static_cast<std::size_t>(y.extents[behind]);
          results[i] = static_cast<double>(i / step % static_cast<std::size_t>(y.extents[axis]));
          break;
        }
        default:
          throw Refusal(bad_parameter, "no such pointwise operation");
      }
    }
    write(y, results);
  }

  void reduction(const Node& operation) {
    const Tensor x = tensor(operation, Attribute::operation_reduction_x),
                 y = tensor(operation, Attribute::operation_reduction_y);
    const auto mode =
        operation.node(Attribute::operation_reduction_descriptor)->one<Reduction>(Attribute::reduction_operator);
    const Numbers xs = read(x);
    Numbers results(static_cast<std::size_t>(y.count()),
                    mode == Reduction::max ? -std::numeric_limits<double>::infinity() : 0.0);
    const std::vector<std::size_t> at = positions(y, x, mode == Reduction::add);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      double& result = results[at[i]];
      result = mode == Reduction::max ? std::max(result, xs[i]) : result + xs[i];
    }
    write(y, results);
  }

  void matmul(const Node& operation) {
    const Tensor a = tensor(operation, Attribute::operation_matmul_a),
                 b = tensor(operation, Attribute::operation_matmul_b),
                 c = tensor(operation, Attribute::operation_matmul_c);
    require(operation.node(Attribute::operation_matmul_descriptor)->one<DataType>(Attribute::matmul_math_type) ==
                DataType::float32,
            "sums in float32");
    const std::int64_t m = a.extents[2], k = a.extents[3], n = b.extents[3], heads = a.extents[1];
    require(b.extents[2] == k && b.extents[0] == a.extents[0] && heads % b.extents[1] == 0 &&
                c.extents == Extents({a.extents[0], heads, m, n}),
            "extents that fit");
    const std::int64_t group = heads / b.extents[1];  // neighbours among the heads of a share one of b
    const Numbers as = factors(a), bs = factors(b);
    Numbers cs(static_cast<std::size_t>(c.count()), 0.0);
    for (std::int64_t one = 0; one < a.extents[0] * heads; ++one)
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t l = 0; l < k; ++l)
          for (std::int64_t j = 0; j < n; ++j)
            cs[static_cast<std::size_t>((one * m + i) * n + j)] +=
                as[static_cast<std::size_t>((one * m + i) * k + l)] *
                bs[static_cast<std::size_t>((one / group * k + l) * n + j)];
    write(c, cs);
  }

  /// The same memory seen with other extents and strides.
  void reshape(const Node& operation) {
    const Tensor x = tensor(operation, Attribute::operation_reshape_x),
                 y = tensor(operation, Attribute::operation_reshape_y);
    const Numbers xs = read(x);
    const std::vector<std::int64_t> from = x.offsets(), to = y.offsets();
    constexpr std::size_t none = SIZE_MAX;
    std::vector<std::size_t> place(from.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(from)) + 1, none);
    for (std::size_t i = 0; i < from.size(); ++i) place[static_cast<std::size_t>(from[i])] = i;
    Numbers results;
    for (const std::int64_t offset : to) {
      const auto at = static_cast<std::size_t>(offset);
      require(at < place.size() && place[at] != none, "a reshape reads beside its input");
      results.push_back(xs[place[at]]);
    }
    write(y, results);
  }

  const Proposal& proposal_;
  std::map<std::int64_t, void*> memory_;
  std::map<std::int64_t, Numbers> between_;
  std::set<std::int64_t> used_;
};

}  // namespace

std::set<std::int64_t> run_graph(const Proposal& proposal, const std::vector<NodePointer>& operations,
                                 const std::map<std::int64_t, void*>& memory) {
  Machine machine(proposal, memory);
  for (const NodePointer& operation : operations) machine.run(*operation);
  return machine.used();
}

}  // namespace tw::cudnn
