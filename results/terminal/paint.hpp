// Colour of the tables; internal to results/.
#pragma once

#include <string>

#include "results/record/names.hpp"

namespace tw::results::text {

/// Wraps text in SGR escape sequences, or leaves it alone. Pad before painting: escapes have no width.
class Paint {
 public:
  explicit Paint(bool on) : on_(on) {}
  std::string bold(const std::string& text) const { return wrap("1", text); }
  std::string dim(const std::string& text) const { return wrap("2", text); }
  std::string red(const std::string& text) const { return wrap("31", text); }
  std::string green(const std::string& text) const { return wrap("32", text); }
  std::string yellow(const std::string& text) const { return wrap("33", text); }
  std::string cyan(const std::string& text) const { return wrap("36", text); }
  std::string status(Status status, const std::string& text) const {
    return status == Status::valid ? green(text) : status == Status::unsupported ? dim(text) : red(text);
  }

 private:
  std::string wrap(const char* code, const std::string& text) const {
    return on_ && !text.empty() ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
  }
  bool on_;
};

}  // namespace tw::results::text
