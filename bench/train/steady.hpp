// When a warm-up may end.
#pragma once

#include <span>

namespace tw {

/// Whether the later half of these step times, 5 at least, is flat: a straight line through them falls or rises by no
/// more than 1 %, or by no more than its own noise explains (two standard errors of the least-squares slope). False
/// where there are fewer than 6: the first one is never looked at.
bool is_steady(std::span<const double> step_seconds);

}  // namespace tw
