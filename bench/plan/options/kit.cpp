#include "bench/plan/options/kit.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/plan/options/run_options.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;  // sorted keys: one text for one content
using OrderedJson = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path, const std::string& what, const char* code = "bad-kit") {
  throw UsageError(code, fmt::format("{}: {}", path, what));
}

OrderedJson grid_json(const Axes& axes) {
  OrderedJson json = OrderedJson::object();
  for (const Axis& axis : axes_list())
    with_values(axis, axes, [&](const auto& values) {
      if (!values.empty()) json[axis.key] = values;
      if constexpr (std::is_integral_v<typename std::decay_t<decltype(values)>::value_type>)
        for (std::size_t i = 0; i < values.size(); ++i)
          if (values[i] == 0 && !axis.type.zero_word.empty()) json[axis.key][i] = written(axis.type, 0);
    });
  return json;
}

OrderedJson request_json(const Request& request) {
  OrderedJson json = OrderedJson::object();
  for (const Axes& axes : request.axes) json["grids"].push_back(grid_json(axes));
  for (const RunOption& option : run_options())
    if (const OptionValue value = option.value(request); value != OptionValue())
      json[option.key] = OrderedJson::parse(json_text(value));
  return json;
}

std::string hash_of(Json kit) {
  kit.erase("sha256");
  return results::sha256_hex(kit.dump());
}

/// A command line's words need not be UTF-8, JSON's strings do.
std::string checked_text(const char* what, const std::string& text) {
  try {
    return Json(text).dump(), text;
  } catch (const Json::exception&) {
    throw UsageError("bad-value", fmt::format("{}: not UTF-8", what));
  }
}

}  // namespace

std::string config_json(const Request& request) { return request_json(request).dump(2) + "\n"; }

std::string kit_json(const KitText& text, const Request& request, const results::Program& program) {
  OrderedJson kit;
  kit[kit_key] = kit_version;
  kit["title"] = checked_text("--title", text.title);
  kit["contact"] = checked_text("--contact", text.contact);
  kit["notes"] = checked_text("--notes", text.notes);
  kit["program"] = {{"name", program.name}, {"version", program.version}, {"git_commit", program.git_commit}};
  kit["suite"] = checked_text("--config", std::filesystem::path(request.suite).filename().string());
  kit["config"] = request_json(request);
  kit["sha256"] = hash_of(Json::parse(kit.dump()));
  return kit.dump(2) + "\n";
}

Kit open_kit(const std::string& path, const std::string& text) {
  if (const std::string fault = results::json_fault(text); !fault.empty())
    fail(path, "not JSON: " + fault + "; give a kit that trainwatt freeze has written");
  const Json json = Json::parse(text);
  if (const std::string why = results::version_obstacle(
          json.is_object() && json.contains(kit_key) && json[kit_key].is_string() ? json[kit_key].get<std::string>()
                                                                                  : "",
          kit_version);
      !why.empty())
    fail(path, fmt::format("/{}: {}", kit_key, why));
  Kit kit;
  try {
    kit.sha256 = json.at("sha256").get<std::string>();
    if (const std::string hash = hash_of(json); kit.sha256 != hash)
      fail(
          path,
          fmt::format(
              "the kit was changed: its content has the SHA-256 {}, but it states {:.64}: get a new copy from its "
              "author",
              hash, results::text::printable(kit.sha256)),
          "kit-changed");
    kit.title = json.at("title").get<std::string>(), kit.contact = json.at("contact").get<std::string>();
    kit.notes = json.at("notes").get<std::string>(), kit.suite = json.at("suite").get<std::string>();
    const Json& program = json.at("program");
    kit.program = {program.at("name").get<std::string>(), program.at("version").get<std::string>(),
                   program.at("git_commit").get<std::string>()};
    const Json& config = json.at("config");
    if (!config.is_object() || config.contains(kit_key) || kit.suite.empty())
      fail(path, "the kit has no plan: /config is not a config, or /suite is empty");
    kit.config_json = config.dump();
  } catch (const Json::exception&) {
    fail(path, "damaged kit: a key is missing or has the wrong type: get a new copy from its author");
  }
  return kit;
}

}  // namespace tw::bench
