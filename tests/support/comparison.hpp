// How outputs of two devices are compared, and the one table of tolerances.
#pragma once

#include "models/compute/operators.hpp"
#include "tests/support/fills.hpp"

namespace tw::test {

/// sqrt(Σ(a − b)² / Σb²): one number for a whole tensor, insensitive to single elements near zero. Infinite where a
/// value is not finite or b is all zero while a is not.
double normalised_error(const Floats& a, const Floats& b);

/// What the stored dtype keeps of a value.
float as_stored(models::DType dtype, float value);

/// The normalised error that an output of `op` may have against the reference. `output` is the dtype in which it is
/// stored, `count` its number of elements; `roundings` overrides the table's count of roundings to half on the way to
/// it (0: none but the final store). `bf16_operands`: of products with Math::bf16, whose operands may be rounded or
/// not.
double tolerance(models::Op op, models::DType activations, models::DType output, std::size_t count, int roundings = -1,
                 bool bf16_operands = false);

}  // namespace tw::test
