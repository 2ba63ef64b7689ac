#include "models/compute/checks.hpp"

#include <cstdint>

namespace tw::models {
namespace {

std::string describe(const Tensor& tensor) {
  if (!tensor) return "no tensor";
  return std::string(to_string(tensor.dtype)) + " " + tensor.dims.str();
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (!a || !b) return false;
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data), begin_b = reinterpret_cast<std::uintptr_t>(b.data);
  return begin_a < begin_b + b.bytes() && begin_b < begin_a + a.bytes();
}

}  // namespace

void Check::fail(const char* argument, const std::string& wanted, const std::string& given) const {
  throw Error(Failure::usage,
              std::string(to_string(op_)) + ": " + argument + ": wanted " + wanted + ", given " + given);
}

DType Check::activation(const char* argument, const Tensor& tensor, int rank) const {
  if (!tensor || (rank != any_rank && tensor.dims.rank() != rank) || tensor.count() <= 0 || !is_float(tensor.dtype)) {
    const std::string extents = rank == any_rank ? "" : " with " + std::to_string(rank) + " extents";
    fail(argument, "float32, bf16 or fp16" + extents, describe(tensor));
  }
  return tensor.dtype;
}

void Check::has(const char* argument, const Tensor& tensor, DType dtype, const Dims& dims) const {
  if (!tensor || tensor.dtype != dtype || !(tensor.dims == dims)) {
    fail(argument, std::string(to_string(dtype)) + " " + dims.str(), describe(tensor));
  }
}

void Check::may_have(const char* argument, const Tensor& tensor, DType dtype, const Dims& dims) const {
  if (tensor) has(argument, tensor, dtype, dims);
}

void Check::has_rank(const char* argument, const Tensor& tensor, DType dtype, int rank) const {
  if (!tensor || tensor.dtype != dtype || tensor.dims.rank() != rank || tensor.count() <= 0) {
    fail(argument, std::string(to_string(dtype)) + " with " + std::to_string(rank) + " extents", describe(tensor));
  }
}

void Check::apart(const char* name_a, const Tensor& a, const char* name_b, const Tensor& b) const {
  if (overlap(a, b)) fail(name_a, std::string("memory apart from ") + name_b, "memory that overlaps it");
}

void Check::same_or_apart(const char* name_a, const Tensor& a, const char* name_b, const Tensor& b) const {
  if (overlap(a, b) && a.data != b.data) {
    fail(name_a, std::string("the memory of ") + name_b + " or memory apart from it", "memory that overlaps it partly");
  }
}

void Check::at_least(const char* argument, std::int64_t value, std::int64_t minimum) const {
  if (value < minimum) fail(argument, "at least " + std::to_string(minimum), std::to_string(value));
}

void Check::not_null(const char* argument, const void* pointer) const {
  if (pointer == nullptr) fail(argument, "a pointer to device memory", "null");
}

void Check::may_be_rounded(const char* argument, const RoundedInput& operand, DType dtype, std::int64_t rows,
                           std::int64_t columns) const {
  if (!operand) return;
  if (dtype != DType::bf16) fail(argument, "bf16, to be rounded to fp8", std::string(to_string(dtype)));
  if (rows % 16 != 0 || columns % 16 != 0)
    fail(argument, "rows and columns that are multiples of 16", Dims({rows, columns}).str());
  const std::int64_t count = Dims{rows, columns}.count(), inverse = 16;  // bytes
  has(argument, operand.straight, DType::byte, {count});
  may_have(argument, operand.transposed, DType::byte, {count + inverse});
  for (const Tensor& tensor : {operand.straight, operand.transposed})
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0)
      fail(argument, "memory on 16 bytes", "another address");
  apart(argument, operand.straight, "its transposed elements", operand.transposed);
}

void Check::has_one(const char* argument, const Tensor& y, DType dtype, const Dims& dims,
                    const RoundedInput& rounded) const {
  if (!rounded) return has(argument, y, dtype, dims);
  if (y) fail(argument, "none where it is rounded", "one");
  const std::int64_t columns = dims.rank() > 0 ? dims[dims.rank() - 1] : 0;
  may_be_rounded(argument, rounded, dtype, columns > 0 ? dims.count() / columns : 0, columns);
}

void require_support(const Device& device, Op op, DType dtype) {
  if (device.supports(op, dtype)) return;
  std::string reason = device.why_unsupported(dtype);
  if (reason.empty()) reason = "this device has no such operator";
  throw Error(Failure::unsupported,
              std::string(to_string(op)) + " on " + std::string(to_string(dtype)) + ": " + reason);
}

void require_math(const Device& device, Op op, DType dtype, Math math) {
  if (math == Math::standard) return;
  const DType wanted = math == Math::fp8 ? DType::bf16 : DType::float32;
  if (dtype != wanted) {
    Check(op).fail("shape.math", std::string(to_string(math)) + " on " + std::string(to_string(wanted)),
                   "it on " + std::string(to_string(dtype)));
  }
  std::string reason = device.why_no_math(math);
  if (reason.empty() && math == Math::fp8 && op == Op::convolution_forward) reason = "fp8 is of linear layers";
  if (reason.empty()) return;
  throw Error(Failure::unsupported, std::string(to_string(op)) + " with " + to_string(math) + ": " + reason);
}

}  // namespace tw::models
