#include "bench/plan/options/input_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "bench/plan/options/kit.hpp"
#include "bench/plan/options/usage_error.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

constexpr std::size_t largest = std::size_t{1} << 20;

struct Kind {
  InputKind kind;
  const char *what, *use;
  std::vector<const char*> keys{};    ///< an object with all of these is it; the first that fits
  std::vector<const char*> begins{};  ///< or a text that begins so
};
const std::vector<Kind>& kinds() {
  using enum InputKind;
  static const std::vector<Kind> all = {
      {bundle, "a bundle (trainwatt bundle)", "trainwatt validate, compare and html read it", {}, {"\x28\xb5\x2f\xfd"}},
      {kit,
       "a kit (trainwatt freeze)",
       "trainwatt-train --config runs it, and trainwatt validate REPORT --kit checks a report against it",
       {kit_key}},
      {other,
       "a run's run.json",
       "the commands read the report.json beside it; without one, finish the run with trainwatt-train --resume",
       {"schema_version", "command"}},
      {report, "a report", "trainwatt show prints it", {"schema_version"}},
      {report, "the records.jsonl of a run", "trainwatt show prints it", {"workload", "trials"}},
      {other, "what trainwatt compare --json wrote", "give compare the reports themselves", {"comparison_version"}},
      {other, "what trainwatt cost --json wrote", "give cost the report itself", {"currency", "sensitivity_share"}},
      {prices, "a file of prices", "give it with --prices to cost, compare, html or export", {"currency", "systems"}},
      {rules, "a file of rules", "give it with --baseline to trainwatt compare", {"rules"}},
      {other, "what trainwatt validate --json wrote", "give the report itself", {"files", "exit_code"}},
      {probe, "what trainwatt probe --json wrote", "trainwatt plan --on reads it", {"host", "meters", "knobs"}},
      {site, "a site file", "give it with --site to trainwatt-train, trainwatt plan or probe", {"knobs"}},
      {other,
       "what trainwatt plan --json wrote",
       "run trainwatt-train with the same options to get a report",
       {"suite", "points", "left_out"}},
      {other, "Google Benchmark's JSON", "use its own tools, such as compare.py", {"context", "benchmarks"}},
      {layers, "a file of layers", "give it with --layers-file, beside --model custom", {"input", "layers"}},
      {other, "a run's plan", "give the report.json beside it", {"canonical_json", "sha256"}},
      {other, "a bundle's bundle.json", "give the whole bundle", {"bundle_version"}},
      {other, "a bundle's environment.json", "give the whole bundle", {"program", "context"}},
      {other, "a JSON schema", "give a file that it describes", {"$schema", "definitions"}},
      {other, "what trainwatt models --json wrote", "give a file of your own", {"model", "products_per_micro_batch"}},
      {config, "a config", "trainwatt-train --config and trainwatt plan --config read it", {"grids"}},
      {config,
       "a config or a network's description",
       "trainwatt-train --config and trainwatt plan --config read configs",
       {"model"}},
      {other, "a bundle's power.csv", "give the whole bundle", {}, {"record,trial,host,"}},
      {power_csv,
       "the CSV file of a power meter",
       "give it with --energy-csv, --facility-csv or --it-csv",
       {},
       {"time,", "watts,"}},
      {other, "an HTML page", "open it in a browser", {}, {"<!DOCTYPE html"}},
      {key, "a key", "give it with --sign to trainwatt bundle", {}, {"-----BEGIN"}},
      {weights, "a file of weights", ""},
      {signers, "a file of allowed signers", ""}};
  return all;
}

/// The keys of the object that a text begins with, as far as it is JSON.
std::set<std::string> keys_of(std::string_view text) {
  std::set<std::string> keys;
  const auto collect = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) keys.insert(parsed.get<std::string>());
    return event != Json::parse_event_t::key;  // no value is kept
  };
  if (const std::size_t first = text.find_first_not_of(" \t\r\n"); first == text.npos || text[first] == '[')
    return keys;
  const Json nothing = Json::parse(text.begin(), text.end(), collect, false, true);
  return keys;
}

const Kind* kind_of(std::string_view text) {
  text = text.substr(0, largest);
  const std::set<std::string> keys = keys_of(text);
  const auto found = std::ranges::find_if(kinds(), [&](const Kind& kind) {
    return (!kind.keys.empty() &&
            std::ranges::all_of(kind.keys, [&](const char* key) { return keys.contains(key); })) ||
           std::ranges::any_of(kind.begins, [&](const char* begin) { return text.starts_with(begin); });
  });
  return found == kinds().end() ? nullptr : &*found;
}

/// "a config or a kit (trainwatt freeze)"
std::string names_of(std::initializer_list<InputKind> wanted) {
  std::string names;
  for (const InputKind one : wanted)
    names += (names.empty() ? "" : " or ") + std::string(std::ranges::find(kinds(), one, &Kind::kind)->what);
  return names;
}

[[noreturn]] void fail(const char* code, const std::string& option, const std::string& path, const std::string& what) {
  throw UsageError(code, fmt::format("{} {}: {}", option, path, what));
}

std::string head_of(const std::string& option, const std::string& path, std::initializer_list<InputKind> wanted) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const bool is_probe = std::ranges::count(wanted, InputKind::probe) > 0;  // "--on h200" names a device
    fail("cannot-read", option, path,
         std::generic_category().message(errno != 0 ? errno : EIO) + ": check the path" +
             (is_probe ? fmt::format("; {} takes a file with {}; the name of a device is for trainwatt models {}",
                                     option, names_of(wanted), option)
                       : ""));
  }
  std::string text(largest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::string other_kind(std::string_view text, std::initializer_list<InputKind> wanted) {
  const Kind* const kind = kind_of(text);
  if (kind == nullptr || std::ranges::find(wanted, kind->kind) != wanted.end()) return {};
  return fmt::format("{}, not {}: {}", kind->what, names_of(wanted), kind->use);
}

std::string read_input(const std::string& option, const std::string& path, std::initializer_list<InputKind> wanted) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    fail("bad-file", option, path, "a folder: give " + names_of(wanted));
  std::string text = head_of(option, path, wanted);
  if (const std::string other = other_kind(text, wanted); !other.empty()) fail("wrong-file", option, path, other);
  if (text.size() > largest) fail("bad-file", option, path, "too large (maximum 1 MiB): give " + names_of(wanted));
  return text;
}

void check_kind(const std::string& option, const std::string& path, std::initializer_list<InputKind> wanted) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return;
  if (const std::string other = other_kind(head_of(option, path, wanted), wanted); !other.empty())
    fail("wrong-file", option, path, other);
}

}  // namespace tw::bench
