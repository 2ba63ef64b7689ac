// Everything a run says, as plain data. results/ turns records into reports and never measures.
// Units are in the names; what is missing is nullopt and has a reason beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/record/flags.hpp"

namespace tw::results {

/// The axes of a point: what is trained, in which shape.
struct Workload {
  std::string model;               ///< "gpt2-124m"
  std::optional<int> layers;       ///< --layers, where the network was cut
  std::optional<std::int64_t> table_rows_at_most{};  ///< --table-rows-at-most, where tables were cut
  /// What a sample is: "tokens", "images", "clicks", "series", …; absent in reports from before it was recorded.
  std::optional<std::string> data{};
  std::string device;              ///< "cpu", "cuda", "reference"
  std::string precision;           ///< "float32", "bf16"
  std::int64_t micro_batch = 0, accumulate = 0, global_batch = 0;  ///< samples
  std::optional<std::int64_t> seq_len;   ///< tokens of a sample, of series times; absent for images
  int ranks = 1, threads_per_rank = 1;
  std::string optimizer;           ///< "adamw", "sgd"
  std::uint64_t seed = 0;
  std::int64_t parameters = 0;
  std::string hash;                ///< SHA-256 of what makes two points comparable
  std::optional<DeviceKind> known_device() const { return named<DeviceKind>(device); }
  bool has_series() const { return data == "series"; }
  const char* positions() const { return has_series() ? "time steps" : "tokens"; }  ///< what seq_len counts
};

/// A number in the unit of its setting's key, or a name ("performance" of cpu_governor).
struct SetPoint {
  SetPoint(double value = 0) : number(value) {}
  SetPoint(std::string text) : name(std::move(text)) {}
  double number = 0;
  std::string name;                           ///< empty: the number counts
  bool operator==(const SetPoint&) const = default;
};
/// One device under a set point.
struct SettingRow {
  std::string host, domain;                     ///< "nvml:GPU-…", "cpu", "rapl:package-0"; "site": a site's, for all
  std::optional<SetPoint> accepted, observed;   ///< what reads back; the mean under load, along the trials
  std::string reason;                           ///< why not accepted or not observed; empty otherwise
};
/// A requested, accepted and observed set point. With several devices: `accepted` if all accepted the same value, and
/// `observed` is the value farthest from the request. If the state was left as found, nothing was requested or
/// accepted; `found_by` then names who is known to have asked for it, and `observed` confirms that or not.
struct Setting {
  std::optional<SetPoint> requested, accepted, observed;
  std::vector<SettingRow> devices;
  std::optional<std::string> found_by{};        ///< "slurm --cpu-freq=1500000-2400000"
  std::optional<SetPoint> found_minimum{}, found_maximum{};   ///< the range that was asked for; absent without a value
};

/// How warm a point began, by the hottest sensor of all nodes, and how long it had waited for that.
struct StartTemperature {
  double temperature_c = 0, waited_s = 0;
};

/// Joules of one scope over one trial.
struct EnergyRow {
  Scope scope = Scope::none;
  std::string domain;               ///< "rapl:package-0"
  std::string host;
  Method method = Method::none;
  std::optional<double> energy_j;   ///< absent with a reason
  std::optional<double> uncertainty_j;  ///< half width, 95 %
  std::optional<double> window_s;           ///< between the two readings; absent if there were none
  std::optional<double> update_period_s;    ///< of the sensor, measured; absent if no sensor answered
  std::optional<int> wraps;         ///< how often the counter wrapped to zero; the joules are corrected for it
  bool counted = true;              ///< added to its scope's total
  /// Why absent or left out; empty otherwise. "contained", "duplicate": another row covers the same joules;
  /// "not_visible": a GPU that no rank of the job may use. All else ("no_driver", "permission", "implausible",
  /// "wrapped": it may have wrapped unseen, "reset", "stalled", …) leaves its scope incomplete.
  std::string reason;
  std::optional<std::string>
      detail{};  ///< for people: what was wrong with this window; absent if its meter's entry says all
  std::optional<Reason> why() const { return named<Reason>(reason); }
};

/// One quantity of one device along a window, in order of time. Its name has the unit: one of Quantity, or another
/// ("sm_clock_mhz").
/// Each entry summarises consecutive samples; long series are thinned and keep their minima and maxima.
struct SeriesRow {
  std::string host, domain, quantity;
  std::vector<double> time_s, minimum, mean, maximum;   ///< time: of a stretch's first sample, from the window's start
  bool is(Quantity of) const { return quantity == to_string(of); }
};
/// How far a counter moved along a window: "throttle_thermal_s", "ecc_errors".
struct CounterRow {
  std::string host, domain, quantity;
  double change = 0;
  bool is(Quantity of) const { return quantity == to_string(of); }
};

/// A knob that did not read as it should along a window: another program has set it.
struct SettingChange {
  std::string setting, host, domain;  ///< "cpu_power_limit_w", "node1", "rapl:package-0"
  bool requested = false;             ///< by the plan, so that the trial does not count; else it was to stay as found
  double time_s = 0;                  ///< from the window's start, when it was seen first
  std::string expected;               ///< the values that differ: "limit_uw = 80000000"
  std::optional<std::string> found;   ///< likewise; absent: it could not be read back
};

/// A look at held-out samples in the middle of a run to a target.
struct Evaluation {
  std::int64_t step = 0;            ///< optimizer steps done before it
  double time_s = 0;                ///< from the first step's data to its result; the slowest rank's
  double loss = 0;                  ///< mean over the held-out samples; not a number where training has diverged
  std::optional<double> error;      ///< share of them classified wrongly; absent for tokens
};
/// What makes a trial a run to its record's target.
struct TargetRun {
  std::uint64_t seed = 0;           ///< of weights and data; no other run of the record has it
  double evaluation_s = 0;          ///< part of the window: all evaluations, the slowest rank's
  std::vector<Evaluation> evaluations;
};

/// One uninterrupted window of steps, or of a metered command.
struct Trial {
  /// Samples that a command (workload.device "command") printed; absent if it printed none, and for steps, which have
  /// steps × global batch samples.
  std::optional<double> samples;
  /// Seconds that the command printed for them; throughput then uses these instead of the window, which includes the
  /// command's start and end. Absent if it printed none.
  std::optional<double> samples_s;
  std::int64_t first_step = 0;      ///< optimizer steps done before this trial, warm-up included
  /// Time of the slowest rank for each optimizer step. Their sum differs from the window: with several ranks it may be
  /// longer (the slowest rank changes), and time between two steps is in none of them.
  std::vector<double> step_time_s;
  std::vector<double> loss;         ///< mean over the global batch, for each optimizer step
  std::vector<double> gradient_norm;
  std::map<std::string, double> phase_s;    ///< data, forward, backward, communication, optimizer: mean per step, rank
  double window_s = 0;              ///< barrier to barrier, above 0; throughput and energy are taken over it
  /// When the window began: seconds since the started_at of the launch that measured it, by a clock that is never set;
  /// the first rank's. Absent in reports from before it was recorded.
  std::optional<double> start_s;
  /// Between the steps' edges and the meters' readings, at most, both edges together; the worst node's. It is in each
  /// uncertainty_j. Absent if no meter was read.
  std::optional<double> clock_skew_s;
  /// Of the CPU time of the node, along the window; the worst node's; absent if unreadable.
  std::optional<double> steal_share;        ///< taken by the hypervisor
  std::optional<double> foreign_share;      ///< used by programs other than this job
  std::vector<EnergyRow> energy;
  std::vector<SeriesRow> series;
  std::vector<CounterRow> counters;
  /// Set points read back along the window and after it; empty if all were as they should be. Absent if nothing
  /// can be read back, of commands, and in reports from before it was looked at.
  std::optional<std::vector<SettingChange>> setting_changes{};
  std::optional<double> sampler_cpu_share;  ///< of one core, used by all metering threads; the worst node's
  std::optional<TargetRun> target_run;      ///< present where the record has a target: the window is the whole run
};

/// A figure with its interval. No interval below 3 trials: low and high are absent.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
  Statistic statistic = Statistic::none;
  int count = 0;
};

/// Steps that an independent framework needs for the same task (results/reference/convergence), and the allowed band.
struct ConvergenceReference {
  std::string source;               ///< file and framework
  int seeds = 0;
  double steps_mean = 0, steps_sd = 0;      ///< to the first evaluation at or under the target, over its seeds
  double steps_low = 0, steps_high = 0;     ///< the band for the mean over ours
};
/// The learning rate along a task: a linear warm-up to the peak, then one cosine to the final share, which holds from
/// then on.
struct Schedule {
  double learning_rate = 0, final_share = 0;
  std::int64_t warmup_steps = 0, decay_steps = 0;
};
/// What the trials of a record train to reach.
struct Target {
  std::string task;                 ///< "markov"
  TargetMetric metric = TargetMetric::excess_loss;
  double value = 0;                 ///< an evaluation at or under it reaches the target
  double floor = 0;                 ///< exact: of excess_loss the least expected loss; of error the best classifier's
  std::int64_t held_out_samples = 0, evaluation_interval = 0, most_steps = 0;
  Schedule schedule;
  std::optional<ConvergenceReference> reference;
  std::string reference_reason;     ///< why there is none; empty otherwise
  /// Nobody had trained the task when this version was made: what its number of steps was extrapolated from.
  std::optional<std::string> extrapolated_from{};
  /// Different tokens that the samples have, the first ones of the network's vocabulary; absent where they have all.
  std::optional<std::int64_t> drawn_tokens{};
};
/// What the user pays, in any currency: for an hour of all the job's nodes, and for a kWh of its joules.
struct JobPrices {
  double hour_price = 0, kwh_price = 0;
  bool operator==(const JobPrices&) const = default;
};
/// By scope; absent with a reason beside it.
using ByScope = std::map<Scope, std::optional<Estimate>>;
inline std::optional<Estimate> of_scope(const ByScope& all, Scope scope) {
  const auto found = all.find(scope);
  return found == all.end() ? std::nullopt : found->second;
}

/// What it took, over the trials: a mean of all with its interval, in which is also that a target may have been reached
/// up to an evaluation interval before it was seen. Absent all together where a run did not reach the target, since
/// that run counts as infinite.
struct ToTarget {
  std::optional<Estimate> time_s, steps, samples;
  ByScope energy_j;
  std::string reason;               ///< why absent; empty otherwise
  /// Hours x hour_price + kWh x kwh_price, in the currency of the record's prices.
  std::optional<Estimate> cost{};
  std::optional<std::vector<double>> cost_of_runs{};  ///< for each valid trial, in order; absent if the cost is
  std::optional<Scope>
      cost_scope{};  ///< whose joules are in it: the widest that includes what trains; absent without any
  std::optional<std::string> cost_reason{};  ///< why the cost is absent; absent beside it
};

/// Dynamic loss scaling (fp16).
struct LossScaling {
  double final_scale = 0;  ///< after the last trial
  std::int64_t skipped_steps =
      0;  ///< of warm-up and trials: gradients were not finite, the weights stayed as they were
};
/// How the steps were run. What they compute does not depend on it.
struct Execution {
  StepMode step_mode = StepMode::eager;
  bool recompute = false;                     ///< activations of layers were computed again in backward
  std::string communicator, route;            ///< "nccl", "NCCL 2.28.9"; "mpi", "host memory"; "self", "one rank"
  std::optional<LossScaling> loss_scaling{};  ///< absent if the precision has none
  std::optional<int> recomputed_layers{};     ///< the first so many; absent in reports from before there was a choice
  /// False: two runs may differ in the last bits. On a GPU sums could be in any order; on the CPU the library's
  /// implementations were chosen by timing. Absent likewise.
  std::optional<bool> deterministic{};
  /// In which the ranks summed gradients: "float32", "bf16". Absent likewise, and with one rank.
  std::optional<std::string> reduce_precision{};
  /// By product ("qkv"), those chosen on all ranks, each once: the forward pass, the two of backward. Absent likewise,
  /// and of devices that choose nothing.
  std::optional<std::map<std::string, std::vector<std::string>>> implementations{};
};

/// How the GPUs of a point were used along its trials, as their driver told.
struct GpuUse {
  int gpus = 0;                       ///< different ones that the point's ranks compute on
  std::optional<double> utilisation;  ///< share of the time in which a kernel ran: mean over GPUs and windows
  std::optional<double> sm_active;    ///< share of the multiprocessors' time in which they worked; likewise
  /// The most that was in use on any of them, by whatever program, the driver's own part included.
  std::optional<std::uint64_t> memory_used_bytes;
  std::optional<std::uint64_t> memory_bytes;  ///< what the one with the least memory has
  std::string reason;                         ///< why any of these is absent; empty otherwise
};
/// One size that a search for the micro-batch tried.
struct MicroBatchTrial {
  std::int64_t micro_batch = 0;
  std::optional<double> samples_per_s;  ///< of all ranks, from the fastest of a few steps; absent with a reason
  std::string reason;                   ///< "does not fit: needs …"; empty where the speed was measured
};
/// `--micro-batch auto`: the sizes that were tried before the first trial, from 1 up. The point ran at `chosen`.
struct MicroBatchSearch {
  std::vector<MicroBatchTrial> trials;
  std::int64_t chosen = 0;
  std::string stopped_by;  ///< why no larger size was taken
};

struct Summary {
  /// Steps × global batch ÷ window_s of each trial, as samples ÷ joules are; of a command its samples ÷ samples_s; of a
  /// run to a target ÷ the window less its evaluations.
  std::optional<Estimate> samples_per_s;
  std::optional<Estimate> tokens_per_s, flops_per_s;    ///< samples_per_s × tokens (none of series), × model FLOPs
  std::optional<Estimate> step_time_s;      ///< mean step of each trial
  std::optional<double> step_time_p50_s, step_time_p90_s, step_time_p99_s, step_time_min_s, step_time_max_s;
  double model_flops_per_sample = 0;
  /// With what was computed again (Execution::recompute); no rate is made of it. Absent if nothing was.
  std::optional<double> hardware_flops_per_sample;
  std::string flops_rule;           ///< names the counting rule, beside every MFU
  std::optional<double> ceiling_flops_per_s;  ///< the network's own products, timed alone, all ranks
  std::optional<double> of_ceiling; ///< achieved ÷ ceiling
  std::string of_ceiling_reason;    ///< why absent
  /// The vendors' dense peaks of the point's GPUs at its precision, added (results/devices/vendor_peaks.def). Absent
  /// if a device has none, and in reports from before there was a list.
  std::optional<double> peak_flops_per_s{};
  std::optional<double> mfu;        ///< achieved ÷ that peak
  std::string mfu_reason;           ///< why absent
  std::optional<GpuUse> gpu{};      ///< absent if no GPU trained, and in reports from before it was summed up
  ByScope energy_j;                    ///< per trial
  ByScope flops_per_w, samples_per_j;  ///< absent of runs to a target
  std::string energy_reason;  ///< why any of it is absent: "no_energy_meter: rapl: no_driver"
  /// Over all trials; of runs to a target, each of which begins anew, the means over them.
  std::optional<double> loss_first, loss_last, loss_slope_per_step;
  std::uint64_t peak_resident_bytes_per_rank = 0;   ///< the largest rank
  std::uint64_t planned_bytes_per_rank = 0;
  std::optional<std::uint64_t> peak_device_memory_bytes_per_rank;  ///< the largest rank's allocations on its device
  /// Per operator, of the time of a profiled step, or of the sum of its operators where they overlap so much that it is
  /// longer; may be empty.
  std::map<std::string, double> op_share;
  /// In that step, all calls of an operator on the rank that writes the report: by events of the device around each
  /// call, on the CPU by its clock. Absent without a profile, and in reports from before it was kept.
  std::optional<std::map<std::string, double>> op_seconds{};
  std::optional<ToTarget> to_target;        ///< of a record with a target
};

struct Verdict {
  Status status = Status::invalid;
  std::vector<FlagName> flags;      ///< what a reader should know, each once
  std::vector<std::string> reasons; ///< one line each, for whatever made it not valid
};

/// The steps before the first trial: until the step time is flat, for at least the plan's number of steps and at most
/// as long as a window.
struct WarmUp {
  std::vector<double> step_time_s;  ///< of the slowest rank, as a trial's
  double window_s = 0;              ///< from before the first step to after the last one; the slowest rank's
  std::optional<double> start_s;    ///< as a trial's
  std::vector<double> loss{};       ///< of its first steps, at most warm_up_losses, as a trial's; none in older reports
};
/// How many losses of a warm-up are kept: they are those of the same weights on every machine.
inline constexpr std::size_t warm_up_losses = 10;

struct Record {
  std::string id;                   ///< "gpt2-tiny/bf16/acc4/np2"
  std::optional<std::string> launch{};  ///< Context::launch of the one that measured it
  Workload workload;
  std::map<std::string, Setting> setting;   ///< "gpu_clock_mhz", "cpu_frequency_mhz", …
  std::optional<StartTemperature> start{};  ///< absent if no sensor answers
  std::optional<Target> target;             ///< trained until it is reached, instead of for a time
  std::optional<JobPrices> prices{};           ///< absent if none were given
  std::optional<MicroBatchSearch> micro_batch_search{};  ///< absent if the plan has a size
  /// Absent of commands and of runs to a target, and in reports from before it was recorded.
  std::optional<WarmUp> warm_up{};
  std::vector<Trial> trials;
  std::optional<Execution> execution{};  ///< absent if no step was run, and of commands
  Summary summary;
  Verdict verdict;
};

inline bool is_valid(const Record& record) { return record.verdict.status == Status::valid; }
inline bool has_flag(const Record& record, const FlagName& flag) {
  return std::ranges::find(record.verdict.flags, flag) != record.verdict.flags.end();
}
inline std::vector<std::string> flag_names(const Record& record) {
  std::vector<std::string> names;
  for (const FlagName& flag : record.verdict.flags) names.push_back(flag.name);
  return names;
}
/// The suite of a report of a metered command.
inline constexpr std::string_view command_suite = "command";
/// Whether it is a metered command's, of which nothing but time, joules and what it said of its samples is known.
inline bool is_command(const Record& record) { return record.workload.known_device() == DeviceKind::command; }
/// Whether anything was measured; what did not run has reasons in the place of figures.
inline bool has_run(const Record& record) { return !record.trials.empty(); }

// ---- context ----
struct HostInfo {
  std::string name, cpu;
  std::optional<std::string> hypervisor, container;
  int sockets = 0, cores = 0, hardware_threads = 0, numa_nodes = 0;   ///< of the machine; 0 if hwloc is not built in
  int usable_threads = 0;           ///< of them, those the cgroup lets this job use
  std::uint64_t memory_bytes = 0;
  std::string kernel, os;
  std::optional<std::string> cpu_governor;
  std::optional<double> cpu_min_mhz, cpu_max_mhz;
  std::vector<std::string> nics;    ///< "eth0 10000 Mbit/s"
  std::optional<double> steal_share_since_boot;
  std::optional<std::string> cgroup_cpu_limit;
  std::optional<std::uint64_t> cgroup_memory_limit_bytes;
  std::string topology_xml_sha256;  ///< of hwloc's export; empty if hwloc is not built in
};
struct DeviceEntry {
  int rank = 0;
  std::string host, kind, name, uuid, instruction_set;
  int threads = 0;
  std::vector<int> affinity;        ///< logical CPUs this rank may use
  std::vector<std::string> libraries;  ///< each a name, a space and a version: "oneDNN 3.7.2"
  /// of the device; absent for CPUs, and in reports from before it was recorded
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<DeviceKind> known_kind() const { return named<DeviceKind>(kind); }
};
struct MeterEntry {
  std::string host, domain, reason, detail;
  Scope scope = Scope::none;
  Method method = Method::none;
  bool available = false, counted = false;
  std::optional<double> update_period_s;
  std::optional<Reason> why() const { return named<Reason>(reason); }
};
/// Power with nothing of ours running.
struct IdleRow {
  IdleTime when = IdleTime::before;
  std::string host, domain;
  Scope scope = Scope::none;
  std::optional<double> power_w;            ///< absent with a reason
  std::optional<double> uncertainty_w;      ///< half width, 95 %, as that of an energy row
  std::optional<double> window_s;
  std::string reason;
};
struct Context {
  std::optional<std::string> launch{};      ///< names it; absent if no records are kept beside the report
  std::optional<int> run_index{};           ///< which of several runs of one plan, from 1; absent of a single one
  std::string started_at, finished_at;      ///< RFC 3339, UTC
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;   ///< the variables that matter (OMP_*, OMPI_MCA_*, SLURM_*, …)
  std::map<std::string, std::string> versions;      ///< compiler, MPI, oneDNN, CUDA, hwloc, …
  std::string launcher;                             ///< "mpirun", "srun", "unknown", "none"
  std::vector<HostInfo> hosts;
  std::vector<DeviceEntry> devices;
  std::vector<MeterEntry> meters;
  std::vector<IdleRow> idle_power;          ///< empty if no meter answers
  /// Pre-flight findings, one line each; one that begins with "interrupted" where the run was cut short.
  std::vector<std::string> warnings;
};
struct Program {
  std::string name, version, git_commit;
};
/// The frozen plan that a run is of (`trainwatt freeze`).
struct KitInfo {
  std::string title;                ///< may be empty
  std::string sha256;               ///< of the kit's content, as the kit itself has it
};
struct PlanInfo {
  std::string suite;                ///< "quick", or "command-line", or the config file's name
  std::string canonical_json;       ///< the plan as run; the report has its SHA-256
  std::optional<KitInfo> kit{};     ///< absent if the plan is of no kit
};
/// One launch of a run that took several: what it measured, where, and by which program.
struct RunPart {
  Program program;
  std::vector<std::string> points;          ///< the ids of its records
  std::vector<std::string>
      forced_over;  ///< differences to the launch before that --force-resume went over, one line each
  /// As at its end; where it was killed, as at its start, without finished_at. Absent of the last part: the report's
  /// own.
  std::optional<Context> context;
};
/// What a search over the settings of one workload came to (results/selection/search.hpp).
struct SearchOutcome {
  std::string workload;                     ///< id of its point at the found settings
  SearchMerit merit = SearchMerit::energy;
  Scope scope = Scope::none;                ///< of its joules
  double max_slowdown = 0, hour_price = 0, kwh_price = 0;
  int points = 0;                           ///< of the grid
  int measured = 0, refused = 0;            ///< of these, for the search; the others were not looked at
  std::string found, best;                  ///< ids of the two that were measured again; empty if none looked better
  std::optional<Estimate> merit_ratio;      ///< best ÷ found: below 1 is saved
  std::optional<Estimate> speed_ratio;      ///< of their samples/s
  std::string reason;                       ///< why no better setting is claimed; empty: the repetition confirmed it
};
struct Report {
  Program program;
  Context context;
  PlanInfo plan;
  std::optional<std::vector<RunPart>> parts;    ///< in order of time; absent if nothing was resumed
  std::vector<Record> records;
  std::optional<std::vector<SearchOutcome>> search;     ///< one for each workload; absent if the plan has no search
};

/// What a run leaves in its folder before its first point (run.json), so that it can be resumed.
struct RunStart {
  Program program;
  Context context;
  PlanInfo plan;
  std::vector<std::string> command;         ///< the arguments that made the plan
  std::string config;                       ///< the text of the file that --config names
  std::vector<RunPart> parts;               ///< the launches before this one
  std::vector<std::string> forced_over;     ///< of this one, as RunPart has it
};

}  // namespace tw::results
