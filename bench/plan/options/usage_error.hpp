// A fault of the user's, by the key of the option that is wrong. What the key is called depends on where it was
// written: "--micro-batch" on a command line, "/grids/1/micro_batch" in a config.
#pragma once

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tw::bench {

struct Axes;
struct Request;

/// A reference to an option in the text of a UsageError: key_ref("window_s") is shown as "--window" or "/window_s".
std::string key_ref(const std::string& key);

/// Exit code 2. what() names options as on the command line until seen_in() chooses another view.
class UsageError : public std::runtime_error {
 public:
  /// Of no option of a run. `code` is stable: what() is "[code] …" (bench/terminal/error_line.hpp).
  UsageError(std::string code, const std::string& text);
  /// `text` may hold key_ref().
  UsageError(std::string code, std::string key, const std::string& text);

  const std::string& code() const { return code_; }
  const std::string& key() const { return key_; }  ///< of what is wrong; empty: of several options or none

  /// As whoever wrote the request calls its options. Of a config its file stands before the text, and a key is the JSON
  /// pointer in the grid `at`, or beside the grids where it was written there; where the text names no key, the grid's
  /// pointer stands before it. Options that go over the config keep their names. `at` null: it is of no one grid.
  UsageError seen_in(const Request& request, const Axes* at = nullptr) const;

 private:
  UsageError(const UsageError& error, const std::string& what);
  std::string text_, code_, key_;
  bool is_seen_ = false;
};

/// Of an option with a value that it does not take: "--window 0: must be above 0". A long value is cut.
UsageError bad_value(const std::string& key, const std::string& value, const std::string& why);

/// The number that a whole text is; nullopt if it is none, or more than that.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// A text with key_ref(), as a UsageError's.
std::string seen_in(const Request& request, const Axes* at, const std::string& text);

}  // namespace tw::bench
