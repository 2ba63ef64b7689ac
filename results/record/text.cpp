#include "results/record/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tw::results::text {

std::string library_name(const std::string& library) { return library.substr(0, library.rfind(' ')); }

std::string set_point(const SetPoint& value) {
  return value.name.empty() ? fmt::format("{:.6g}", value.number) : value.name;
}

std::string observed(const SetPoint& value) { return value.name.empty() ? significant(value.number, 4) : value.name; }

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "not finite";
  if (value == 0) return "0";
  // Rounding may carry into the next power of ten (9.999 → 10.0): take the exponent after it.
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent >= digits + 3 || exponent < -4) return scientific;
  return fmt::format("{:.{}f}", std::stod(scientific), std::max(0, digits - 1 - exponent));
}

std::string si(double value, const std::string& unit) {
  static constexpr std::array<const char*, 7> prefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t i = 0;
  double scaled = value;
  while (std::abs(scaled) >= 999.5 && i + 1 < prefixes.size()) scaled /= 1000, ++i;
  const std::string suffix = prefixes[i] + unit;
  return significant(scaled) + (suffix.empty() ? "" : " " + suffix);
}

namespace {
/// " [40.8, 43.0]" behind a figure that has an interval.
std::string ends(const Estimate& e, std::string (*print)(double)) {
  return e.low && e.high ? " [" + print(*e.low) + ", " + print(*e.high) + "]" : "";
}

/// Of the UTF-8 sequence at `at`; 0 where it is none (RFC 3629: no overlong forms, no surrogates).
std::size_t sequence_length(const std::string& text, std::size_t at, char32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char lead = byte(at);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0) return 0;
  static constexpr std::array<char32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  code = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(at + i) >> 6 != 2) return 0;
    code = code << 6 | (byte(at + i) & 0x3fu);
  }
  return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : length;
}

bool is_control(char32_t code) {
  const auto within = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return code < 0x20 || within(0x7f, 0x9f) || within(0x200e, 0x200f) || within(0x2028, 0x202e) ||
         within(0x2066, 0x2069) || code == 0x61c;
}

}  // namespace

std::string si(const Estimate& e, const std::string& unit) {
  return si(e.value, unit) + ends(e, [](double value) { return si(value); });
}
std::string duration(const Estimate& seconds) { return duration(seconds.value) + ends(seconds, duration); }

std::string join_said(std::vector<std::string> texts, const std::string& separator) {
  std::erase(texts, "");
  return join(texts, separator);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "not finite";
  const double size = std::abs(seconds);
  if (size >= 3600)
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(seconds / 3600), std::floor(std::fmod(seconds, 3600) / 60));
  if (size >= 119.5)
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
  if (size >= 0.9995 || size == 0) return significant(seconds) + " s";
  if (size >= 0.9995e-3) return significant(seconds * 1e3) + " ms";
  if (size >= 0.9995e-6) return significant(seconds * 1e6) + " µs";
  return significant(seconds * 1e9) + " ns";
}

std::string date(const std::string& rfc3339) {
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, end = 0;
  const int found = std::sscanf(rfc3339.c_str(), "%4d-%2d-%2dT%2d:%2d:%n", &year, &month, &day, &hour, &minute, &end);
  if (found < 5 || end == 0 || !rfc3339.ends_with('Z') || month < 1 || month > 12) return rfc3339;
  return fmt::format("{} {} {}, {:02}:{:02} UTC", day, months[month - 1], year, hour, minute);
}

std::optional<std::chrono::sys_seconds> utc_time(const std::string& text) {
  bool good = text.size() >= std::size("2026-01-31T23:59:59");
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = 0;
    if (!good) return value;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + size, value);
    good = error == std::errc() && end == text.data() + at + size && value >= 0;
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)), std::chrono::month(number(5, 2)),
                                        std::chrono::day(number(8, 2))};
  const int hours = number(11, 2), minutes = number(14, 2), seconds = number(17, 2);
  if (!good || !day.ok() || hours >= 24 || minutes >= 60 || seconds > 60) return std::nullopt;  // 60: a leap second
  return std::chrono::sys_days(day) + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds);
}

std::string bytes(double count) {
  static constexpr std::array<const char*, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t i = 0;
  while (count >= 999.5 && i + 1 < units.size()) count /= 1024, ++i;
  return significant(count) + " " + units[i];
}

std::size_t columns(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {  // "ESC [ … m" colours, and takes no column
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((text[i] & 0xc0) != 0x80) {
      ++count;
    }
  }
  return count;
}

std::string pad_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ') + text;
}
std::string pad_right(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, columns(text)), ' ');
}

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const std::size_t size = columns(word);
    if (!out.empty() && column + 1 + size > width) {
      out += '\n' + std::string(indent, ' ') + word;
      column = indent + size;
    } else {
      if (!out.empty()) out += ' ', ++column;
      out += word;
      column += size;
    }
  }
  return out;
}

std::string sentence(std::string clause) {
  if (clause.empty()) return clause;
  const bool is_name = clause.substr(0, clause.find(' ')).find_first_of("/_") != std::string::npos;
  if (!is_name && clause[0] >= 'a' && clause[0] <= 'z') clause[0] = static_cast<char>(clause[0] - 'a' + 'A');
  if (!clause.ends_with('.')) clause += '.';
  return clause;
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    char32_t code = 0;
    const std::size_t length = sequence_length(text, at, code);
    if (length == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else if (!is_control(code))
      out.append(text, at, length);
    else if (code == '\n' || code == '\t' || code == '\r')
      out += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    else
      out += code < 0x80 ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
                         : fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string sparkline(std::span<const double> values, std::size_t width, bool unicode) {
  static constexpr std::array<const char*, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t count = std::min(width, values.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * values.size() / count, end = (i + 1) * values.size() / count;
    means.push_back(std::accumulate(values.begin() + begin, values.begin() + end, 0.0) /
                    static_cast<double>(end - begin));
  }
  double low = INFINITY, high = -INFINITY;
  for (double m : means)
    if (std::isfinite(m)) low = std::min(low, m), high = std::max(high, m);
  std::string line;
  for (double m : means) {
    const double share = high > low ? (m - low) / (high - low) : 0.5;
    if (!std::isfinite(m) || !std::isfinite(share))
      line += 'x';
    else if (unicode)
      line += blocks[static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 7))];
    else
      line += static_cast<char>('0' + std::lround(std::clamp(share, 0.0, 1.0) * 9));
  }
  return line;
}

std::string bar(double share, std::size_t width, bool unicode) {
  static constexpr std::array<const char*, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!std::isfinite(share)) return "";
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  std::string line;
  if (!unicode) return std::string(static_cast<std::size_t>(std::lround(filled)), '#');
  auto parts = static_cast<std::size_t>(std::lround(filled * 8));
  for (; parts >= 8; parts -= 8) line += "█";
  return line + eighths[parts];
}

}  // namespace tw::results::text
