// What CLI11 finds wrong with a command line, in the words and with the codes of our own errors.
#pragma once

#include <functional>
#include <limits>
#include <string>

namespace CLI {
class App;
class ParseError;
}

namespace tw::bench {

/// For CLI::Option::check: empty, or what is wrong with a value.
using OptionCheck = std::function<std::string(const std::string&)>;
/// Refuses numbers out of the range, and what is no decimal number (hexadecimal, nan, with blanks).
OptionCheck number_in(double least, double most = std::numeric_limits<double>::max());
/// Makes the options of an app that take numbers read decimal ones alone. CLI11 would take 040 for octal: it is 40.
/// What it would take besides, such as 0x10, is refused. For options that are there already.
void read_decimal(CLI::App& app);
/// A value and what it must be, for a check: "0: value too small". CLI11 puts the option's name and a colon before it.
std::string value_fault(const std::string& value, const std::string& what);

/// "[duplicate-value] --nodes: given 2 times; give it once". `wanted`: what an option's value has to be, by its name,
/// for one that could not be converted.
std::string parse_fault(const CLI::ParseError& error,
                        const std::function<std::string(const std::string&)>& wanted = {});

}  // namespace tw::bench
