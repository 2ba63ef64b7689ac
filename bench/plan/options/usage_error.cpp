#include "bench/plan/options/usage_error.hpp"

#include <functional>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/request.hpp"
#include "bench/plan/options/run_options.hpp"
#include "bench/terminal/error_line.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

constexpr char mark = '\x1e';  // before and behind a key

std::string with_names(const std::string& text, const std::function<std::string(const std::string&)>& name_of) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = text[i] == mark ? text.find(mark, i + 1) : text.npos;
    if (end == text.npos) {
      out += text[i++];
      continue;
    }
    out += name_of(text.substr(i + 1, end - i - 1));
    i = end + 1;
  }
  return out;
}

std::string pointer_of(const Axes* at, const std::string& key) {
  const bool is_of_grid = at != nullptr && find_axis(key) != nullptr && !at->shared.contains(key);
  return (is_of_grid ? at->place : "") + "/" + key;
}

}  // namespace

std::string key_ref(const std::string& key) { return mark + key + mark; }

UsageError::UsageError(std::string code, const std::string& text)
    : std::runtime_error(with_code(code, text)), text_(text), code_(std::move(code)), is_seen_(true) {}

UsageError::UsageError(std::string code, std::string key, const std::string& text)
    : std::runtime_error(with_code(code, with_names(text, option_name))),
      text_(text),
      code_(std::move(code)),
      key_(std::move(key)) {}

UsageError::UsageError(const UsageError& error, const std::string& what)
    : std::runtime_error(what), text_(error.text_), code_(error.code_), key_(error.key_), is_seen_(true) {}

UsageError UsageError::seen_in(const Request& request, const Axes* at) const {
  if (is_seen_ || request.config.empty()) return *this;
  return {*this, with_code(code_, tw::bench::seen_in(request, at, text_))};
}

UsageError bad_value(const std::string& key, const std::string& value, const std::string& why) {
  return {"bad-value", key, key_ref(key) + " " + models::cut_word(value) + ": " + why};
}

std::string seen_in(const Request& request, const Axes* at, const std::string& text) {
  if (request.config.empty()) return with_names(text, option_name);
  bool is_named = false;
  const std::string named = with_names(text, [&](const std::string& key) {
    is_named = true;
    return request.given.contains(key) ? option_name(key) : pointer_of(at, key);
  });
  const bool needs_place = !is_named && at != nullptr && !at->place.empty();
  return request.config + ": " + (needs_place ? at->place + ": " : "") + named;
}

}  // namespace tw::bench
