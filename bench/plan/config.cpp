// The config file: a request as a user writes it down.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bench/plan/config_schema.hpp"
#include "bench/plan/config_words.hpp"
#include "bench/plan/kit.hpp"
#include "bench/plan/plan_options.hpp"
#include "bench/plan/set_points.hpp"
#include "bench/plan/shares.hpp"
#include "models/catalog/nearest.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw UsageError(fmt::format("{}: {}", path, what));
}

/// One handler for each known key, so that the list of keys and what they do cannot drift apart.
using Handlers = std::map<std::string, std::function<void(const Json&)>>;

void read_object(const std::string& path, const std::string& place, const Json& object, const Handlers& handlers) {
  if (!object.is_object()) fail(path, fmt::format("{} must be an object", place.empty() ? "the file" : place));
  std::vector<std::string> known;
  for (const auto& [key, handler] : handlers) known.push_back(key);
  for (const auto& [key, value] : object.items()) {
    const auto found = handlers.find(key);
    const std::string where = place + "/" + cut_word(key);
    if (found == handlers.end()) {
      const std::string close = nearest(key, known);
      fail(path, close.empty() ? fmt::format("unknown key {} (known: {})", where, fmt::join(known, ", "))
                               : fmt::format("unknown key {}: did you mean '{}'?", where, close));
    }
    try {
      found->second(value);
    } catch (const Json::exception&) {
      fail(path, fmt::format("{} has a value of the wrong type or size: {}", where, value.dump().substr(0, 80)));
    }
  }
}

/// 3.0 is a whole number, too (draft-07).
template <class T>
T read_integer(const Json& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    constexpr double beyond = 9223372036854775808.0;  // 2^63
    if (!(std::trunc(number) == number && std::abs(number) < beyond &&
          std::in_range<T>(static_cast<std::int64_t>(number))))
      throw Json::type_error::create(302, "integer in range wanted", &value);
    return static_cast<T>(number);
  }
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) throw Json::type_error::create(302, "integer in range wanted", &value);
  return value.get<T>();
}

/// A value or a list of them.
template <class T>
void read_list(std::vector<T>& into, const Json& value) {
  into.clear();
  const auto one = [&](const Json& item) {
    if constexpr (std::is_integral_v<T>)
      into.push_back(read_integer<T>(item));
    else
      into.push_back(item.get<T>());
  };
  if (value.is_array())
    for (const Json& item : value) one(item);
  else
    one(value);
}

/// "found", "min:max:step", a name or a number, or a list of these.
void read_set_points(KnobKind kind, const std::string& key, std::vector<std::string>& into, const Json& value) {
  into.clear();
  const auto one = [&](const Json& item) {
    into.push_back(item.is_string() ? item.get<std::string>() : fmt::format("{}", item.get<double>()));
    if (!names_of(kind).empty() || parse_shares(key, into.back()).empty()) parse_set_points(kind, key, into.back());
  };
  if (value.is_array())
    for (const Json& item : value) one(item);
  else
    one(value);
}

/// `place`: of the grid, whose axes these are.
Handlers axes_handlers(Axes& axes, const std::string& place) {
  axes.place = place;
  Handlers handlers = {{"model", [&](const Json& v) { read_list(axes.model, v); }},
                       {"layers", [&](const Json& v) { read_list(axes.layers, v); }},
                       {"precision", [&](const Json& v) { read_list(axes.precision, v); }},
                       {"micro_batch", [&](const Json& v) { read_list(axes.micro_batch, v); }},
                       {"accumulate", [&](const Json& v) { read_list(axes.accumulate, v); }},
                       {"global_batch", [&](const Json& v) { read_list(axes.global_batch, v); }},
                       {"ranks", [&](const Json& v) { read_list(axes.ranks, v); }},
                       {"seq_len", [&](const Json& v) { read_list(axes.seq_len, v); }}};
  handlers["clock"] = [&, key = place + "/clock"](const Json& v) {
    read_list(axes.clock, v);
    for (const std::string& text : axes.clock)
      if (parse_shares(key, text).empty()) throw UsageError(fmt::format("{} {}: must be a share as 60%", key, text));
  };
  for (const SettingAxis& axis : setting_axes())
    handlers[axis.key] = [&, key = place + "/" + axis.key](const Json& v) {
      read_set_points(axis.kind, key, axes.setting[axis.kind], v);
    };
  return handlers;
}

}  // namespace

std::string read_config_text(const std::string& path, const std::string& option) {
  constexpr std::size_t largest = std::size_t{1} << 20;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(path, "is a folder: give " + option + " a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be read: check the path given to " + option);
  std::string text(largest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > largest) fail(path, "is larger than 1 MiB: is it the file that " + option + " takes?");
  return text;
}

Request read_config(const std::string& path, const std::string& text) {
  // The library would silently take the last of two equal keys; what it writes and copies recurses.
  constexpr int deepest = 32;
  std::vector<std::set<std::string>> open;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest) fail(path, fmt::format("has more than {} levels", deepest));
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      fail(path, fmt::format("holds the key '{}' twice in one object", cut_word(parsed.get<std::string>())));
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch, true, true);
  } catch (const Json::parse_error& error) {
    const std::string_view before = std::string_view(text).substr(0, std::min(error.byte, text.size()));
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1);
    fail(path, fmt::format("is not JSON: look at line {}, column {}", lines + 1, column));
  } catch (const Json::exception&) {
    fail(path, "holds a number that no computer number can hold");
  }
  if (json.is_object() && json.contains(kit_key)) {
    const Kit kit = open_kit(path, text);
    Request request = read_config(path, kit.config_json);
    request.suite = kit.suite;
    request.kit = KitInfo{kit.title, kit.sha256};
    return request;
  }
  const ConfigFaults faults = config_faults(json.dump());
  if (!faults.named.empty()) fail(path, fmt::format("{}", fmt::join(faults.named, "; ")));
  Request request;
  request.suite = path;
  request.config = path;
  Axes common;
  bool trials_given = false, window_given = false;
  std::optional<double> ceiling_seconds;
  Handlers handlers = axes_handlers(common, "");
  handlers["window_s"] = [&](const Json& v) {
    request.measurement.window_seconds = v.get<double>();
    request.measurement.ceiling_seconds =
        std::clamp(request.measurement.window_seconds, 1.0, request.measurement.ceiling_seconds);
    window_given = true;
  };
  handlers["ceiling_s"] = [&](const Json& v) {
    ceiling_seconds = v.get<double>();
    if (!(*ceiling_seconds > 0 && *ceiling_seconds <= longest_window_seconds))
      fail(path,
           fmt::format("/ceiling_s {}: must be above 0 and at most {}", *ceiling_seconds, longest_window_seconds));
  };
  handlers["trials"] = [&](const Json& v) {
    request.measurement.trials = read_integer<int>(v);
    trials_given = true;
  };
  handlers["warmup_steps"] = [&](const Json& v) { request.measurement.warmup_steps = read_integer<int>(v); };
  handlers["steps"] = [&](const Json& v) { request.measurement.steps = read_integer<std::int64_t>(v); };
  handlers["seed"] = [&](const Json& v) {
    request.seed = static_cast<std::uint64_t>(check_range("/seed", read_integer<std::int64_t>(v), 0, largest_seed));
  };
  handlers["recompute"] = [&](const Json& v) {
    const std::string value = v.is_string()    ? v.get<std::string>()
                              : v.is_boolean() ? (v.get<bool>() ? "all" : "none")
                                               : v.dump();
    request.recompute = parse_recompute("/recompute", value);
  };
  handlers["repeat"] = [&](const Json& v) {
    request.repeat = static_cast<int>(check_range("/repeat", read_integer<std::int64_t>(v), 1, most_runs));
  };
  handlers["eager"] = [&](const Json& v) { request.eager = v.get<bool>(); };
  handlers["deterministic"] = [&](const Json& v) { request.deterministic = v.get<bool>(); };
  handlers["comm"] = [&](const Json& v) {
    request.comm = v.get<std::string>();
    check_communicator("/comm", request.comm);
    if (request.comm == "auto") request.comm.clear();
  };
  std::optional<std::optional<double>> target;
  handlers["target"] = [&](const Json& v) {
    target = parse_target("/target", v.is_string() ? v.get<std::string>() : fmt::format("{}", v.get<double>()));
  };
  // The same words and checks as on the command line.
  PlanOptions search;
  handlers["search"] = [&](const Json& v) { search.search = v.get<std::string>(); };
  handlers["max_slowdown"] = [&](const Json& v) {
    search.max_slowdown = v.is_string() ? v.get<std::string>() : fmt::format("{}", v.get<double>());
  };
  handlers["hour_price"] = [&](const Json& v) { search.hour_price = v.get<double>(); };
  handlers["kwh_price"] = [&](const Json& v) { search.kwh_price = v.get<double>(); };
  TargetRequest runs;
  bool seeds_given = false;
  handlers["seeds"] = [&](const Json& v) {
    std::vector<std::int64_t> values;
    read_list(values, v);
    set_seeds(runs, "/seeds", values, v.is_array());
    seeds_given = true;
  };
  std::optional<std::vector<Axes>> grids;
  handlers["grids"] = [&](const Json& v) {
    if (!v.is_array()) fail(path, "/grids must be a list of objects");
    if (v.empty()) fail(path, "/grids is empty: add a grid, or leave it out");
    grids.emplace();
    for (std::size_t i = 0; i < v.size(); ++i) {
      Axes axes;
      const std::string place = fmt::format("/grids/{}", i);
      read_object(path, place, v[i], axes_handlers(axes, place));
      grids->push_back(std::move(axes));
    }
  };
  try {
    read_object(path, "", json, handlers);
  } catch (const UsageError& error) {
    if (std::string_view(error.what()).starts_with(path + ": ")) throw;
    throw UsageError(in_config_words(path, error.what()));
  }
  if (ceiling_seconds) request.measurement.ceiling_seconds = *ceiling_seconds;
  if (target) {
    for (const char* key : {"steps", "window_s", "trials", "warmup_steps"})
      if (json.contains(key))
        fail(path, fmt::format("/{} and /target exclude each other: a run to a target ends there", key));
    runs.value = *target;
    request.target = std::move(runs);
  } else if (seeds_given) {
    fail(path, "/seeds is for runs to a target: add \"target\", or write \"seed\"");
  }
  try {
    check_plan_options(search);
    if (!search.search.empty()) request.search = search_of(search);
    request.prices = prices_of(search);
  } catch (const UsageError& error) {
    throw UsageError(in_config_words(path, error.what()));
  }
  if (request.search && request.target) fail(path, "/search and /target exclude each other: leave one out");
  if (request.measurement.steps && window_given) fail(path, "/steps and /window_s exclude each other: give one");
  if (request.measurement.steps && !trials_given) request.measurement.trials = 1;
  if (!grids) {
    request.axes.push_back(std::move(common));
  } else {
    request.axes = std::move(*grids);
    const auto inherit = [&](const char* key, auto axis) {
      const auto& from = common.*axis;
      if (from.empty()) return;
      bool used = false;
      for (Axes& grid : request.axes)
        if ((grid.*axis).empty()) {
          grid.*axis = from;
          grid.shared.insert(key);
          used = true;
        }
      if (!used)
        fail(path,
             fmt::format("/{} beside /grids is the default of grids without it, but each has its own: leave it out",
                         key));
    };
    inherit("model", &Axes::model);
    inherit("layers", &Axes::layers);
    inherit("precision", &Axes::precision);
    inherit("micro_batch", &Axes::micro_batch);
    inherit("accumulate", &Axes::accumulate);
    inherit("global_batch", &Axes::global_batch);
    inherit("seq_len", &Axes::seq_len);
    inherit("ranks", &Axes::ranks);
    for (const auto& [kind, values] : common.setting) {
      bool used = false;
      const std::string key = std::ranges::find(setting_axes(), kind, &SettingAxis::kind)->key;
      for (Axes& grid : request.axes) {
        if (!grid.setting.emplace(kind, values).second) continue;
        grid.shared.insert(key);
        used = true;
      }
      if (!used)
        fail(path,
             fmt::format("/{} beside /grids is the default of grids without it, but each has its own: leave it out",
                         key));
    }
  }
  for (const Axes& axes : request.axes)
    if (axes.model.empty())
      fail(path, grids ? "has a grid without a model: add \"model\"" : "names no model: add \"model\" or \"grids\"");
  if (!faults.others.empty()) fail(path, fmt::format("{}", fmt::join(faults.others, "; ")));
  const auto check_models = [&](const Json& names, const std::string& place) {
    for (std::size_t i = 0; i < (names.is_array() ? names.size() : 1); ++i) {
      const Json& name = names.is_array() ? names[i] : names;
      try {
        find_network(name);
      } catch (const std::invalid_argument& error) {
        fail(path, fmt::format("{}{}: {}", place, names.is_array() ? fmt::format("/{}", i) : "", error.what()));
      }
    }
  };
  if (json.contains("model")) check_models(json["model"], "/model");
  for (std::size_t i = 0; grids && i < json["grids"].size(); ++i)
    if (json["grids"][i].contains("model")) check_models(json["grids"][i]["model"], fmt::format("/grids/{}/model", i));
  return request;
}

}  // namespace tw
