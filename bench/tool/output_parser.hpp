// How much a command says it has trained, from its output.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tw::tool {

/// Understands two kinds of lines:
///   samples=51200 seconds=12.5       anywhere in a line; seconds may be missing; the last line with samples counts
///   :::MLLOG {"key": "train_samples"|"tracked_stats"|…}   samples by the key "samples_count" or by a metadata of that name
///                                    (MLCommons logging), the largest value counts
/// Lines may come in pieces; of a line longer than 64 KiB the rest is ignored.
class OutputParser {
 public:
  void feed(std::string_view piece);
  void finish();  ///< a last line without an end
  std::optional<double> samples() const { return plain_ ? plain_ : logged_; }
  /// Of the line that samples() is from, above 0; MLLOG lines name none.
  std::optional<double> seconds() const { return plain_ ? seconds_ : std::nullopt; }
  /// Why there are no samples.
  std::string why_not() const;

 private:
  void line(const std::string& text);
  std::string partial_;
  std::optional<double> plain_, logged_, seconds_;
};

}  // namespace tw::tool
