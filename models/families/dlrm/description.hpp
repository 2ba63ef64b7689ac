// DLRM (Naumov et al., arXiv 1906.00091): embedding bags of categorical features beside an MLP of dense ones, the dot
// products of each pair, and an MLP of these that predicts a click.
#pragma once

#include "models/catalog/description.hpp"

namespace tw::models {

/// The defaults are MLPerf's DLRM (training v0.7 to v2.1): Criteo 1TB, indices modulo 40 million.
struct DlrmDescription {
  int dense_features = 13;
  std::vector<int> bottom = {512, 256, 128};      ///< widths of its layers; the last is that of the tables
  std::vector<int> top = {1024, 1024, 512, 256};  ///< likewise, without the last one, which has 1
  std::vector<int> table_rows = {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                                 38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                                 14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};
  int hot = 1;  ///< indices into each table

  std::int64_t width() const { return bottom.back(); }
  std::int64_t features() const { return static_cast<std::int64_t>(table_rows.size()) + 1; }  ///< that interact
  /// The dense vector, and a dot product for each pair of features.
  std::int64_t interactions() const { return width() + features() * (features() - 1) / 2; }
};

namespace family::dlrm {

std::shared_ptr<const NetworkShape> shape(const DlrmDescription& sizes);

/// fp8 multiplies by 16: layers of other widths compute beside it.
constexpr bool beside_fp8(std::int64_t in, std::int64_t out) { return in % 16 != 0 || out % 16 != 0; }

}  // namespace family::dlrm
}  // namespace tw::models
