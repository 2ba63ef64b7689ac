// Figures and lines for people. Shared by the tables of results/ and the programs' own output.
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results::text {

/// Three significant digits with an SI prefix: "52.5 k", "0.410"; a unit follows the prefix directly: "75.0 GFLOP/s".
std::string si(double value, const std::string& unit = "");
/// With its interval, where it has one: "41.9 samples/s [40.8, 43.0]"
std::string si(const Estimate& e, const std::string& unit = "");
/// "19.5 ms", "1.50 s", "4 min 10 s"
std::string duration(double seconds);
std::string duration(const Estimate& seconds);  ///< with its interval: "1.50 s [1.40 s, 1.60 s]"
/// "23 Nov 2026, 12:50 UTC" of "2026-11-23T12:50:31Z"; what is no such time as it stands.
std::string date(const std::string& rfc3339);
/// Of "2026-11-23T12:50:31Z"; what is behind the seconds is not looked at. Nullopt for any other text.
std::optional<std::chrono::sys_seconds> utc_time(const std::string& rfc3339);
/// "412 MiB"
std::string bytes(double count);
/// Digits by significance: "0.683", "12.8"
std::string significant(double value, int digits = 3);
/// "CUDA runtime" of "CUDA runtime 13.0": the entry of Context::versions that has an item of DeviceEntry::libraries.
std::string library_name(const std::string& library);
/// A name, or a number with all its digits: what was asked for has few.
std::string set_point(const SetPoint& value);
/// A name, or a mean with four digits of significance.
std::string observed(const SetPoint& value);
/// "1 point", "3 points"
std::string count(std::integral auto n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}
/// A text of each of a list or set: its field, or what a function makes of it.
std::vector<std::string> texts_of(const auto& all, auto of) {
  std::vector<std::string> texts;
  for (const auto& one : all) texts.emplace_back(std::invoke(of, one));
  return texts;
}
/// Texts of a list or set in a row.
std::string join(const auto& texts, const std::string& separator) {
  std::string all;
  for (bool is_first = true; const auto& text : texts) {
    if (!is_first) all += separator;
    if constexpr (requires { all += text; })
      all += text;
    else
      all += to_string(text);  // of an enumeration
    is_first = false;
  }
  return all;
}
/// The same of those that are not empty.
std::string join_said(std::vector<std::string> texts, const std::string& separator);

/// Columns that UTF-8 text takes in a terminal (code points; colours count nothing; no wide characters).
std::size_t columns(const std::string& text);
std::string pad_left(const std::string& text, std::size_t width);    ///< right-justified
std::string pad_right(const std::string& text, std::size_t width);
/// Breaks at spaces so that no line exceeds `width` (longer words stay whole); other lines start with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

/// Foreign text (a report, an argument, a path) made safe to print on one terminal line: control characters (C0 with
/// newline and tab, DEL, C1), characters that change the writing direction, and bytes that are not UTF-8 become
/// visible escapes: "\n", "\x1b", "\u202e".
std::string printable(const std::string& text);

/// A clause of our own as a sentence: with a full stop, and with a capital where it begins with a small letter of ASCII
/// and not with a point's name ("m/bf16") or a key ("gpu_clock_mhz").
std::string sentence(std::string clause);

/// One character for each bucket mean, lowest to highest: "█▆▄▂▁", or digits 0 … 9 without Unicode. Values that are not
/// finite show as "x".
std::string sparkline(std::span<const double> values, std::size_t width, bool unicode);
/// Filled to share × width columns: "███▌". Empty if share is not finite.
std::string bar(double share, std::size_t width, bool unicode);

}  // namespace tw::results::text
