// `trainwatt models`: what the catalog knows, by arithmetic alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/plan/chosen_network.hpp"
#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/plan/options/option_value.hpp"
#include "bench/plan/options/request.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/ledger.hpp"
#include "bench/tool/terminal.hpp"
#include "models/catalog/described.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/facts.hpp"
#include "models/catalog/fp8.hpp"
#include "models/catalog/nearest.hpp"
#include "models/catalog/sequences.hpp"
#include "models/catalog/tasks.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

using Json = nlohmann::ordered_json;
using results::text::si;

struct ModelsOptions {
  std::string model;  ///< empty: all networks of the catalog
  std::string layers_file;
  std::vector<std::string> precisions = {"float32"};
  std::optional<int> layers;
  std::optional<long long> table_rows_at_most, micro_batch, seq_len;
  long long accumulate = 1, ranks = 1;
  bool json = false;
  std::string on, against;  ///< a device of the list of vendor peaks; a report with profiles
};

/// Of one weight as stored; fp8 is computed of what is stored in bf16.
int weight_bytes(const std::string& precision) {
  return precision.starts_with("float32") || precision == "tf32" ? 4 : 2;
}

Json json_of(const models::TaskDescription& t) {
  Json json = {{"name", t.name}, {"model", t.model}, {"seq_len", t.seq_len}, {"global_batch", t.global_batch}};
  json["drawn_tokens"] = t.drawn_tokens;
  json["optimizer"] = {{"learning_rate", t.learning_rate},
                       {"warmup_steps", t.warmup_steps},
                       {"decay_steps", t.decay_steps},
                       {"final_share", t.final_learning_rate_share}};
  json["metric"] = models::to_string(t.metric), json["target"] = t.target,
  json["held_out_samples"] = t.held_out_samples;
  json["evaluation_interval"] = t.evaluation_interval, json["most_steps"] = t.most_steps;
  json["extrapolated_from"] = t.extrapolated_from.empty() ? Json() : Json(t.extrapolated_from);
  return json;
}

/// `unit`: what the positions of an attention are.
std::string shape_of(const models::Product& p, const char* unit) {
  if (p.kind == models::Product::Kind::convolution)
    return fmt::format("{} x {} x {} x {} -> {}, kernel {}, stride {}", p.batch, p.height, p.width, p.in_channels,
                       p.out_channels, p.kernel.brief(), p.stride.brief()) +
           (p.groups > 1 ? fmt::format(", {} groups", p.groups) : "");
  if (p.kind == models::Product::Kind::attention)
    return fmt::format("{} x {} {}, {} of {}{}{}", p.batch, p.seq, unit, results::text::count(p.heads, "head"),
                       p.head_dim, p.kv_heads > 0 ? fmt::format(", {} of keys and values", p.kv_heads) : "",
                       p.causal ? "" : ", not causal");
  if (p.kind == models::Product::Kind::interaction)
    return fmt::format("{} x pairs of {} vectors of {}", p.batch, p.heads, p.head_dim);
  return fmt::format("{} x {} -> {}", p.rows, p.in_features, p.out_features);
}

/// "excess loss 0.1 nats per token", "held-out error 0.05 of the images".
std::string target_of(const models::TaskDescription& t, models::DataKind kind) {
  if (t.metric == models::TaskDescription::Metric::error)
    return fmt::format("held-out error {} of the {}s", t.target, models::sample_name(kind));
  if (kind == models::DataKind::series) return fmt::format("excess squared error {}", t.target);
  return fmt::format("excess loss {} nats per {}token", t.target,
                     kind == models::DataKind::masked_tokens ? "masked " : "");
}

/// ", which have 4096 of the 128256 tokens"; empty where samples have all.
std::string drawing_of(const models::TaskDescription& t, const models::NetworkDescription& network) {
  if (t.drawn_tokens == 0) return {};
  return fmt::format(", which have {} of the {} tokens", t.drawn_tokens, network.data().vocabulary);
}

/// "gpt2-tiny to excess loss 0.1 nats per token (markov), 32 samples per step of 32 tokens"
std::string words_of(const models::TaskDescription& t, const models::NetworkDescription& network) {
  return fmt::format("{} to {} ({}), {} samples per step{}{}{}", t.model, target_of(t, network.data().kind), t.name,
                     t.global_batch, of_length(network, t.seq_len), drawing_of(t, network),
                     t.extrapolated_from.empty() ? ""
                                                 : "; not trained yet, steps extrapolated from " +
                                                       results::text::printable(t.extrapolated_from));
}

void print_models(bool json) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows = {{"model", "shape", "parameters", "FLOP/sample", "at"}};
  for (const models::NetworkDescription& network : models::catalog()) {
    const std::int64_t parameters = models::count_parameters(network);
    const double flops = models::model_flops_per_sample(network, network.default_seq_len);
    Json entry = {{"name", network.name},
                  {"family", network.shape->family()},
                  {"shape", network.shape->summary()},
                  {"sizes", json_of(network.shape->sizes())},
                  {"constants", json_of(network.shape->constants())},
                  {"parameters", parameters},
                  {"model_flops_per_sample", flops}};
    entry["seq_len"] = network.has_sequence() ? Json(network.default_seq_len) : Json();
    entry["micro_batch"] = network.default_micro_batch;
    all.push_back(std::move(entry));
    rows.push_back({network.name, network.shape->summary(), si(static_cast<double>(parameters)), si(flops),
                    network.has_sequence()
                        ? fmt::format("{} {}", network.default_seq_len, models::sequence_unit(network.data().kind))
                        : fmt::format("1 {}", models::sample_name(network.data().kind))});
  }
  for (const std::string& described : models::described_models())
    rows.push_back({described, "your own: the layers in the file of --layers-file", "-", "-", "-"});
  if (json) {
    Json whole = {{"flops_rule", models::flops_rule()},
                  {"models", std::move(all)},
                  {"described_models", models::described_models()},
                  {"tasks", Json::array()}};
    for (const models::TaskDescription& task : models::tasks()) whole["tasks"].push_back(json_of(task));
    fmt::print("{}\n", whole.dump(2));
  } else {
    print_table(rows, 2);
    const std::size_t width = terminal_style().width;
    fmt::print("\n  {}\n", results::text::wrap(models::flops_rule(), width, 2));
    for (const models::TaskDescription& t : models::tasks())
      fmt::print("\n  {}\n", results::text::wrap("--target trains " + words_of(t, models::network_of(t)), width, 2));
  }
}

struct Step {
  models::NetworkDescription network;
  std::int64_t micro_batch, seq_len;
  double samples;  ///< of the global batch
};

/// Throws UsageError.
Step step_of(const ModelsOptions& options) {
  for (const std::string& precision : options.precisions) {
    check_value("precision", one_of(precision_names()), precision);
    if (std::ranges::count(options.precisions, precision) > 1)
      throw UsageError("duplicate-value", "precision",
                       fmt::format("{} lists {} twice: remove one", key_ref("precision"), precision));
  }
  if (options.layers) check_value("layers", find_axis("layers")->type, std::int64_t{*options.layers});
  if (options.table_rows_at_most)
    check_value("table_rows_at_most", find_axis("table_rows_at_most")->type,
                static_cast<std::int64_t>(*options.table_rows_at_most));
  if (!options.layers_file.empty() && !models::is_described(options.model))
    throw UsageError("option-does-not-apply", "layers_file",
                     fmt::format("{}: {} is not described by a file: leave it out", key_ref("layers_file"),
                                 models::cut_word(options.model)));
  const models::NetworkDescription network =
      chosen_network(options.model, options.layers_file.empty() ? "" : read_layers_file(options.layers_file),
                     options.layers, options.table_rows_at_most);
  const long long micro_batch = options.micro_batch.value_or(network.default_micro_batch);
  const long long seq_len = chosen_seq_len(network, options.seq_len, network.default_seq_len);
  if (const std::string why = network.shape->why_no_micro_batch(micro_batch, seq_len); !why.empty())
    throw bad_value("micro_batch", std::to_string(micro_batch), why);
  if (const std::string why = models::why_no_fp8(network);
      !why.empty() && std::ranges::count(options.precisions, "fp8") > 0)
    throw bad_value("precision", "fp8", fmt::format("{}: {}", network.name, why));
  if (!options.on.empty() && std::ranges::count(options.precisions, "fp8") > 0)
    if (const std::string why = models::why_no_fp8_batch(network, micro_batch, seq_len); !why.empty())
      throw bad_value("precision", "fp8", fmt::format("{}: {}", network.name, why));
  constexpr long long most = 1 << 24;
  for (const auto& [key, value] : {std::pair("micro_batch", micro_batch), std::pair("accumulate", options.accumulate),
                                   std::pair("ranks", options.ranks)})
    if (value > most) throw bad_value(key, std::to_string(value), fmt::format("value too large (maximum {})", most));
  return {.network = network,
          .micro_batch = micro_batch,
          .seq_len = seq_len,
          .samples = static_cast<double>(micro_batch) * static_cast<double>(options.accumulate) *
                     static_cast<double>(options.ranks)};
}

void print_step(const ModelsOptions& options, const std::string& precision, const Step& step) {
  const auto& [network, micro_batch, seq_len, samples] = step;
  const double flops = models::model_flops_per_sample(network, seq_len);
  const std::int64_t parameters = models::count_parameters(network);
  const std::vector<models::Product> list = models::products(network, micro_batch, seq_len);
  double total = 0;
  for (const models::Product& p : list) total += p.flops();
  const char* const unit = network.has_sequence() ? models::sequence_unit(network.data().kind) : "positions";

  const std::optional<models::TaskDescription> task = options.layers ? std::nullopt : models::task_of(network);

  if (options.json) {
    Json json = {
        {"model", network.name}, {"layers", options.layers ? Json(*options.layers) : Json()}, {"precision", precision}};
    if (options.table_rows_at_most) json["table_rows_at_most"] = *options.table_rows_at_most;
    json["micro_batch"] = micro_batch, json["accumulate"] = options.accumulate, json["ranks"] = options.ranks;
    json["global_batch"] = static_cast<std::int64_t>(samples);
    json["seq_len"] = network.has_sequence() ? Json(seq_len) : Json();
    json["parameters"] = parameters, json["model_flops_per_sample"] = flops,
    json["model_flops_per_step"] = flops * samples;
    json["flops_rule"] = models::flops_rule();
    json["task"] = task ? json_of(*task) : Json();
    Json& products_json = json["products_per_micro_batch"] = Json::array();
    for (const models::Product& p : list)
      products_json.push_back({{"kind", models::to_string(p.kind)},
                               {"shape", shape_of(p, unit)},
                               {"count", p.count},
                               {"flops", p.flops()}});
    fmt::print("{}\n", json.dump(2));
    return;
  }
  const auto line = [](const char* label, const std::string& value) { fmt::print("  {:<14}{}\n", label, value); };
  fmt::print("{}{}{}\n", network.name,
             options.layers ? " cut to " + results::text::count(*options.layers, "layer") : "",
             options.table_rows_at_most ? fmt::format(", tables of at most {} rows", *options.table_rows_at_most) : "");
  line("shape", network.shape->summary());
  line("parameters", fmt::format("{} ({})", parameters, si(static_cast<double>(parameters))));
  const auto dense = static_cast<double>(models::count_dense_parameters(network));
  std::string weights = fmt::format("about {} in {}{}", results::text::bytes(dense * weight_bytes(precision)),
                                    weight_bytes(precision) == 4 ? "float32"
                                    : precision == "fp8"         ? "bf16"
                                                                 : precision,
                                    precision == "fp8" ? " (linear layers round them to fp8)" : "");
  if (weight_bytes(precision) < 4) weights += fmt::format(", {} as float32 masters", results::text::bytes(dense * 4));
  line("weights", weights);
  if (const models::Tables tables = network.shape->tables(); !tables.rows.empty())
    line("tables", fmt::format("{} rows, {} in float32, over all ranks", tables.all_rows(),
                               results::text::bytes(static_cast<double>(tables.elements()) * 4)));
  line("batch", fmt::format("micro-batch {} x {} accumulated x {} = {:.0f} sample{}{}", micro_batch, options.accumulate,
                            results::text::count(options.ranks, "rank"), samples, samples == 1 ? "" : "s",
                            of_length(network, seq_len)));
  line("model FLOPs", fmt::format("{} per sample, {} per step", si(flops, "FLOP"), si(flops * samples, "FLOP")));
  line("rule", results::text::wrap(models::flops_rule(), terminal_style().width, 16));
  if (task)
    line("task", results::text::wrap("--target trains " + words_of(*task, network), terminal_style().width, 16));
  fmt::print("\nProducts of one micro-batch, forward and backward\n");
  std::vector<std::vector<std::string>> rows = {{"kind", "shape", "times", "FLOP", "share"}};
  for (const models::Product& p : list)
    rows.push_back({models::to_string(p.kind), shape_of(p, unit), std::to_string(p.count), si(p.flops()),
                    share_of(p.flops(), total)});
  print_table(rows, 2);
}

}  // namespace

Action add_models(CLI::App& command, const Words&) {
  const auto options = std::make_shared<ModelsOptions>();
  command.add_option("MODEL", options->model, "network (default: list all)");
  command.add_option("--layers-file", options->layers_file, "JSON file with the layers of the network custom")
      ->type_name("FILE");
  command.add_option("--layers", options->layers, "keep only the first N layers");
  command.add_option("--table-rows-at-most", options->table_rows_at_most,
                     "cut the tables of a recommendation network to N rows");
  command
      .add_option("--precision", options->precisions,
                  "float32, tf32, float32_bf16, bf16, fp16 or fp8; with --on several, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--micro-batch", options->micro_batch, "samples per rank and pass")->check(number_in(1));
  command.add_option("--accumulate", options->accumulate, "micro-batches per optimizer step")
      ->check(number_in(1))
      ->capture_default_str();
  command.add_option("--seq-len", options->seq_len, "tokens per sample")->check(number_in(1));
  command.add_option("--ranks", options->ranks, "ranks")->check(number_in(1))->capture_default_str();
  command.add_option(
      "--on", options->on,
      "least time of each operator on a GPU: a name of the list of vendor peaks, or a word of one (h200)");
  command.add_option("--against", options->against, "with --on: compare with the profile in this report");
  command.add_flag("--json", options->json, "print JSON");
  return [options] {
    if (!options->against.empty() && options->on.empty())
      throw UsageError("option-needs", "--against needs --on: name the device that the report was made on");
    if (options->model.empty() && !options->layers_file.empty()) options->model = models::described_models().front();
    if (options->model.empty() && !options->on.empty())
      throw UsageError("no-model", "--on needs a network: name one of trainwatt models");
    if (options->model.empty()) {
      print_models(options->json);
      return 0;
    }
    const Step step = step_of(*options);
    if (!options->on.empty()) {
      if (options->ranks != 1)
        throw UsageError("options-conflict", "--ranks cannot be used with --on, which describes one rank");
      print_ledger({.network = step.network,
                    .layers = options->layers,
                    .table_rows_at_most = options->table_rows_at_most,
                    .precisions = options->precisions,
                    .micro_batch = step.micro_batch,
                    .seq_len = step.seq_len,
                    .accumulate = options->accumulate,
                    .device = options->on,
                    .against = options->against,
                    .json = options->json});
      return 0;
    }
    if (options->precisions.size() > 1)
      throw bad_value("precision", results::text::join(options->precisions, ","),
                      "several precisions need --on: use one");
    print_step(*options, options->precisions.front(), step);
    return 0;
  };
}

}  // namespace tw::bench::tool
