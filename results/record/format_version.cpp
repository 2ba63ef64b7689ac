// Which versions of a format this program reads.
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

/// "1.0": major and minor, each written as a number is: no "01.0".
std::optional<std::pair<unsigned, unsigned>> parse_version(const std::string& text) {
  unsigned major = 0, minor = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto first = std::from_chars(begin, end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  if (std::to_string(major) + "." + std::to_string(minor) != text) return std::nullopt;
  return std::pair(major, minor);
}

std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 40;
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

}  // namespace

std::string version_obstacle(const std::string& found, const std::string& known) {
  const auto its = parse_version(found), mine = parse_version(known);
  if (its && its->first == mine->first) return {};
  return "\"" + shortened(found) + "\" is not \"" + known + "\", the version that this program reads" +
         (its && its->first > mine->first ? ": a newer trainwatt does" : "");
}

bool is_newer_minor(const std::string& found, const std::string& known) {
  const auto its = parse_version(found), mine = parse_version(known);
  return its && its->first == mine->first && its->second > mine->second;
}

}  // namespace tw::results
