#include "results/export/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "results/export/export_parts.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr ExportFormat formats[] = {
#define TRAINWATT_EXPORT(name, file, takes_cost, write) {name, file, takes_cost, write},
#include "results/export/exports.def"
};

}  // namespace

std::span<const ExportFormat> export_formats() { return formats; }

const ExportFormat* find_export_format(const std::string& name) {
  const auto found = std::ranges::find(formats, name, &ExportFormat::name);
  return found == std::end(formats) ? nullptr : &*found;
}

std::optional<std::int64_t> unix_seconds(const std::string& time) {
  const auto found = text::utc_time(time);
  if (!found || time.size() != std::size("2026-03-01T10:00:00") || !time.ends_with('Z') ||
      found->time_since_epoch().count() < 0)
    return std::nullopt;
  return found->time_since_epoch().count();
}

std::vector<std::string> unique_ids(const std::vector<Record>& records) {
  std::vector<std::string> ids;
  std::set<std::string> taken;
  for (const Record& record : records) {
    const std::string id = text::printable(record.id);
    std::string name = id;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{} ({})", id, n);
    ids.push_back(name);
  }
  return ids;
}

std::string why_not_counted(const Record& record) {
  if (is_valid(record)) return {};
  const std::string reasons = fmt::format("{}", fmt::join(record.verdict.reasons, "; "));
  return text::printable(to_string(record.verdict.status) + (reasons.empty() ? "" : ": " + reasons));
}

std::string_view gpu_uuid(std::string_view domain) {
  constexpr std::string_view source = "nvml:";
  return domain.starts_with(source) ? domain.substr(source.size()) : std::string_view();
}

}  // namespace tw::results
