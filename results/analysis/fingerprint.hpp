// Whether one measurement stands in two records that are not the same to the last bit: times, power or joules that were
// multiplied, or changed a little; and trials of one record that are copies of each other.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// A hash of the durations of all trials and steps of a record with at least one trial, in any order of the trials. Two
/// records with equal hashes are one measurement.
std::string digest_of(const Record& record);

/// What of a record no second run repeats by chance. It keeps what it needs of the record: of 16 trials with 20 steps
/// or more, and of 16 such power series, spread evenly over the trials, the first 1024 values of each; the first 1024
/// steps of all trials as one line, so that short trials count as well; and the joules and phases of 64 trials.
class Fingerprint {
 public:
  explicit Fingerprint(const Record& record);
  /// What the two have in common, as a clause ("their step times are …"); empty: they are two measurements. They are
  /// one where
  ///  - a line of step times, or of power samples, of 20 values or more is in one ratio to one of the other's: 19 of 20
  ///    values are within 2 % of the noise (the lesser of the two lines'), but 2e-6 or two ticks of the clock or sensor
  ///    at least. The noise is the quartile range of the changes from value to value, or to the value 2 to 8 before it,
  ///    or of the changes of these, or of those in turn, over √2, √6 or √20, whichever is least. That such a line
  ///    agrees by chance must be less likely than 1e-12, by Chernoff's bound for 19 of 20 of two values less than there
  ///    are. The chance of one value is the share of pairs of one line that agree: of any two, or of two that are 1 to
  ///    8 apart, with or without their trend, whichever is most, in whichever record it is more. So few levels, a
  ///    warm-up, a drift, a short period, rounded and equal values count for little. It is also the share in which
  ///    steps, or samples of one sensor, agree between the trials of one record, in whichever record it is less; where
  ///    three of four do in each record, of all pairs of trials or of one pair of 20 values or more, both repeat
  ///    themselves, and nothing follows;
  ///  - or joules and phases of four trials or more are equal to within 2e-6, and hold 12 digits: of each value the
  ///    logarithm of how many such intervals lie between the quartiles; where any two trials of one record are within
  ///    two, that of the share of pairs that are.
  std::string same_as(const Fingerprint& other) const;

 private:
  struct Line {
    std::vector<double> logs;              ///< of the values
    double noise = 0, tick = 0, near = 0;  ///< relative
    double chance = 1;                     ///< that two of its values agree
    double chance_of_trials = 0;           ///< that values of two trials of its record agree; 1: it repeats itself
  };
  using Lines = std::vector<Line>;
  struct Total {
    std::vector<double> logs;  ///< of each trial
    double digits = 0;         ///< of all trials
  };
  static void add(Lines& lines, const std::vector<double>& values);
  static bool are_in_one_ratio(const Line& a, const Line& b);
  static bool have_common(const Lines& a, const Lines& b);
  void add_steps(const std::vector<Trial>& trials);
  void add_power(const std::vector<Trial>& trials);
  void add_totals(const std::vector<Trial>& trials);

  Lines steps_, all_steps_, power_;
  std::map<std::string, Total> totals_;  ///< by meter or phase
};

/// The largest power of ten, from 1 to 1e-12, that all values are multiples of: the tick of the clock or sensor.
double tick_of(const std::vector<double>& values);

/// Trials of one record whose steps took the same to the last digit, by place, the earlier one first, where no clock
/// gives that twice: the steps that differ from all others of their trial hold 12 digits or more between them that
/// might have been others. Of one step that is the logarithm of how many of its clock's ticks lie between the quartiles
/// of the trial's steps, so that equal, rounded and few steps are never taken for copies. So are trials whose four
/// phases or more are the same shares of a step to nine digits, whatever all of it was multiplied with, and two windows
/// of one training with the same first four losses or gradient norms.
std::vector<std::pair<std::size_t, std::size_t>> copied_trials(const Record& record);

}  // namespace tw::results
