#include "bench/tool/output_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tw::tool {
namespace {

constexpr std::size_t longest_line = 65536;
constexpr std::string_view mllog = ":::MLLOG";

/// The number behind "name=", where that stands alone or after a space.
std::optional<double> value_of(const std::string& text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t' && text[at - 1] != ',') continue;
    const std::size_t begin = at + name.size();
    if (begin >= text.size() || text[begin] != '=') continue;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + begin + 1, text.data() + text.size(), value);
    if (error == std::errc() && std::isfinite(value) && value >= 0) return value;
  }
  return std::nullopt;
}

std::optional<double> number(const nlohmann::json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

void OutputParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    partial_.append(part.substr(0, longest_line - std::min(longest_line, partial_.size())));
    if (end == std::string_view::npos) return;
    line(partial_);
    partial_.clear();
    piece.remove_prefix(end + 1);
  }
}

void OutputParser::finish() {
  if (!partial_.empty()) line(partial_);
  partial_.clear();
}

void OutputParser::line(const std::string& text) {
  if (const std::size_t at = text.find(mllog); at != std::string::npos) {
    const auto json = nlohmann::json::parse(text.substr(at + mllog.size()), nullptr, false);
    if (!json.is_object()) return;
    std::optional<double> samples;
    if (json.value("key", nlohmann::json()) == "samples_count") samples = number(json.value("value", nlohmann::json()));
    if (const auto metadata = json.find("metadata"); !samples && metadata != json.end() && metadata->is_object())
      samples = number(metadata->value("samples_count", nlohmann::json()));
    if (samples) logged_ = std::max(logged_.value_or(0), *samples);
    return;
  }
  if (const auto samples = value_of(text, "samples")) {
    plain_ = samples;
    seconds_ = value_of(text, "seconds");
    if (seconds_ == 0) seconds_.reset();
  }
}

std::string OutputParser::why_not() const {
  return "no samples in the command's output: print a line with samples=N, or MLLOG lines with samples_count";
}

}  // namespace tw::tool
