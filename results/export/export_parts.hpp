// What several formats of results/export/export.hpp need; internal to results/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Seconds since 1970 of "2026-03-01T10:00:00Z"; absent for any other form.
std::optional<std::int64_t> unix_seconds(const std::string& time);

/// The ids, printable, each once: a second record of the same id, which no report should have, becomes "id (2)".
/// Formats that name their rows cannot hold two of one name.
std::vector<std::string> unique_ids(const std::vector<Record>& records);

/// Why nothing of the record counts: "invalid: target_missed: …"; empty if it is valid.
std::string why_not_counted(const Record& record);

/// "GPU-…" of "nvml:GPU-…"; empty for a meter of another source.
std::string_view gpu_uuid(std::string_view domain);

}  // namespace tw::results
