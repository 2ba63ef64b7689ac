#include "bench/terminal/option_checks.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>

#include "bench/terminal/error_line.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

/// Marks text that follows the option's name directly; CLI11 inserts a colon otherwise.
constexpr const char* value_mark = "\x01";

}  // namespace

std::string value_fault(const std::string& value, const std::string& what) {
  return fmt::format("{}{}: {}", value_mark, models::cut_word(value), what);
}

OptionCheck number_in(double least, double most) {
  return [least, most](const std::string& text) -> std::string {
    double number = 0;
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, number).ptr != end) return {};
    if (number < least) return value_fault(text, fmt::format("value too small (minimum {})", least));
    if (number > most) return value_fault(text, fmt::format("value too large (maximum {})", most));
    return {};
  };
}

std::string parse_fault(const CLI::ParseError& error, const std::function<std::string(const std::string&)>& wanted) {
  std::string what = error.what();
  const std::string mark = std::string(": ") + value_mark;
  if (const std::size_t at = what.find(mark); at != std::string::npos)
    return with_code("bad-value", what.replace(at, mark.size(), " "));
  const std::string_view not_converted = "Could not convert: ", between = " = ";
  if (const std::size_t at = what.find(between); what.starts_with(not_converted) && at != std::string::npos) {
    const std::string name = what.substr(not_converted.size(), at - not_converted.size());
    return with_code("bad-value", fmt::format("{} {}: {}", name, models::cut_word(what.substr(at + between.size())),
                                              wanted ? wanted(name) : "must be a number"));
  }
  const std::string name = what.substr(0, what.find_first_of(": "));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (what.ends_with(" missing")) return with_code("bad-value", name + ": needs a value");
    if (const std::size_t at = what.rfind("received "); what.find("At Most 1 ") != std::string::npos)
      return with_code("duplicate-value", fmt::format("{}: given {} times; give it once", name, what.substr(at + 9)));
  }
  if (what.ends_with(" was given a disallowed flag override"))
    return with_code("bad-value", (name.starts_with("-") ? name : "--" + name) + " takes no value");
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return with_code("option-needs", name + " is missing: add it");
  if (const std::size_t at = what.find(" excludes "); at != std::string::npos)
    return with_code("options-conflict",
                     fmt::format("{} and {} exclude each other: leave out one", name, what.substr(at + 10)));
  return with_code("bad-value", what);
}

}  // namespace tw::bench
