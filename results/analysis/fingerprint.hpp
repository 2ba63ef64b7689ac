// Whether one measurement stands in two records that are not the same to the last bit: times, power or joules that were
// multiplied, or changed a little.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// What of a record no second run repeats by chance. It keeps what it needs of the record.
class Fingerprint {
 public:
  explicit Fingerprint(const Record& record);
  /// What the two have in common, as a clause ("their step times are …"); empty: they are two measurements. They are
  /// one where
  ///  - the step times of a trial, or the power samples of a sensor, are in one ratio to those of the other, in 19 of
  ///  20
  ///    values within a hundredth of their own noise (at least 1e-6), and this noise holds 12 digits or more: the noise
  ///    is that from value to value, so that a warm-up, a drift or a short period, which two runs may share, count for
  ///    nothing, nor do rounded or equal values. Where the trials of each record are in one ratio to each other, too,
  ///    only a ratio within 0.2 % of 1 counts: such a machine repeats itself;
  ///  - or joules and phases of all trials are equal to within 2e-6, and hold 12 digits.
  std::string same_as(const Fingerprint& other) const;

 private:
  struct Line {
    std::vector<double> logs;    ///< of the values
    double noise = 0, tick = 0;  ///< relative
  };
  using Lines = std::vector<Line>;
  static Line line_of(const std::vector<double>& values);
  static void add(Lines& lines, const std::vector<double>& values);
  /// The logarithm of the ratio.
  static std::optional<double> ratio_of(const Line& a, const Line& b);
  static bool repeats_itself(const Lines& lines);
  static bool have_common(const Lines& a, const Lines& b);

  Lines steps_, all_steps_, power_;
  std::map<std::string, std::vector<double>> totals_;  ///< by meter or phase, of each trial
};

}  // namespace tw::results
