// The launches of a run, and which records are of each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// One launch of a run: where it ran, and what it measured.
struct RecordedLaunch {
  const Context* context = nullptr;
  const Program* program = nullptr;
  std::string where;                 ///< of the context: "/context", "/parts/0/context"
  std::vector<std::size_t> records;  ///< their places in the report
};
/// Of a report that was not resumed, one.
std::vector<RecordedLaunch> launches_of(const Report& report);

}  // namespace tw::results
