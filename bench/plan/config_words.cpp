#include "bench/plan/config_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/plan/config_schema.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;

/// "--window" is window_s there.
std::string key_of(const std::string& option) {
  if (option == "--window") return "window_s";
  if (option == "--warmup") return "warmup_steps";
  std::string key = option.substr(2);
  std::ranges::replace(key, '-', '_');
  return key;
}

bool is_of_a_word(char c) { return (c >= 'a' && c <= 'z') || c == '-'; }

}  // namespace

std::string in_words_of(const Request& request, const Axes* at, const std::string& text) {
  const std::string before = request.config + ": ";
  if (request.config.empty() || text.starts_with(before)) return text;
  static const Json schema = Json::parse(config_schema_json);
  const Json &keys = schema.at("properties"), &axes = schema.at("definitions").at("grid").at("properties");
  std::string out;
  bool is_named = false;
  for (std::size_t i = 0; i < text.size();) {
    const bool begins = text.compare(i, 2, "--") == 0 && (i == 0 || text[i - 1] == ' ');
    if (!begins) {
      out += text[i++];
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_of_a_word(text[end])) ++end;
    const std::string option = text.substr(i, end - i), key = key_of(option);
    i = end;
    if (request.given.contains(option)) is_named = true;
    if (request.given.contains(option) || !keys.contains(key)) {
      out += option;
      continue;
    }
    const bool is_of_grid = at != nullptr && axes.contains(key) && !at->shared.contains(key);
    out += (is_of_grid ? at->place : "") + "/" + key;
    is_named = true;
  }
  const bool needs_place = !is_named && at != nullptr && !at->place.empty();
  return before + (needs_place ? at->place + ": " : "") + out;
}

std::string in_config_words(const std::string& path, const std::string& text) {
  Request request;
  request.config = path;
  return in_words_of(request, nullptr, text);
}

}  // namespace tw
