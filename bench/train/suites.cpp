// The built-in suites and the config file: two ways to write a Request down.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/train/plan.hpp"
#include "models/catalog/nearest.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;

/// A transformer and a CNN, both precisions, accumulation 1 and 4: 8 points of about 11 s on 2 cores.
Request quick() {
  Request request;
  request.suite = "quick";
  request.axes.push_back(Axes{.model = {"gpt2-tiny", "resnet-tiny"}, .layers = {}, .precision = {"float32", "bf16"},
                              .micro_batch = {}, .accumulate = {1, 4}, .global_batch = {}, .seq_len = {}});
  request.measurement.window_seconds = 2.0;
  request.measurement.trials = 3;
  request.measurement.ceiling_seconds = 2.0;
  return request;
}

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw UsageError(fmt::format("{}: {}", path, what)); }

/// One handler for each known key, so that the list of keys and what they do cannot drift apart.
using Handlers = std::map<std::string, std::function<void(const Json&)>>;

void read_object(const std::string& path, const std::string& place, const Json& object, const Handlers& handlers) {
  if (!object.is_object()) fail(path, fmt::format("{} must be an object", place.empty() ? "the file" : place));
  std::vector<std::string> known;
  for (const auto& [key, handler] : handlers) known.push_back(key);
  for (const auto& [key, value] : object.items()) {
    const auto found = handlers.find(key);
    const std::string where = place + "/" + key;
    if (found == handlers.end()) {
      const std::string close = nearest(key, known);
      fail(path, close.empty() ? fmt::format("unknown key {} (known: {})", where, fmt::join(known, ", "))
                               : fmt::format("unknown key {}: did you mean '{}'?", where, close));
    }
    try {
      found->second(value);
    } catch (const Json::exception&) {
      fail(path, fmt::format("{} has a value of the wrong type: {}", where, value.dump()));
    }
  }
}

/// A value or a list of them.
template <class T>
void read_list(std::vector<T>& into, const Json& value) {
  into.clear();
  const auto one = [&](const Json& item) {
    if constexpr (std::is_integral_v<T>)
      if (!item.is_number_integer()) throw Json::type_error::create(302, "integer wanted", &item);
    into.push_back(item.get<T>());
  };
  if (value.is_array())
    for (const Json& item : value) one(item);
  else
    one(value);
}

template <class T>
T read_integer(const Json& value) {
  if (!value.is_number_integer()) throw Json::type_error::create(302, "integer wanted", &value);
  return value.get<T>();
}

Handlers axes_handlers(Axes& axes) {
  return {{"model", [&](const Json& v) { read_list(axes.model, v); }},
          {"layers", [&](const Json& v) { read_list(axes.layers, v); }},
          {"precision", [&](const Json& v) { read_list(axes.precision, v); }},
          {"micro_batch", [&](const Json& v) { read_list(axes.micro_batch, v); }},
          {"accumulate", [&](const Json& v) { read_list(axes.accumulate, v); }},
          {"global_batch", [&](const Json& v) { read_list(axes.global_batch, v); }},
          {"seq_len", [&](const Json& v) { read_list(axes.seq_len, v); }}};
}

}  // namespace

const std::vector<std::string>& suite_names() {
  static const std::vector<std::string> names = {"quick"};
  return names;
}

Request suite_request(const std::string& name) {
  if (name == "quick") return quick();
  const std::string close = nearest(name, suite_names());
  throw UsageError(fmt::format("unknown --suite '{}': {}", name,
                               close.empty() ? fmt::format("known: {}", fmt::join(suite_names(), ", "))
                                             : fmt::format("did you mean '{}'?", close)));
}

Request read_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(path, "cannot be read: check the path given to --config");
  std::stringstream text;
  text << file.rdbuf();
  Json json;
  try {
    json = Json::parse(text.str());
  } catch (const Json::parse_error& error) {
    fail(path, fmt::format("is not JSON: {}", error.what()));
  }
  Request request;
  request.suite = path;
  Axes single;
  Handlers handlers = axes_handlers(single);
  handlers["window_s"] = [&](const Json& v) { request.measurement.window_seconds = v.get<double>(); };
  handlers["trials"] = [&](const Json& v) { request.measurement.trials = read_integer<int>(v); };
  handlers["warmup_steps"] = [&](const Json& v) { request.measurement.warmup_steps = read_integer<int>(v); };
  handlers["steps"] = [&](const Json& v) { request.measurement.steps = read_integer<std::int64_t>(v); };
  handlers["seed"] = [&](const Json& v) { request.seed = read_integer<std::uint64_t>(v); };
  handlers["recompute"] = [&](const Json& v) { request.recompute = v.get<bool>(); };
  handlers["grids"] = [&](const Json& v) {
    if (!v.is_array()) fail(path, "/grids must be a list of objects");
    for (std::size_t i = 0; i < v.size(); ++i) {
      Axes axes;
      read_object(path, fmt::format("/grids/{}", i), v[i], axes_handlers(axes));
      request.axes.push_back(std::move(axes));
    }
  };
  read_object(path, "", json, handlers);
  if (!single.model.empty()) request.axes.insert(request.axes.begin(), std::move(single));
  if (request.axes.empty()) fail(path, "names no model: add \"model\" or \"grids\"");
  return request;
}

}  // namespace tw
