// A plan as the JSON that its hash is taken of.
#include <nlohmann/json.hpp>

#include "bench/plan/plan.hpp"
#include "bench/plan/set_points.hpp"
#include "models/catalog/floors.hpp"

namespace tw {

using Json = nlohmann::json;  // sorted keys: canonical

std::string RunPlan::canonical_json() const {
  Json json;
  json["suite"] = suite;
  json["device"] = device;
  json["seed"] = seed;
  json["recompute"] = Json::parse(config_value(recompute));
  if (eager) json["eager"] = true;
  if (!comm.empty()) json["comm"] = comm;
  // Plans keep the hash that they had before "yes" meant anything on the CPU: it is left out where the device does so
  // anyway.
  const bool is_usual = deterministic == true && is_deterministic_by_default(device);
  if (deterministic && !is_usual) json["deterministic"] = *deterministic;
  const bool to_target = !points.empty() && points.front().task;
  json["window_s"] = to_target ? Json() : Json(measurement.window_seconds);
  json["trials"] = measurement.trials;
  json["warmup_steps"] = to_target ? 0 : measurement.warmup_steps;
  json["steps"] = measurement.steps ? Json(*measurement.steps) : Json();
  if (search)
    json["search"] = {{"merit", search->merit},
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
    if (point.network.has_sequence()) entry["seq_len"] = point.seq_len;
    if (point.task) {
      entry["target"] = {{"task", point.task->name},
                         {"metric", to_string(point.task->metric)},
                         {"value", point.task->target},
                         {"floor", exact_floor(point.network, point.seq_len)},
                         {"held_out_samples", point.task->held_out_samples},
                         {"evaluation_interval", point.task->evaluation_interval},
                         {"most_steps", point.task->most_steps},
                         {"schedule",
                          {{"learning_rate", point.task->learning_rate},
                           {"final_share", point.task->final_learning_rate_share},
                           {"warmup_steps", point.task->warmup_steps},
                           {"decay_steps", point.task->decay_steps}}}};
      entry["seeds"] = point.seeds;
    }
    for (const auto& [kind, value] : point.setting)
      entry["setting"][to_string(kind)] = names_of(kind).empty() ? Json(value) : Json(set_point_text(kind, value));
    json["points"].push_back(std::move(entry));
  }
  return json.dump();
}

}  // namespace tw
