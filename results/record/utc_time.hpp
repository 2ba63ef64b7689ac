// Times of reports: RFC 3339, UTC, whole seconds.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tw::results {

/// nullopt if the text is empty or no time, as with a month, day or hour that does not
/// exist.
std::optional<std::chrono::sys_seconds> utc_time(const std::string& text);

}  // namespace tw::results
