#include "bench/terminal/option_checks.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "bench/terminal/error_line.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

/// Marks text that follows the option's name directly; CLI11 inserts a colon otherwise.
constexpr const char* value_mark = "\x01";

/// Of a number that no double holds: whether it is one next to 0.
bool is_tiny(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  const std::size_t exponent = number.find_first_of("eE");
  return exponent == number.npos ? number.starts_with('0') || number.starts_with('.')
                                 : number.substr(exponent + 1).starts_with('-');
}

/// "040" becomes "40"; empty, or what is wrong with it.
std::string to_decimal(std::string& text, bool is_whole) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const auto begins_zero = [&] { return text.size() > sign + 1 && text[sign] == '0'; };
  const bool is_exponent = !is_whole && begins_zero() && (text[sign + 1] == 'e' || text[sign + 1] == 'E');
  if (begins_zero() && !is_exponent && std::isalpha(static_cast<unsigned char>(text[sign + 1])) != 0)
    return value_fault(text, is_whole ? "must be a whole decimal number" : "must be a decimal number");
  while (is_whole && begins_zero()) text.erase(sign, 1);
  return {};
}

}  // namespace

std::string value_fault(const std::string& value, const std::string& what) {
  return fmt::format("{}{}: {}", value_mark, models::cut_word(value), what);
}

OptionCheck number_in(double least, double most) {
  return [least, most](const std::string& text) -> std::string {
    // What CLI11 would read besides (0x10, blanks before it) must not pass unchecked.
    std::string_view digits = text;
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    double number = 0;
    const char* const end = digits.data() + digits.size();
    const auto [read, error] = std::from_chars(digits.data(), end, number);
    if (read != end || error == std::errc::invalid_argument) return value_fault(text, "must be a number");
    if (error == std::errc::result_out_of_range)
      number = is_tiny(digits) ? 0 : digits.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
    else if (!std::isfinite(number))
      return value_fault(text, "must be a finite number");
    if (number < least) return value_fault(text, fmt::format("value too small (minimum {})", least));
    if (number > most) return value_fault(text, fmt::format("value too large (maximum {})", most));
    return {};
  };
}

void read_decimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](CLI::Option*) { return true; })) {
    const std::string type = option->get_type_name();
    const bool is_whole = type.starts_with("INT") || type.starts_with("UINT");
    if (!is_whole && !type.starts_with("FLOAT")) continue;
    const auto decimal = [is_whole](std::string& text) { return to_decimal(text, is_whole); };
    option->transform(CLI::Validator(decimal, ""));  // before any check
  }
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
