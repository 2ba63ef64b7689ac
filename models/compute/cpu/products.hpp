// The matrix products of a layer with a weight, each in the way that measured fastest on this machine: shared by linear
// layers and by convolutions that are products of rows. All runs happen within a ThreadScope of the caller. Private to
// models/compute/cpu.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/cpu/context.hpp"

namespace tw::models::cpu {

/// Ways are compared on at most this many rows: the order does not change beyond, the time of planning does. Slices of
/// rows show what they are worth on more.
constexpr Index measured_rows = 1024, measured_slices_rows = 4096;
/// The key of a measured choice: `name` and the sizes that were measured.
std::string choice_key(const std::string& name, Index rows, Index in, Index out, DType type,
                       Math math = Math::standard);

/// Temporary operand of a measurement, filled: neither zeros nor denormals.
std::shared_ptr<Buffer> measured_operand(Context& context, Index count, DType type);

/// c (rows, columns) = a (rows, inner) · W (inner, columns) [+ bias] [+ c or another], W plain or packed by the
/// library.
class WeightProduct {
 public:
  struct Shape {
    DType type = DType::float32;
    Index rows = 0, inner = 0, columns = 0;
    dnnl::memory::desc weight;  ///< (inner, columns), as the network holds it
    bool bias = false;          ///< run() gets one
    bool sums = false;          ///< run() may be asked for Sum::into_c and Sum::other
    Math math = Math::standard;
  };
  WeightProduct() = default;
  /// `name` of the measured choice: products of the same name and sizes take the same way.
  WeightProduct(Context& context, const std::string& name, const Shape& shape);
  std::size_t bytes() const { return packed_weight_.bytes(); }
  std::string description() const { return (packed_weight_ ? "packed " : "plain ") + made_[0].implementation; }

  void refresh(const void* weight);
  /// `weight` as the network holds it, unchanged since the last refresh; `bias` (columns) where the shape has one.
  void run(const void* a, const void* weight, void* c, const void* bias = nullptr,
           Product::Sum sum = Product::Sum::none, const void* other = nullptr);

 private:
  Context* context_ = nullptr;
  std::array<MadeProduct, 3> made_;  // by Sum; not all are made
  bool bias_ = false;
  Reorder pack_;
  Buffer packed_weight_;  // empty: plain
};

/// dW (out, in), float32, [+]= dyᵀ (out, rows) · x (rows, in), with copies of both operands in the workspace.
class GradientProduct {
 public:
  struct Shape {
    DType type = DType::float32;
    Index rows = 0, in = 0, out = 0;
    Math math = Math::standard;
    /// Where x stands nowhere as a matrix: writes its rows [first, first + count) to `to`, on at most `threads`
    /// threads.
    std::function<void(int threads, const void* x, Index first, Index count, void* to)> gather = nullptr;
    Index source = 0;  ///< elements of x then
  };
  virtual ~GradientProduct() = default;
  virtual std::string description() const = 0;
  virtual void run(const void* x, const void* dy, void* dw, bool accumulate) = 0;
};
/// The ways that compete for a shape, in the order of the measured choice: the first three are bits of a product of all
/// rows at once, the last goes by slices of rows.
enum GradientWay : int { transpose_dy = 1, pack_x = 2, clear = 4, sliced = 8 };
std::vector<int> gradient_ways(const Context& context, const GradientProduct::Shape& shape);
/// `name` as above.
std::unique_ptr<GradientProduct> make_gradient_product(Context& context, const std::string& name,
                                                       const GradientProduct::Shape& shape);

}  // namespace tw::models::cpu
