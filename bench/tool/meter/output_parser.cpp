#include "bench/tool/meter/output_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/terminal/error_line.hpp"

namespace tw::bench::tool {
namespace {

constexpr std::size_t longest_line = 65536;
constexpr std::string_view mllog = ":::MLLOG";

/// The text after "name=": a number, or the word that is none.
struct Value {
  std::optional<double> number;
  std::string word;
};

bool ends_number(std::string_view rest) {
  if (rest.empty() || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r') return true;
  const bool digit_follows = rest.size() > 1 && rest[1] >= '0' && rest[1] <= '9';
  return (rest[0] == ',' || rest[0] == ';') && !digit_follows;
}

/// The first number behind "name=", where that stands alone, after a blank or a comma; else the first word there that
/// is none. nullopt if the name is absent.
std::optional<Value> value_of(const std::string& text, std::string_view name) {
  std::optional<Value> none;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t' && text[at - 1] != ',' && text[at - 1] != ';') continue;
    const std::size_t begin = at + name.size();
    if (begin >= text.size() || text[begin] != '=') continue;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + begin + 1, text.data() + text.size(), value);
    if (error == std::errc() && std::isfinite(value) && value >= 0 &&
        ends_number({end, static_cast<std::size_t>(text.data() + text.size() - end)}))
      return Value{value, {}};
    const std::size_t word_end = std::min(text.find_first_of(" \t\r", begin), begin + 40);
    if (!none) none = Value{std::nullopt, text.substr(at, word_end - at)};
  }
  return none;
}

std::optional<double> number(const nlohmann::json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

void OutputParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t end = piece.find_first_of("\n\r");
    const std::string_view part = piece.substr(0, end);
    const std::size_t room = longest_line - std::min(longest_line, partial_.size());
    if (part.size() > room && !is_cut_) is_cut_ = true, ++cut_;
    partial_.append(part.substr(0, room));
    if (end == std::string_view::npos) return;
    finish();
    piece.remove_prefix(end + 1);
  }
}

void OutputParser::finish() {
  if (!partial_.empty()) line(partial_);
  partial_.clear();
  is_cut_ = false;
}

void OutputParser::line(const std::string& text) {
  if (const std::size_t at = text.find(mllog); at != std::string::npos) {
    const auto json = nlohmann::json::parse(text.substr(at + mllog.size()), nullptr, false);
    if (!json.is_object()) return;
    std::optional<double> samples;
    const auto take = [&](const nlohmann::json& holder, const char* name) {
      const auto value = holder.find(name);
      if (samples || value == holder.end()) return;
      samples = number(*value);
      if (!samples)
        not_understood("samples_count " +
                       value->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40));
    };
    if (json.value("key", nlohmann::json()) == "samples_count") take(json, "value");
    if (const auto metadata = json.find("metadata"); metadata != json.end() && metadata->is_object())
      take(*metadata, "samples_count");
    if (samples == 0) logged_zero_ = true;
    if (samples > 0.0) logged_ = std::max(logged_.value_or(0), *samples);
    return;
  }
  const auto samples = value_of(text, "samples");
  if (!samples) return;
  if (!samples->number) return not_understood(samples->word);
  plain_zero_ = *samples->number == 0;
  if (plain_zero_) return;
  grows_ = grows_ && (!plain_ || *samples->number > *plain_);
  ++lines_;
  plain_ = samples->number;
  const auto seconds = value_of(text, "seconds");
  if (seconds && !seconds->number) not_understood(seconds->word);
  seconds_ = seconds ? seconds->number : std::nullopt;
  if (seconds_ == 0) not_understood("seconds=0"), seconds_.reset();
}

void OutputParser::not_understood(const std::string& word) {
  if (++not_understood_ == 1) first_not_understood_ = word;
}

std::vector<std::string> OutputParser::warnings() const {
  std::vector<std::string> lines;
  const auto warn = [&](const char* code, const std::string& text) {
    lines.push_back(with_code(code, "the command's output: " + text));
  };
  if (not_understood_ > 0)
    warn("samples-unreadable",
         fmt::format("\"{}\"{} is not a plain number above 0 and is ignored: print samples=64000 seconds=12.5",
                     first_not_understood_,
                     not_understood_ > 1 ? fmt::format(" (and {} more)", not_understood_ - 1) : ""));
  const bool is_zero = plain_zero_ || (logged_zero_ && !samples());
  if (is_zero)
    warn("no-samples",
         fmt::format("{} 0 samples and is ignored: print the number of samples that the command has trained{}",
                     plain_zero_ ? "the last line has" : "it has",
                     plain_ ? fmt::format("; the earlier samples={} is used", *plain_) : ""));
  if (cut_ > 0)
    warn("line-too-long",
         fmt::format("{} longer than 64 KiB; only the first 64 KiB are parsed: print samples=N on a line of "
                     "its own",
                     cut_ > 1 ? fmt::format("{} lines are", cut_) : "a line is"));
  if (lines_ > 1)
    warn("several-samples",
         fmt::format("{} lines have samples=; the last one, samples={}, is used as the total{}", lines_, *plain_,
                     grows_ ? ""
                            : ". They do not increase from line to line as a running total does: print the "
                              "total in a last line"));
  if (plain_ && logged_)
    warn("several-samples",
         fmt::format("samples={} is used, not the samples_count of {} in its MLLOG lines", *plain_, *logged_));
  if (!samples() && !is_zero)
    warn("no-samples",
         "standard output has no samples (standard error is not parsed): print samples=N, or MLLOG lines with "
         "samples_count");
  return lines;
}

}  // namespace tw::bench::tool
