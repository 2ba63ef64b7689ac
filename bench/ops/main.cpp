// trainwatt-ops: every operator at the shapes of the networks, on Google Benchmark. All of its options work
// (--benchmark_filter, --benchmark_out, --benchmark_repetitions, …).
#include <benchmark/benchmark.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>

#include "bench/inventory/choose_device.hpp"
#include "bench/ops/case.hpp"
#include "bench/terminal/describe.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/terminal/terminal.hpp"
#include "models/catalog/nearest.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "results/record/version.hpp"

namespace tw::bench::ops {
using namespace models;
namespace {

void say_error(const std::string& text) { say_on_stderr(error_line("trainwatt-ops", text)); }

struct Options {
  std::vector<std::string> networks = {"gpt2-124m", "resnet-50"};
  std::vector<std::string> precisions = {"float32", "tf32", "float32_bf16", "bf16", "fp16", "fp8"};
  std::string device = "auto";
  std::int64_t micro_batch = 0, seq_len = 0;  // 0: the network's default
  int threads = 0;
  std::string deterministic = "yes";
};

/// The case in use. Google Benchmark calls a function several times to find its number of iterations; plans and
/// operands are made at the first call and freed when the next benchmark starts.
class Stage {
 public:
  explicit Stage(Device& device) : device_(device) {}

  void run(benchmark::State& state, const std::string& name, const std::function<void(Case&)>& make) try {
    if (name != name_) {
      case_.reset();
      name_ = name;
      case_ = std::make_unique<Case>(device_);
      make(*case_);
      time_runs(1);  // warm
      const double seconds = device_.is_asynchronous() ? time_runs(1) : shortest_timed_seconds;
      batch_ = static_cast<int>(std::ceil(std::clamp(shortest_timed_seconds / seconds, 1.0, most_enqueued)));
    }
    while (state.KeepRunningBatch(batch_)) time_runs(batch_);
    using benchmark::Counter;
    if (case_->flops > 0) state.counters["FLOP/s"] = Counter(case_->flops, Counter::kIsIterationInvariantRate);
    if (case_->bytes > 0) state.counters["bytes/s"] = Counter(case_->bytes, Counter::kIsIterationInvariantRate);
    state.SetLabel(case_->label);
  } catch (const std::exception& error) {
    name_.clear();
    case_.reset();
    state.SkipWithError(error.what());
  }

 private:
  // On an asynchronous device short operators run one behind the other, so that what starting and awaiting one costs
  // the host is not counted as the operator's.
  static constexpr double shortest_timed_seconds = 1e-3, most_enqueued = 100;

  double time_runs(int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) case_->run();
    case_->stream().synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Device& device_;
  int batch_ = 1;
  std::string name_;
  std::unique_ptr<Case> case_;
};

Precision parse(const std::string& name) {
  if (const std::optional<Precision> precision = parse_precision(name)) return *precision;
  throw Error(Failure::usage, with_code("unknown-name", "unknown --precision '" + name +
                                                            "': known: float32, tf32, float32_bf16, bf16, fp16, fp8"));
}

std::string why_unsupported(const Device& device, const NetworkDescription& network, Precision precision) {
  if (const std::string why = device.why_unsupported(precision); !why.empty()) return why;
  return math(precision) == Math::fp8 ? why_no_fp8(network) : std::string();
}

NetworkDescription find_model(const std::string& name) try {
  return find_network(name);
} catch (const std::invalid_argument& error) {
  throw Error(Failure::usage, with_code("unknown-name", error.what()));
}

/// What was left out because the device, or the network, lacks a precision.
struct LeftOut {
  std::vector<std::string> reasons;  ///< one line for each network and precision
  bool is_all = true;                ///< of every network every precision
};

/// `names`: those of all benchmarks, as --benchmark_filter sees them.
LeftOut register_all(const Options& options, Device& device, Stage& stage, std::vector<std::string>& names) {
  LeftOut left_out;
  const auto add = [&](const std::string& name, const std::function<void(Case&)>& make) {
    names.push_back(name + "/real_time");
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&stage, name, make](benchmark::State& state) { stage.run(state, name, make); })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  if (device.info().kind != DeviceKind::cuda) add("stream_triad", make_triad);
  for (const std::string& model : options.networks) {
    const NetworkDescription network = find_model(model);
    const std::int64_t batch = options.micro_batch > 0 ? options.micro_batch : network.default_micro_batch;
    const std::int64_t seq = options.seq_len > 0 ? options.seq_len : network.default_seq_len;
    std::vector<Entry> entries = product_entries(network, batch, seq);
    for (Entry& entry : elementwise_entries(network, batch, seq)) entries.push_back(std::move(entry));
    if (device.info().kind == DeviceKind::cpu)
      for (Entry& entry : library_entries(network, batch, seq)) entries.push_back(std::move(entry));
    std::vector<Precision> offered;
    for (const std::string& name : options.precisions) {
      const Precision precision = parse(name);
      const std::string why = why_unsupported(device, network, precision);
      if (why.empty()) {
        offered.push_back(precision);
        left_out.is_all = false;
      } else {  // once, and not for each operator
        left_out.reasons.push_back(fmt::format("{} in {}: {}", network.name, name, why));
        add("unsupported/" + network.name + "/" + name,
            [why](Case&) { throw Error(Failure::unsupported, "unsupported: " + why); });
      }
    }
    for (const Entry& entry : entries) {
      for (const Precision precision : offered) {
        if (entry.repeats(precision)) continue;
        add(entry.name + "/" + std::string(to_string(precision)), [=](Case& c) {
          if (!c.device().supports(entry.op, storage(precision)))
            throw Error(Failure::unsupported,
                        std::string(to_string(precision)) + ": no " + to_string(entry.op) + " on this device");
          entry.make(c, precision);
        });
      }
    }
  }
  return left_out;
}

/// Google Benchmark would end the program with 1.
void check_output_file(const std::vector<std::string>& arguments) {
  const std::string option = "--benchmark_out=";
  for (const std::string& argument : arguments) {
    if (!argument.starts_with(option) || argument == option) continue;
    const std::string file = argument.substr(option.size());
    errno = 0;
    if (!std::ofstream(file, std::ios::app))
      throw Error(Failure::environment,
                  with_code("not-written", fmt::format("{}: cannot be written: {}: choose another file with {}", file,
                                                       std::strerror(errno != 0 ? errno : EIO), option)));
  }
}

/// Whether --benchmark_filter matches one of the names. Google Benchmark would say without a code that none does.
bool is_any_chosen(const std::vector<std::string>& names) {
  std::string filter = benchmark::GetBenchmarkFilter();
  if (filter.empty() || filter == "all") return true;
  const bool is_excluding = filter.starts_with('-');
  if (is_excluding) filter.erase(0, 1);
  try {
    const std::regex pattern(filter, std::regex::extended);
    return std::ranges::any_of(
        names, [&](const std::string& name) { return std::regex_search(name, pattern) != is_excluding; });
  } catch (const std::regex_error&) {
    throw Error(Failure::usage,
                with_code("bad-value", fmt::format("--benchmark_filter {}: no regular expression (POSIX "
                                                   "extended)",
                                                   cut_word(filter))));
  }
}

/// For completion by a shell.
KnownWords known_words() {
  KnownWords words = {
      {"--precision", Options().precisions}, {"--deterministic", {"yes", "no"}}, {"--device", {"auto"}}};
  for (const NetworkDescription& network : catalog()) words["--model"].push_back(network.name);
  for (const Backend& backend : backends()) words["--device"].emplace_back(backend.name);
  return words;
}

/// Refuses words without a value, as of a shell variable that is not set, and times that Google Benchmark 1.8 and later
/// would look at only when it runs: it then aborts.
void check_values(int argc, const char* const* argv) {
  static const std::regex time("--benchmark_min_time=(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?s?|[1-9][0-9]*x)");
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i], before = argv[i - 1];
    if (word.starts_with("--benchmark_min_time=") && !word.ends_with('=') && !std::regex_match(argv[i], time))
      throw Error(Failure::usage,
                  with_code("bad-value", fmt::format("{}: must be seconds, such as 0.5; Google Benchmark 1.8 and later "
                                                     "also take iterations, such as 10x",
                                                     cut_word(argv[i]))));
    if (word.starts_with("--") && word.ends_with('='))
      throw Error(Failure::usage,
                  with_code("bad-value", fmt::format("{} is empty: give a value", word.substr(0, word.size() - 1))));
    if (word.empty())
      throw Error(Failure::usage,
                  with_code("bad-value", fmt::format("{} is empty: give a value",
                                                     before.starts_with('-') ? before : "an argument")));
  }
}

int say_nothing_ran(const LeftOut& left_out) {
  const std::string reasons = fmt::format("{}", fmt::join(left_out.reasons, "; "));
  if (left_out.is_all)
    say_error(with_code("unsupported", "no network has a precision that this device supports: " + reasons));
  else
    say_error(with_code("no-match",
                        fmt::format("--benchmark_filter matches no benchmark; --benchmark_list_tests lists them{}",
                                    reasons.empty() ? "" : "; not supported here: " + reasons)));
  return left_out.is_all ? 3 : 2;
}

void add_context(const Device& device) {
  const DeviceInfo info = device.info();
  benchmark::AddCustomContext("device", std::string(to_string(info.kind)) + ": " + info.name);
  benchmark::AddCustomContext("device_threads", std::to_string(info.threads));
  if (!info.instruction_set.empty()) benchmark::AddCustomContext("instruction_set", info.instruction_set);
  if (!info.libraries.empty())
    benchmark::AddCustomContext("libraries", fmt::format("{}", fmt::join(info.libraries, ", ")));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Micro-benchmarks of every operator at the shapes of the networks.\n"
      "All --benchmark_* options of Google Benchmark work: --benchmark_filter=REGEX, --benchmark_list_tests,\n"
      "--benchmark_out=FILE --benchmark_out_format=json, --benchmark_repetitions=N, --benchmark_min_time=SECONDS, …",
      "trainwatt-ops");
  const results::Program program = results::program_info("trainwatt-ops");
  app.set_version_flag("--version", program.name + " " + program.version + " (" + program.git_commit + ")");
  app.add_option("--model", options.networks, "networks (default gpt2-124m,resnet-50)")->delimiter(',');
  app.add_option(
         "--precision", options.precisions,
         "float32, tf32, float32_bf16, bf16, fp16, fp8 (default: all); what\nthe device lacks is listed with the "
         "reason")
      ->delimiter(',');
  app.add_option("--micro-batch", options.micro_batch, "samples (default: the network's)")->check(number_in(1));
  app.add_option("--seq-len", options.seq_len, "tokens per sample (default: the network's)")->check(number_in(1));
  app.add_option("--device", options.device, "auto (default), cpu, cuda, reference");
  app.add_option("--threads", options.threads, "CPU threads (default: all that this process may use)")
      ->check(number_in(1));
  app.add_option("--deterministic", options.deterministic, "yes (default); no: sums on a GPU may run in any order")
      ->check([](const std::string& word) {
        return word == "yes" || word == "no" ? "" : value_fault(word, "must be yes or no");
      });
  app.get_formatter()->column_width(30);
  app.footer(
      "Exit codes: 0 success; 2 usage, or the filter matches nothing; 3 environment or permission, or the device has\n"
      "none of the precisions.");
  std::string format;
  add_describe_option(app, format);
  app.allow_extras();
  read_decimal(app);
  check_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_within_terminal(app.help()).c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    say_error(parse_fault(error) + "; see trainwatt-ops --help");
    return 2;
  }
  if (!format.empty()) {
    std::fputs(describe(app, format, program.version, known_words()).c_str(), stdout);
    return 0;
  }
  std::vector<std::string> rest = {argv[0]};
  for (const std::string& argument : app.remaining()) rest.push_back(argument);
  std::vector<char*> rest_argv;
  for (std::string& argument : rest) rest_argv.push_back(argument.data());
  int rest_argc = static_cast<int>(rest_argv.size());
  std::ostringstream said;  // of a value that it cannot read, without a code
  std::streambuf* const stderr_buffer = std::cerr.rdbuf(said.rdbuf());
  benchmark::Initialize(&rest_argc, rest_argv.data());
  std::cerr.rdbuf(stderr_buffer);
  if (rest_argc > 1 && !said.view().empty()) {
    say_error(with_code("bad-value", fmt::format("{}: not a value that this option takes", cut_word(rest_argv[1]))));
    return 2;
  }
  if (rest_argc > 1) {
    const bool is_option = rest_argv[1][0] == '-';
    say_error(with_code("unknown-option",
                        fmt::format("unknown {} {}: see trainwatt-ops --help; options of Google Benchmark have the "
                                    "form --benchmark_NAME=VALUE",
                                    is_option ? "option" : "argument", cut_word(rest_argv[1]))));
    return 2;
  }
  check_output_file(rest);

  DeviceOptions device_options;
  device_options.threads = options.threads;
  device_options.deterministic = options.deterministic == "yes";
  const std::unique_ptr<Device> device = create_device(choose_device(options.device).name, device_options);
  Stage stage(*device);
  std::vector<std::string> names;
  const LeftOut left_out = register_all(options, *device, stage, names);
  if (!is_any_chosen(names)) return say_nothing_ran(left_out);
  add_context(*device);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace tw::bench::ops

int main(int argc, char** argv) {
  tw::bench::write_stderr_by_lines();
  try {
    const int code = tw::bench::ops::run(argc, argv);
    const std::string fault = tw::bench::stdout_fault();
    if (fault.empty()) return code;
    tw::bench::say_on_stderr(tw::bench::error_line("trainwatt-ops", fault));
    return 3;
  } catch (const std::exception& error) {
    const std::string text = tw::bench::coded(error);
    tw::bench::say_on_stderr(tw::bench::error_line("trainwatt-ops", text));
    const auto* known = dynamic_cast<const tw::models::Error*>(&error);
    return known != nullptr && known->failure() == tw::models::Failure::usage ? 2 : 3;
  }
}
