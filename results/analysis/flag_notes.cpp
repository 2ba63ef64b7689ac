#include "results/analysis/flag_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "results/analysis/run_rules.hpp"

namespace tw {
namespace {

struct FlagNote {
  std::string flag, text;
};

std::string short_words(const char* what_is) {
  return fmt::format("{} {} s or than {} update periods of its meter: good for a look, not for publication. ", what_is,
                     published_window_s, published_window_periods);
}

/// What a flag means, and what to do.
std::vector<FlagNote> make_flag_notes() {
  return {
      {"short",
       short_words("a window is shorter than") +
           fmt::format("Give --window {} or more; a run to a target takes as long as it takes.", published_window_s)},
      {"few_trials",
       fmt::format("fewer than {0} trials: the figures have no interval and two reports cannot be told apart. Give "
                   "--trials {1}, to a target --seeds {1}.",
                   least_trials, least_replicates)},
      {"no_energy_meter",
       "no energy meter answered, so that joules are absent (never 0); the speed is not affected. `trainwatt "
       "show` says why for each meter."},
      {"implausible",
       "a meter gave more than 1.5 x the power its part can draw: all joules of its scope are absent; the speed is not "
       "affected."},
      {"reset",
       "a counter of energy was set to another value within a window: its joules are absent; the speed is not "
       "affected. Measure again; if it happens again, do not use this counter."},
      {"stalled",
       "a counter of energy was not updated for more than three times as long as ever before the window: its joules "
       "are absent; the speed is not affected. Measure again; if it happens again, do not use this counter."},
      {"wrapped",
       "a counter of energy started again at zero: its joules allow for it; or it was left unread for so long that it "
       "may "
       "have done so unseen: its joules are absent."},
      {"busy_host", "other programs used more than 5 % of the node's CPU time: repeat when it is quiet."},
      {"steal", "the hypervisor took more than 2 % of the CPU time. Repeat on a quiet host."},
      {"narrow_affinity",
       "a rank may use fewer CPUs than threads were asked for, or than its share of the node's cores. Launch with "
       "--bind-to none, or --map-by slot:PE=N."},
      {"oversubscribed", "there are more threads than CPUs: ranks wait for each other. Use fewer ranks or threads."},
      {"unequal_hosts",
       "the job's hosts differ in CPU, cores, governor or memory, as its warnings say: the slowest sets the pace. Run "
       "on "
       "equal "
       "nodes."},
      {"governor",
       "a host runs the CPU governor powersave or conservative: clocks may stay low. --cpu-governor performance makes "
       "runs "
       "comparable."},
      {"low_disk", "little disk space was left for the run's folder when it began; the figures are not affected."},
      {"debug_build",
       "the program was built without optimisation: its timings mean nothing. Configure with "
       "-DCMAKE_BUILD_TYPE=Release."},
      {"shared_gpu",
       "several ranks compute on one GPU and wait for each other: not for publication. Start one rank for each GPU."},
      {"steps_given", "--steps fixed the number of steps in place of a timed window. Leave it out, or give --window."},
      {"not_steady",
       "the step time was still changing when the warm-up had taken as long as a trial, or too few steps fitted into "
       "it "
       "to "
       "tell. Give a longer --window, or look for what changes."},
      {"outlier",
       "a trial does not belong to the others: `trainwatt show` says which and by how much. It is in the mean all the "
       "same. Look "
       "for what ran beside it, and repeat."},
      {"drift",
       "the step times rose or fell over the trials, or samples/J did, by more than 2 %: the interval is of a machine "
       "that was "
       "still changing. Look at temperature and neighbours, and give a longer warm-up (--warmup) and --window."},
      {"loss_not_falling", "the loss did not fall over 20 or more steps: is it learning at all?"},
      {"loss_not_finite", "a loss is not a number: the point does not count."},
      {"throttled",
       "heat or a power brake held a device back: `trainwatt show` says which and how long. Look at cooling."},
      {"shared_device",
       "a GPU is cut into instances: its joules, and its clocks and limits, are those of all of them. Of use where "
       "the job has the whole GPU."},
      {"power_capped", "a power limit held a clock back: expected where limits are swept."},
      {"device_errors", "an ECC or Xid counter moved along a window: look at the device before you trust it."},
      {"not_applied", "a set point did not take effect: the figures are of another state than the one asked for."},
      {"setting_changed",
       "a limit, clock or governor that was to stay as found was changed along a window: the figures are of more than one "
       "state. The trial's `setting_changes` in the report say which, when and to what. Find who sets it, and repeat."},
      {"not_observed", "a set point was accepted, and nothing here can show whether it held under load."},
      {"unstable", "the losses leave those of the same workload at the found setting by more than 2 %."},
      {"target_missed",
       "a run did not reach the target, which counts as infinite: no mean of time, steps or joules exists."},
      {"off_reference",
       "the runs needed more steps than the same task does in float32 in another framework, or unreasonably few: a "
       "speed "
       "at "
       "which training does not work as it should is none."},
      {"no_reference",
       "no independent framework has trained this task in this batch: whether the steps are as many as they should be "
       "is "
       "not known."},
      {"other_hosts",
       "measured after the run was resumed on nodes of other names: parts of one kind differ in what they draw. "
       "Compare "
       "no joules across the parts."},
      {"gpu_unused", "a GPU is visible, but the CPU was asked for (--device cpu): these are its figures."},
      {"ceiling_once",
       "the network's own products could be timed before the trials only: of_ceiling rests on one timing instead of "
       "the "
       "better of two."},
      {"steps_disagree",
       "the step times add up to more than 5 % more or less than their window: ranks take turns to be slow, or time "
       "passes between steps. Throughput is that of the window."},
      {"above_ceiling", "faster than its own products timed alone: that ceiling was disturbed. Repeat."}};
}

/// Of a metered command, which has none of the options that the others name.
std::vector<FlagNote> make_command_notes() {
  return {
      {"short", short_words("the command ran for less than") + "Meter one that runs for longer."},
      {"few_trials",
       "one run of a command is one trial: the figures have no interval and two reports cannot be told apart."},
      {"narrow_affinity", "the command may use fewer CPUs than the node has for it."},
      {"governor", "the host runs the CPU governor powersave or conservative: clocks may stay low."},
      {"low_disk", "little disk space was left for the report's folder when it began; the figures are not affected."},
  };
}

std::string_view find_note(std::span<const FlagNote> notes, const std::string& flag) {
  const auto found = std::ranges::find(notes, flag, &FlagNote::flag);
  return found == notes.end() ? std::string_view() : std::string_view(found->text);
}

bool has(const Record& record, const std::string& flag) {
  return std::ranges::find(record.verdict.flags, flag) != record.verdict.flags.end();
}

/// "too_short: rapl:package-0": of meters that were there and had no joules for a window, each once.
std::vector<std::string> silent_meters(const Record& record) {
  constexpr std::string_view of_window[] = {"too_short", "not_updated", "lost",  "gap",
                                            "wrapped",   "not_covered", "reset", "stalled"};
  std::vector<std::string> all;
  for (const Trial& trial : record.trials)
    for (const EnergyRow& row : trial.energy) {
      if (row.energy_j || row.method.empty() || std::ranges::find(of_window, row.reason) == std::end(of_window))
        continue;
      if (std::string one = row.reason + ": " + row.domain; std::ranges::find(all, one) == all.end())
        all.push_back(std::move(one));
    }
  return all;
}

}  // namespace

std::string note_of(const std::string& flag, const std::vector<Record>& records) {
  std::vector<const Record*> flagged;
  for (const Record& record : records)
    if (has(record, flag)) flagged.push_back(&record);
  if (flag == "no_energy_meter" && !flagged.empty()) {
    std::string meters;
    std::size_t with_meters = 0;
    for (const Record* record : flagged) {
      const std::vector<std::string> silent = silent_meters(*record);
      with_meters += !silent.empty();
      for (const std::string& one : silent)
        if (meters.find(one) == std::string::npos) meters += (meters.empty() ? "" : ", ") + one;
    }
    if (with_meters > 0)
      return (with_meters == flagged.size() ? "a meter was there" : "no energy meter answered, or one was there") +
             (" and had no joules for a window (" + meters) +
             "), so that they are absent (never 0); the speed is not affected. `trainwatt show` says more with each "
             "trial.";
  }
  const bool of_commands =
      !flagged.empty() && std::ranges::all_of(flagged, [](const Record* one) { return is_command(*one); });
  static const std::vector<FlagNote> command_notes = make_command_notes();
  if (const std::string_view note = find_note(command_notes, flag); of_commands && !note.empty())
    return std::string(note);
  return std::string(note_of(flag));
}

namespace {
std::string_view known_note(const std::string& flag) {
  static const std::vector<FlagNote> flag_notes = make_flag_notes();
  return find_note(flag_notes, flag);
}
}  // namespace

bool is_known_flag(const std::string& flag) { return !known_note(flag).empty(); }

std::string_view note_of(const std::string& flag) {
  if (const std::string_view note = known_note(flag); !note.empty()) return note;
  return "set by the program; this version has no explanation for it.";
}

std::vector<std::string> flags_of(const std::vector<Record>& records) {
  std::vector<std::string> flags;
  for (const Record& record : records)
    for (const std::string& flag : record.verdict.flags)
      if (std::ranges::find(flags, flag) == flags.end()) flags.push_back(flag);
  return flags;
}

}  // namespace tw
