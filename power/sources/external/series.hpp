// A growing file of time and watts that a site's own meter writes.
//
// CSV with a header that names the columns `time` and `watts`, among others if need be; case and quotes do not matter.
// Time is in seconds since 1970 (UTC) or ISO 8601 with a zone: 2026-01-31T12:00:00.5Z, 2026-01-31T13:00:00+01:00. A
// time without a zone is refused. Times ascend. A last line without its end is still being written and is left for
// later. A line that says nothing, and a file that begins anew (log rotation), leave a hole from the last good point to
// the next: windows that touch it are lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::external {

/// Seconds since 1970, or nullopt if the text is neither.
std::optional<double> parse_time(const std::string& text);

struct Point {
  double time = 0;  ///< seconds since 1970
  double watts = 0;
};

class Series {
 public:
  /// What ends before `needed_from` (seconds since 1970) is not kept, and of a long file not read, but for the last
  /// points by which the interval is known.
  explicit Series(std::filesystem::path file, std::optional<double> needed_from = std::nullopt)
      : file_(std::move(file)), needed_from_(needed_from) {}
  /// Reads what was added. Throws std::system_error naming the file where it cannot be read, and for good where its
  /// header is wrong or a line is longer than a MiB.
  void refresh();
  /// Drops what ends before `time`, but for the last 100 points, by which the interval is known.
  void forget_before(double time);
  const std::vector<Point>& points() const { return points_; }
  /// Why the latest hole is there, for people; empty if there is none.
  std::string hole() const { return holes_.empty() ? std::string() : holes_.back().cause; }
  /// Median time between two points; 0 if there are fewer than two.
  double interval_seconds() const;
  /// Joules from `from` to `to` by trapezoids, the edges interpolated; where the series reaches no further, up to
  /// there.
  double joules(double from, double to) const;
  /// The same of a window that the series must cover: throws WindowUnknown "lost" where a hole touches it,
  /// "not_covered", or "gap" where two points that touch it are further apart than three intervals.
  double joules_of_window(double from, double to) const;
  /// The longest time between two points that touches the window; 0 if none does.
  double longest_interval_seconds(double from, double to) const;

 private:
  struct Hole {
    double begin, end;  // of the points beside it; infinite if there is none
    std::string cause;
  };
  void begin_anew();
  void take(const std::string& part);
  [[noreturn]] void fail_for_good(const std::string& message);
  void take_line(std::string line);
  /// The point of a line behind the header; else why there is none.
  std::optional<Point> point_of(const std::vector<std::string>& fields, std::string* why) const;
  void open_hole(const std::string& cause);
  std::string place() const;  // file and line

  std::filesystem::path file_;
  std::optional<double> needed_from_;
  std::uint64_t offset_ = 0, line_number_ = 0;
  std::uint64_t counted_from_ = 0;  // the byte behind which lines are counted
  bool in_line_ = false;            // in the middle of a line whose begin was not read
  std::string rest_;                // of a line without an end
  std::optional<std::size_t> time_column_, watts_column_;
  std::optional<double> last_time_;
  std::optional<std::system_error> failure_;  // for good
  std::vector<Point> points_;
  std::vector<Hole> holes_;
};

/// What a Series threw. A fault of the file is described in full, so "Invalid argument" is left out behind it.
std::string words_of(const std::system_error& error);

}  // namespace tw::power::external
