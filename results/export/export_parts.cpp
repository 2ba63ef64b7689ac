#include "results/export/export_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <set>

#include "results/record/text.hpp"

namespace tw::results {

std::optional<std::int64_t> unix_seconds(const std::string& time) {
  std::tm parts{};
  char zone = 0, more = 0;
  if (std::sscanf(time.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%c%c", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &zone, &more) != 7 ||
      zone != 'Z' || parts.tm_year < 1970 || parts.tm_mon < 1 || parts.tm_mon > 12)
    return std::nullopt;
  parts.tm_year -= 1900, parts.tm_mon -= 1;
  return static_cast<std::int64_t>(timegm(&parts));
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
