#include "tests/fuzz/seeds.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "bench/plan/options/kit.hpp"
#include "bench/tool/inputs/archive.hpp"
#include "results/export/bundle.hpp"
#include "results/record/report_io.hpp"
#include "tests/fuzz/target.hpp"

namespace tw::fuzz {

using namespace bench;
using namespace results;

namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  if (text.str().empty()) throw std::runtime_error("cannot read " + path);
  return text.str();
}

/// As ustar has it: a header of 512 bytes with octal numbers and a sum, then the file in whole blocks.
std::string tar_of(const BundleFiles& files) {
  std::string out;
  for (const auto& [name, bytes] : files) {
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
    char number[16];
    const auto octal = [&](std::size_t at, int digits, std::size_t value) {
      std::snprintf(number, sizeof number, "%0*zo", digits, value);
      put(at, number);
    };
    put(0, "trainwatt-offer/" + name), octal(100, 7, 0644), octal(108, 7, 0), octal(116, 7, 0),
        octal(124, 11, bytes.size());
    octal(136, 11, 0), put(148, "        "), put(156, "0"),
        put(257, std::string("ustar\0"
                             "00",
                             8));
    std::size_t sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    octal(148, 6, sum);
    header[154] = '\0';
    out += header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

}  // namespace

std::vector<std::string> seeds(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  const auto add = [&](Kind kind, const std::string& text) { all.push_back(std::string(1, kind) + text); };
  for (const std::string& file : files) {
    const std::string text = text_of(file);
    add(report, text), add(validated, text), add(bundled, text);
    const Report report = report_from_json(text);
    std::string record_text;
    for (const Record& record : report.records) record_text += to_json_line(record) + "\n";
    add(lines, record_text);
    const std::string start_text =
        to_json(RunStart{report.program, report.context, report.plan, {"--suite", "quick"}, "", {}, {}});
    add(start, start_text);
    const BundleFiles bundle =
        make_bundle({{report_file, text}, {records_file, record_text}, {run_file, start_text}}, {});
    add(packed, tool::pack(bundle)), add(tar, tar_of(bundle));
  }
  for (const std::string& suite : suite_names()) {
    const Request request = suite_request(suite);
    add(plan, config_json(request)),
        add(plan, kit_json({"title", "contact", "notes"}, request, {"trainwatt", "1", "2"}));
  }
  add(plan,
      R"({"model": ["gpt2-tiny"], "search": "cost", "hour_price": 2, "max_slowdown": "5%", "gpu_clock": "600:900:30", "seed": 3})");
  add(plan,
      R"({"grids": [{"model": "gpt2-tiny", "global_batch": [64], "layers": 1}], "target": 0.2, "seeds": [1, 2], "ranks": [1, 2]})");
  add(plan,
      R"({"model": "custom", "layers_file": {"name": "a", "input": {"kind": "images", "size": 8, "channels": 3,
    "classes": 4}, "optimizer": {"kind": "sgd"}, "layers": [{"layer": "convolution", "name": "c", "channels": 3,
    "kernel": 3, "padding": 1}, {"layer": "residual", "with": "input"}, {"layer": "max_pool", "kernel": 2},
    {"layer": "attention", "heads": 3}, {"layer": "flatten"}, {"layer": "linear", "channels": 4}, {"layer": "loss",
    "per": "sample"}]}})");
  add(plan,
      R"({"model": "custom", "layers_file": {"name": "b", "input": {"kind": "tokens", "vocabulary": 16,
    "longest_sequence": 8}, "layers": [{"layer": "embedding", "channels": 4}, {"layer": "loss", "per": "position"}],
    "task": {"name": "t", "global_batch": 4, "target": 0.5, "held_out_samples": 8, "evaluation_interval": 2,
    "most_steps": 9, "schedule": {"learning_rate": 0.1, "final_share": 1, "warmup_steps": 0, "decay_steps": 5},
    "extrapolated_from": "x"}}, "target": "default"})");
  add(prices,
      R"({"currency": "EUR", "note": "n", "electricity_per_kwh": 0.3, "pue": 1.3, "carbon_g_per_kwh": 380, "systems": {
    "a": {"rent_per_month": 135, "electricity_included": true, "hosts": ["gpu*"], "network_storage_power_w": 50},
    "b": {"capex": 250000, "life_years": 5, "maintenance_per_year": 1, "utilisation": 0.8, "hosts": ["node1"]}}})");
  add(rules,
      R"({"note": "n", "rules": [
    {"name": "a", "kind": "variance", "figure": "throughput", "most_below": 0.05, "surely": true, "points": ["bf16"]},
    {"name": "b", "kind": "value", "figure": "efficiency", "scope": "node", "at_least": 1, "at_most": 2},
    {"name": "c", "kind": "failure", "at_most": 1, "flags": ["throttled"]}]})");
  add(weights, R"({"gpt2": 3, "resnet": 1})");
  add(node,
      R"({"host": "n", "memory": {"total_bytes": 1000}, "cpu": {"bf16": true}, "knobs": [{"kind": "gpu_clock_mhz", "domain": "d",
    "available": true, "writable": true, "reason": "", "detail": "", "minimum": 1, "maximum": 2, "values": [1, 2]}],
    "meters": [{"counted": true, "scope": "package", "maximum_power_w": 100}]})");
  return all;
}

}  // namespace tw::fuzz
