#include "power/sources/external/series.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

namespace tw::power::external {
namespace {

std::optional<double> parse_number(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

/// `digits` digits at `at`, which moves behind them.
std::optional<int> take_digits(const std::string& text, std::size_t& at, std::size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  int number = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    if (text[at] < '0' || text[at] > '9') return std::nullopt;
    number = 10 * number + (text[at] - '0');
  }
  return number;
}
bool take_char(const std::string& text, std::size_t& at, const char* any_of) {
  if (at >= text.size() || std::string(any_of).find(text[at]) == std::string::npos) return false;
  ++at;
  return true;
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  for (std::string& field : fields) {
    const std::size_t first = field.find_first_not_of(" \t\r"), last = field.find_last_not_of(" \t\r");
    field = first == std::string::npos ? std::string() : field.substr(first, last - first + 1);
    if (field.size() >= 2 && field.front() == field.back() && (field.front() == '"' || field.front() == '\''))
      field = field.substr(1, field.size() - 2);
  }
  return fields;
}

}  // namespace

std::optional<double> parse_time(const std::string& text) {
  if (const auto seconds = parse_number(text)) return seconds;
  std::size_t at = 0;
  const auto year = take_digits(text, at, 4);
  if (!year || !take_char(text, at, "-")) return std::nullopt;
  const auto month = take_digits(text, at, 2);
  if (!month || !take_char(text, at, "-")) return std::nullopt;
  const auto day = take_digits(text, at, 2);
  if (!day || !take_char(text, at, "Tt ")) return std::nullopt;
  const auto hour = take_digits(text, at, 2);
  if (!hour || !take_char(text, at, ":")) return std::nullopt;
  const auto minute = take_digits(text, at, 2);
  if (!minute || !take_char(text, at, ":")) return std::nullopt;
  const auto second = take_digits(text, at, 2);
  if (!second) return std::nullopt;
  double fraction = 0;
  if (take_char(text, at, ".")) {
    const std::size_t begin = at;
    double weight = 0.1;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, weight /= 10)
      fraction += weight * (text[at] - '0');
    if (at == begin) return std::nullopt;
  }
  int zone_minutes = 0;
  if (!take_char(text, at, "Zz")) {
    const bool east = at < text.size() && text[at] == '+';
    if (!take_char(text, at, "+-")) return std::nullopt;  // a local time says nothing without its zone
    const auto zone_hour = take_digits(text, at, 2);
    take_char(text, at, ":");
    const auto zone_minute = take_digits(text, at, 2);
    if (!zone_hour || !zone_minute || *zone_minute > 59) return std::nullopt;
    zone_minutes = (east ? 1 : -1) * (*zone_hour * 60 + *zone_minute);
  }
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (at != text.size() || !date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const double days = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count());
  return days * 86400 + *hour * 3600 + (*minute - zone_minutes) * 60 + *second + fraction;
}

std::string Series::place() const {
  if (counted_from_ == 0) return file_.string() + ":" + std::to_string(line_number_);
  return file_.string() + ": line " + std::to_string(line_number_) + " behind byte " + std::to_string(counted_from_);
}

void Series::fail_for_good(const std::string& message) {
  failure_ = std::system_error(EINVAL, std::generic_category(), message);
  throw *failure_;
}

/// From the last point until another comes; nothing where one is open already.
void Series::open_hole(const std::string& cause) {
  constexpr std::size_t most_holes = 256;  // what comes later widens the last one
  constexpr double never = std::numeric_limits<double>::infinity();
  if (!holes_.empty() && (holes_.back().end == never || holes_.size() == most_holes))
    holes_.back().end = never;
  else
    holes_.push_back({last_time_.value_or(-never), never, cause});
}

/// "2.5 s", "3 days": a file of another day is off by days.
std::string duration(double seconds) {
  constexpr double day = 86400;
  std::array<char, 32> text{};
  if (seconds < day)
    std::snprintf(text.data(), text.size(), "%.4g s", seconds);
  else
    std::snprintf(text.data(), text.size(), "%.0f days", seconds / day);
  return text.data();
}

constexpr double most_watts = 1e7;  // of what a meter may feed: the largest racks take a tenth of a megawatt

std::optional<Point> Series::point_of(const std::vector<std::string>& fields, std::string* why) const {
  if (fields.size() <= std::max(*time_column_, *watts_column_)) {
    *why = "a line of " + std::to_string(fields.size()) + " columns";
    return std::nullopt;
  }
  const std::string &time_text = fields[*time_column_], &watts_text = fields[*watts_column_];
  const auto time = parse_time(time_text), watts = parse_number(watts_text);
  if (!time)
    *why = "\"" + time_text.substr(0, 40) + "\" is neither seconds since 1970 nor ISO 8601 with a zone (…Z, …+01:00)";
  else if (watts && *watts > most_watts)
    *why = watts_text.substr(0, 40) + " W is more than any node draws: the column must be in watts";
  else if (!watts || *watts < 0)
    *why = "\"" + watts_text.substr(0, 40) + "\" is not a power in watts";
  else if (last_time_ && *time <= *last_time_)
    *why = "time is not ascending at \"" + time_text + "\"";
  else
    return Point{*time, *watts};
  return std::nullopt;
}

void Series::take_line(std::string line) {
  ++line_number_;
  if (line_number_ == 1 && counted_from_ == 0 && line.starts_with("\xEF\xBB\xBF"))
    line.erase(0, 3);  // a byte order mark
  const std::vector<std::string> fields = split(line);
  if (fields.size() == 1 && fields[0].empty()) return;
  if (fields[0].rfind('#', 0) == 0) return;
  if (!time_column_) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string name = in_lower_case(fields[i]);
      if (name == "time" && !time_column_) time_column_ = i;
      if (name == "watts" && !watts_column_) watts_column_ = i;
    }
    if (time_column_ && watts_column_) return;
    fail_for_good(place() + ": the header must name the columns time and watts, not \"" + line.substr(0, 80) + "\"");
  }
  std::string why;
  const std::optional<Point> point = point_of(fields, &why);
  if (!point) return open_hole(place() + ": " + why);
  if (!holes_.empty()) holes_.back().end = std::min(holes_.back().end, point->time);
  last_time_ = point->time;
  points_.push_back(*point);
}

/// With the header, and with points later than those that are known.
void Series::begin_anew() {
  open_hole(file_.string() + ": the file was truncated");
  offset_ = line_number_ = counted_from_ = 0;
  in_line_ = false;
  rest_.clear();
  time_column_.reset(), watts_column_.reset();
}

void Series::refresh() {
  if (failure_) throw *failure_;
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file_, error);
  std::error_code ignored;
  if (error && std::filesystem::exists(file_, ignored) && !std::filesystem::is_regular_file(file_, ignored))
    throw std::system_error(EINVAL, std::generic_category(), file_.string() + ": not a regular file");
  if (error) throw std::system_error(error, file_.string());
  if (size < offset_) begin_anew();
  if (size == offset_) return;
  errno = 0;
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), file_.string());
  stream.seekg(static_cast<std::streamoff>(offset_));
  // A file of years may be there, and only its end is of any use.
  constexpr std::uint64_t part_bytes = 1 << 20, end_bytes = 16 << 20;
  std::string part;
  while (offset_ < size) {
    part.resize(std::min(part_bytes, size - offset_));
    stream.read(part.data(), static_cast<std::streamsize>(part.size()));
    part.resize(static_cast<std::size_t>(stream.gcount()));
    if (part.empty()) return;
    offset_ += part.size();
    take(part);
    if (!needed_from_) continue;
    forget_before(*needed_from_);
    if (!time_column_ || counted_from_ > 0 || size - offset_ <= end_bytes) continue;
    if (!points_.empty() && points_.back().time >= *needed_from_) continue;
    offset_ = counted_from_ = size - end_bytes;
    line_number_ = 0;
    rest_.clear();
    in_line_ = true;
    stream.seekg(static_cast<std::streamoff>(offset_));
  }
}

void Series::take(const std::string& part) {
  constexpr std::size_t longest_line = 1 << 20;
  std::size_t begin = 0;
  if (in_line_) {
    begin = part.find('\n');
    if (begin == std::string::npos) return fail_for_good(place() + ": has a line longer than 1 MiB: not a CSV file");
    in_line_ = false;
    ++begin;
  }
  rest_.append(part, begin, std::string::npos);
  begin = 0;
  for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
    take_line(rest_.substr(begin, end - begin));
  rest_.erase(0, begin);
  if (rest_.size() >= longest_line) fail_for_good(place() + ": has a line longer than 1 MiB: not a CSV file");
}

void Series::forget_before(double time) {
  constexpr std::size_t kept = 100;
  const auto first = std::ranges::lower_bound(points_, time, {}, &Point::time);
  std::erase_if(holes_, [time](const Hole& hole) { return hole.end < time; });
  const auto before = static_cast<std::size_t>(first - points_.begin());
  if (before > kept) points_.erase(points_.begin(), first - static_cast<std::ptrdiff_t>(kept));
}

double Series::interval_seconds() const {
  if (points_.size() < 2) return 0;
  std::vector<double> intervals;
  for (std::size_t i = 1; i < points_.size(); ++i) intervals.push_back(points_[i].time - points_[i - 1].time);
  const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
  std::nth_element(intervals.begin(), middle, intervals.end());
  return *middle;
}

double Series::joules(double from, double to) const {
  double sum = 0;
  auto right = std::ranges::upper_bound(points_, from, {}, &Point::time);
  if (right == points_.begin() && right != points_.end()) ++right;  // nothing before the first point
  for (; right != points_.end() && (right - 1)->time < to; ++right) {
    const Point &a = *(right - 1), &b = *right;
    const double begin = std::max(from, a.time), end = std::min(to, b.time);
    const double slope = (b.watts - a.watts) / (b.time - a.time);
    sum += (a.watts + slope * ((begin + end) / 2 - a.time)) * (end - begin);
  }
  return sum;
}

double Series::joules_of_window(double from, double to) const {
  const std::string name = file_.string();
  for (const Hole& hole : holes_)
    if (hole.begin < to && from < hole.end) throw WindowUnknown("lost", hole.cause);
  if (points_.size() < 2) throw WindowUnknown("not_covered", name + ": fewer than two points");
  if (from < points_.front().time)
    throw WindowUnknown("not_covered",
                        name + " begins " + duration(points_.front().time - from) + " after the window's begin");
  if (to > points_.back().time)
    throw WindowUnknown("not_covered",
                        name + " ends " + duration(to - points_.back().time) + " before the window's end");
  const double longest = 3 * interval_seconds();
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const double begin = points_[i - 1].time, end = points_[i].time;
    if (begin < to && from < end && end - begin > longest)
      throw WindowUnknown("gap", name + ": no point for " + duration(end - begin) + ", more than three times the " +
                                     duration(longest / 3) + " between two points");
  }
  return joules(from, to);
}

double Series::longest_interval_seconds(double from, double to) const {
  double longest = 0;
  for (std::size_t i = 1; i < points_.size(); ++i)
    if (points_[i - 1].time < to && from < points_[i].time)
      longest = std::max(longest, points_[i].time - points_[i - 1].time);
  return longest;
}

std::string words_of(const std::system_error& error) {
  std::string words = error.what();
  const std::string stray = ": " + error.code().message();
  if (error.code() == std::errc::invalid_argument && words.ends_with(stray)) words.resize(words.size() - stray.size());
  return words;
}

}  // namespace tw::power::external
