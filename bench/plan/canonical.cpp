// A plan as the JSON that its hash is taken of, and its title.
#include <nlohmann/json.hpp>

#include "bench/plan/options/run_options.hpp"
#include "bench/plan/plan.hpp"
#include "models/catalog/floors.hpp"

namespace tw::bench {

using Json = nlohmann::json;  // sorted keys: canonical

std::string RunPlan::title() const {
  if (kit) return kit->title.empty() ? "kit without a title" : "kit " + kit->title;
  return suite == "command-line" ? "plan from the command line" : suite;
}

bool RunPlan::is_deterministic() const { return deterministic.value_or(is_deterministic_by_default(device)); }

std::string RunPlan::canonical_json() const {
  Json json;
  json["suite"] = suite;
  json["device"] = device;
  for (const RunOption& option : run_options()) {
    if (option.in_plan != RunOption::InPlan::yes) continue;
    if (option.in_hash == nullptr) {
      if (const OptionValue value = option.value(*this); value != OptionValue())
        json[option.key] = Json::parse(json_text(value));
    } else if (const std::optional<OptionValue> value = option.in_hash(*this, device)) {
      json[option.key] = Json::parse(json_text(*value));
    }
  }
  if (search)
    json["search"] = {{"merit", to_string(search->merit)},
                      {"max_slowdown", search->max_slowdown},
                      {"hour_price", search->hour_price},
                      {"kwh_price", search->kwh_price}};
  if (prices) json["prices"] = {{"hour_price", prices->hour_price}, {"kwh_price", prices->kwh_price}};
  if (kit) json["kit"] = kit->sha256;
  json["points"] = Json::array();
  for (const Point& point : points) {
    Json entry = {{"id", point.id},
                  {"model", point.network.name},
                  {"precision", point.precision},
                  {"ranks", point.ranks},
                  {"micro_batch", point.micro_batch},
                  {"accumulate", point.accumulate},
                  {"layers", point.layers ? Json(*point.layers) : Json()}};
    if (point.table_rows_at_most) entry["table_rows_at_most"] = *point.table_rows_at_most;
    if (point.is_automatic) {  // a size that is found or declared changes nothing here
      entry["micro_batch"] = "auto";
      if (point.fixed_global) entry["accumulate"] = nullptr, entry["global_batch"] = *point.fixed_global;
    }
    if (point.network.has_sequence()) entry["seq_len"] = point.seq_len;
    if (point.task) {
      entry["target"] = {{"task", point.task->name},
                         {"metric", models::to_string(point.task->metric)},
                         {"value", point.task->target},
                         {"floor", models::exact_floor(point.network, point.seq_len)},
                         {"held_out_samples", point.task->held_out_samples},
                         {"evaluation_interval", point.task->evaluation_interval},
                         {"most_steps", point.task->most_steps},
                         {"schedule",
                          {{"learning_rate", point.task->learning_rate},
                           {"final_share", point.task->final_learning_rate_share},
                           {"warmup_steps", point.task->warmup_steps},
                           {"decay_steps", point.task->decay_steps}}}};
      if (point.task->drawn_tokens > 0) entry["target"]["drawn_tokens"] = point.task->drawn_tokens;
      entry["seeds"] = point.seeds;
    }
    for (const auto& [kind, value] : point.setting)
      entry["setting"][power::to_string(kind)] =
          power::names_of(kind).empty() ? Json(value) : Json(power::set_point_text(kind, value));
    json["points"].push_back(std::move(entry));
  }
  return json.dump();
}

}  // namespace tw::bench
