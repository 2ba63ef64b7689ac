// How much a command says it has trained, from its output.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::bench::tool {

/// Understands two kinds of lines, which a line feed ends, or a carriage return, as behind each state of a progress
/// bar:
///   samples=51200 seconds=12.5       anywhere in a line; seconds may be missing; the last line with samples counts,
///   and is
///                                    taken for the total of the whole command. A number ends with a blank, the line,
///                                    or a comma or semicolon that no digit follows: 64,000 and 1.5k are none
///   :::MLLOG {"key": "train_samples"|"tracked_stats"|…}   samples by the key "samples_count" or by a metadata of that
///   name
///                                    (MLCommons logging), the largest value counts
/// 0 samples are refused: such a line is left out, and a warning with the code no-samples says so where it is the last
/// one, or where no other names any.
/// Lines may come in pieces; of a line longer than 64 KiB the rest is not looked at.
class OutputParser {
 public:
  void feed(std::string_view piece);
  void finish();  ///< a last line without an end
  std::optional<double> samples() const { return plain_ ? plain_ : logged_; }
  /// Of the line that samples() is from, above 0; MLLOG lines name none.
  std::optional<double> seconds() const { return plain_ ? seconds_ : std::nullopt; }
  /// For people, each once: why there are no samples, which lines were not understood, and which of several was taken.
  std::vector<std::string> warnings() const;

 private:
  void line(const std::string& text);
  void not_understood(const std::string& word);
  std::string partial_;
  std::optional<double> plain_, logged_, seconds_;
  std::string first_not_understood_;
  bool is_cut_ = false;                  // the line that is being read
  long lines_ = 0, not_understood_ = 0;  // with samples=; with what is no number behind a name of ours
  bool plain_zero_ = false;              // the last line with samples= named 0
  bool logged_zero_ = false;
  long cut_ = 0;                         // too long
  bool grows_ = true;                    // from line to line, as a running total does
};

}  // namespace tw::bench::tool
