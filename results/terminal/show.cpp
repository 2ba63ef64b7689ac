// `trainwatt show`: one report in full.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/choice.hpp"
#include "results/terminal/lines.hpp"
#include "results/terminal/show_words.hpp"
#include "results/terminal/tables.hpp"

namespace tw::results {
namespace {

using namespace show;
using namespace text;

constexpr std::size_t label_width = 13;  // "  step time    " before every line of a point

class Shower {
 public:
  Shower(const Report& report, const TableStyle& style) : report_(report), style_(style), paint_(style.color) {}

  std::string text() {
    head();
    hosts();
    devices();
    meters();
    if (!report_.context.warnings.empty()) {
      title("Warnings");
      for (const std::string& warning : report_.context.warnings)
        out_ += "  " + paint_.yellow("! ") + wrap(warning, width(), 4) + "\n";
    }
    return records_text();
  }
  std::string records_text() {
    points();
    return style_.unicode ? std::move(out_) : ascii(out_);
  }

 private:
  void points() {
    title("Points");
    out_ += summary_table(report_, style_);
    if (const std::size_t missing = missing_points(report_).size(); missing > 0)
      out_ +=
          "\n  " + paint_.yellow("! ") +
          wrap(count(missing, "point") + " of the plan " + (missing == 1 ? "has" : "have") + " no record", width(), 4) +
          "\n";
    if (const std::string text = search_text(report_, style_); !text.empty()) {
      title("Search");
      out_ += text;
    }
    if (const std::string text = front_text(report_, style_); !text.empty()) {
      title("Pareto front");
      out_ += text;
    }
    for (const Record* r : in_order(report_.records, style_.order))
      if (has_run(*r)) point(*r);
  }
  std::size_t width() const { return style_.width; }
  void title(const std::string& text) { out_ += "\n" + paint_.bold(text) + "\n"; }
  /// One labelled line of a block, wrapped under itself.
  void line(const std::string& label, const std::string& text) {
    if (text.empty()) return;
    // A label that leaves no gap gets a line of its own.
    out_ += "  " + paint_.dim(pad_right(label, label_width));
    if (columns(label) >= label_width) out_ += "\n" + std::string(2 + label_width, ' ');
    out_ += wrap(text, width(), 2 + label_width) + "\n";
  }

  /// Lines of one block, of which the first has its label.
  void lines(const std::string& label, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) line(&text == texts.data() ? label : "", text);
  }

  void head() {
    const Program& p = report_.program;
    const Context& c = report_.context;
    out_ += paint_.bold(p.name + " " + p.version) + paint_.dim(" (" + p.git_commit + ")") + "\n";
    line("suite", plan_words(report_.plan));
    line("started", c.started_at + (c.finished_at.empty() ? ", not finished" : ", finished " + c.finished_at));
    parts();
    line("command", join_said(c.argv, " "));
    line("launcher", c.launcher);
    std::vector<std::string> versions, variables;
    for (const auto& [name, version] : c.versions)  // a library's begins with its name
      versions.push_back(version.starts_with(name + " ") ? version : name + " " + version);
    for (const auto& [name, value] : c.environment) variables.push_back(name + "=" + value);
    line("versions", join_said(versions, ", "));
    line("environment", join_said(variables, " "));
  }

  /// How often the run was resumed, and what each launch did.
  void parts() {
    if (!report_.parts) return;
    const std::vector<RunPart>& parts = *report_.parts;
    std::string label = "resumed";
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Context& c = parts[i].context ? *parts[i].context : report_.context;
      const auto hosts = texts_of(c.hosts, &HostInfo::name);
      line(label, fmt::format("part {} of {}: {}, on {}, started {}, {}{}", i + 1, parts.size(),
                              count(parts[i].points.size(), "point"), join_said(hosts, ", "), c.started_at,
                              c.finished_at.empty() ? "no end recorded" : "ended " + c.finished_at,
                              parts[i].forced_over.empty()
                                  ? ""
                                  : "; resumed by --force-resume despite: " + join_said(parts[i].forced_over, "; ")));
      label.clear();
    }
  }

  void hosts() {
    title("Hosts");
    for (const HostInfo& h : report_.context.hosts) {
      const auto known = [](int n, const char* noun) { return n > 0 ? count(n, noun) : std::string(); };
      line(h.name, join_said({h.cpu, known(h.sockets, "socket"), known(h.cores, "core"),
                              known(h.hardware_threads, "hardware thread"), known(h.numa_nodes, "NUMA node"),
                              bytes(static_cast<double>(h.memory_bytes))},
                             ", "));
      line("", join_said(
                   {h.os, "kernel " + h.kernel, h.hypervisor ? "hypervisor " + *h.hypervisor : "no hypervisor detected",
                    h.container ? "container " + *h.container : "no container detected"},
                   ", "));
      std::vector<std::string> state;
      if (h.cpu_governor) state.push_back("governor " + *h.cpu_governor);
      if (h.cpu_min_mhz && h.cpu_max_mhz)
        state.push_back(fmt::format("{:.0f} to {:.0f} MHz", *h.cpu_min_mhz, *h.cpu_max_mhz));
      if (h.steal_share_since_boot) state.push_back("steal since boot " + percent(*h.steal_share_since_boot));
      if (h.cgroup_cpu_limit) state.push_back("CPU limit " + *h.cgroup_cpu_limit);
      if (h.cgroup_memory_limit_bytes)
        state.push_back("memory limit " + bytes(static_cast<double>(*h.cgroup_memory_limit_bytes)));
      line("", join_said(state, ", "));
      line("", join_said(h.nics, ", "));
    }
  }

  void devices() {
    title("Devices");
    for (const DeviceEntry& d : report_.context.devices)
      line(fmt::format("rank {}", d.rank),
           join_said({d.host, d.kind, d.name, d.uuid, d.instruction_set,
                      count(d.threads, "thread") + (d.affinity.empty() ? "" : " on CPU " + ranges(d.affinity)),
                      join_said(d.libraries, ", ")},
                     ", "));
  }

  void meters() {
    title("Energy meters");
    if (report_.context.meters.empty()) out_ += "  none searched for\n";
    for (const MeterEntry& m : report_.context.meters) {
      std::string text = m.host + ", ";
      if (m.available) {
        text += join_said({to_string(m.scope), to_string(m.method),
                           m.update_period_s ? "updates every " + duration(*m.update_period_s) : "",
                           m.counted ? "counted" : "not counted: " + m.reason},
                          ", ");
      } else {
        text += "not available: " + m.reason;
      }
      line(m.domain, text + (m.detail.empty() ? "" : " (" + m.detail + ")"));
    }
    for (const IdleRow& row : report_.context.idle_power)
      line("idle",
           row.when + " all points, " + row.host + ", " + row.domain + ": " +
               (row.power_w ? si(*row.power_w, "W") + (row.uncertainty_w ? " ± " + si(*row.uncertainty_w, "W") : "")
                            : "absent: " + row.reason));
  }

  /// Least, mean and greatest of each quantity over all trials; counters that moved.
  void telemetry(const Record& r) {
    struct Sum {
      double minimum = 0, sum = 0, maximum = 0;
      std::size_t count = 0;
    };
    std::map<std::string, Sum> series;
    std::map<std::string, double> counters;
    for (const Trial& trial : r.trials) {
      for (const SeriesRow& row : trial.series) {
        Sum& sum = series[row.host + " " + row.domain + " " + row.quantity];
        for (std::size_t i = 0; i < std::min({row.mean.size(), row.minimum.size(), row.maximum.size()}); ++i) {
          sum.minimum = sum.count == 0 ? row.minimum[i] : std::min(sum.minimum, row.minimum[i]);
          sum.maximum = sum.count == 0 ? row.maximum[i] : std::max(sum.maximum, row.maximum[i]);
          sum.sum += row.mean[i];
          ++sum.count;
        }
      }
      for (const CounterRow& row : trial.counters)
        if (row.change != 0) counters[row.host + " " + row.domain + " " + row.quantity] += row.change;
    }
    std::vector<std::string> texts;
    for (const auto& [name, sum] : series)
      if (sum.count > 0)
        texts.push_back(name + ": " + value_of(name, sum.sum / static_cast<double>(sum.count)) + " (" +
                        value_of(name, sum.minimum) + " … " + value_of(name, sum.maximum) + ")");
    for (const auto& [name, change] : counters) texts.push_back(name + ": +" + significant(change));
    lines("telemetry", texts);
  }

  void point(const Record& r) {
    const Workload& w = r.workload;
    const Summary& s = r.summary;
    out_ += "\n" + paint_.bold(paint_.cyan(r.id)) + "\n";
    if (is_command(r)) return command(r);
    const std::string rows =
        w.table_rows_at_most ? fmt::format(", tables of at most {} rows", *w.table_rows_at_most) : "";
    line("workload", w.model + (w.layers ? " cut to " + count(*w.layers, "layer") : "") + rows + ", " + w.precision +
                         " on " + w.device + ", " + si(static_cast<double>(w.parameters)) + " parameters, " +
                         w.optimizer + ", " + seeds(r));
    line("batch", fmt::format("micro-batch {} × {} accumulated × {} = {}", w.micro_batch, w.accumulate,
                              count(w.ranks, "rank"), count(w.global_batch, "sample")) +
                      (w.seq_len ? fmt::format(" of {} {}", *w.seq_len, w.positions()) : "") + data_words(w));
    line("", r.micro_batch_search ? micro_batch_search(*r.micro_batch_search) : "");
    line("steps", r.execution ? execution(*r.execution) : "");
    settings(r);
    if (r.start)
      line("start", "at " + significant(r.start->temperature_c) + " °C" +
                        (r.start->waited_s > 0 ? ", after " + duration(r.start->waited_s) + " of cooling down" : ""));
    target(r);
    std::vector<std::string> windows;
    for (const Trial& t : r.trials)
      windows.push_back(count(t.step_time_s.size(), "step") + " in " + duration(t.window_s));
    line("trials", join_said(windows, ", "));
    const auto unstable =
        texts_of(find_instability(r), [](const Instability& one) { return to_string(one.flag) + (": " + one.text); });
    line("stability", join_said(unstable, "; "));
    throughput(r);
    if (s.flops_per_s) {
      line("compute", si(*s.flops_per_s, "FLOP/s") + ", " + flops_of_sample(s));
      line("FLOP rule", s.flops_rule);
    }
    const std::optional<double> of_ceiling = credible_of_ceiling(s);
    line("of ceiling", of_ceiling ? significant(*of_ceiling) + " of " +
                                        (s.ceiling_flops_per_s ? si(*s.ceiling_flops_per_s, "FLOP/s") : "absent") +
                                        ", the rate of its own products timed alone"
                                  : "absent: " + why_no_of_ceiling(s));
    line("MFU", mfu(s));
    step_times(r);
    phases_of(r);
    if (!s.op_share.empty()) {
      std::vector<std::pair<double, std::string>> shares;
      for (const auto& [op, share] : s.op_share) shares.push_back({share, op});
      std::sort(shares.rbegin(), shares.rend());
      const auto parts = texts_of(shares, [](const auto& one) { return one.second + " " + percent(one.first); });
      line("operators", join_said(parts, ", "));
    }
    loss(r);
    energy(r);
    line("GPU", s.gpu ? gpu_use(*s.gpu) : "");
    telemetry(r);
    line("memory", memory(s));
    verdict(r);
  }

  /// Of a metered command nothing is known but what a clock and the meters say, and what it said itself.
  void command(const Record& r) {
    for (const Trial& trial : r.trials) {
      line("time", duration(trial.window_s) + " from start to end");
      if (trial.samples)
        line("samples", si(*trial.samples) + ", as the command printed" +
                            (trial.samples_s ? ", in " + duration(*trial.samples_s) : std::string()));
    }
    throughput(r);
    energy(r);
    telemetry(r);
    verdict(r);
  }

  void throughput(const Record& r) {
    const auto rate = [](const std::optional<Estimate>& e, const char* unit) {
      return e ? si(*e, unit) : std::string();
    };
    line("throughput",
         join_said({rate(r.summary.samples_per_s, "samples/s"), rate(r.summary.tokens_per_s, "tokens/s")}, ", "));
  }

  void verdict(const Record& r) {
    line("verdict",
         join_said({to_string(r.verdict.status), join_said(flag_names(r), ", "), join_said(r.verdict.reasons, "; ")},
                   ": "));
  }

  /// Runs to a target have each its own.
  static std::string seeds(const Record& r) {
    std::vector<std::string> all;
    for (const Trial& trial : r.trials)
      if (trial.target_run) all.push_back(std::to_string(trial.target_run->seed));
    if (all.empty()) return "seed " + std::to_string(r.workload.seed);
    return (all.size() == 1 ? "seed " : "seeds ") + join_said(all, ", ");
  }

  void target(const Record& r) {
    if (!r.target) return;
    const Target& t = *r.target;
    line("target", t.task + ": " + metric_words(t.metric) + " ≤ " + fmt::format("{:.4g}", t.value) +
                       (t.metric == TargetMetric::error
                            ? ", the best possible is " + (t.floor < 1e-9 ? "0" : significant(t.floor, 4))
                            : (r.workload.data == "series" ? "" : " nats") + std::string(" over a floor of ") +
                                  significant(t.floor, 4)) +
                       (t.drawn_tokens ? fmt::format(", {} different tokens", *t.drawn_tokens) : "") +
                       fmt::format(", {} samples every {} steps", t.held_out_samples, t.evaluation_interval));
    if (const auto& reached = r.summary.to_target; reached && reached->steps) {
      std::vector<std::string> parts = {duration(*reached->time_s), si(*reached->steps, "steps"),
                                        si(*reached->samples, "samples")};
      for (const auto& [scope, joules] : reached->energy_j)
        if (joules) parts.push_back(scope + " " + si(*joules, "J"));
      line("to target", join_said(parts, ", "));
    } else if (reached) {
      line("to target", "never: " + reached->reason);
    }
    const char* label = "by seed";
    for (const Trial& trial : r.trials) {
      if (!trial.target_run || trial.target_run->evaluations.empty()) continue;
      const Evaluation& last = trial.target_run->evaluations.back();
      std::vector<double> curve;
      for (const Evaluation& evaluation : trial.target_run->evaluations) curve.push_back(metric_of(t, evaluation));
      line(label, fmt::format("seed {}: {} after {} steps, {} (evaluations took {})  ", trial.target_run->seed,
                              significant(metric_of(t, last), 4), last.step, duration(last.time_s),
                              duration(trial.target_run->evaluation_s)) +
                      paint_.cyan(sparkline(curve, 24, style_.unicode)));
      label = "";
    }
    line("cost", cost_words(r));
    line("reference", reference_words(t));
    if (const std::string words = extrapolation_words(r); !words.empty()) line("", words);
  }

  void settings(const Record& r) {
    std::vector<std::string> parts;
    for (const auto& [name, set] : r.setting)
      if (set.found_by || set.requested || set.accepted || set.observed) {
        const auto figure = [](const std::optional<SetPoint>& v) { return v ? set_point(*v) : std::string("unknown"); };
        const std::string seen = (set.observed ? observed(*set.observed) : std::string("unknown")) + " observed";
        if (set.found_by) {
          parts.push_back(name + " as found, by " + *set.found_by + ", " + seen);
          continue;
        }
        parts.push_back(name + " " + figure(set.requested) + " requested, " + figure(set.accepted) + " accepted, " +
                        seen);
      }
    line("setting", join_said(parts, "; "));
  }

  void step_times(const Record& r) {
    const Summary& s = r.summary;
    line("step time", "min " + time_or_absent(s.step_time_min_s) + ", p50 " + time_or_absent(s.step_time_p50_s) +
                          ", p90 " + time_or_absent(s.step_time_p90_s) + ", p99 " + time_or_absent(s.step_time_p99_s) +
                          ", max " + time_or_absent(s.step_time_max_s));
    const std::vector<double> counts = histogram(joined(r, &Trial::step_time_s), 24);
    if (!counts.empty())
      line("", time_or_absent(s.step_time_min_s) + " " + paint_.cyan(sparkline(counts, counts.size(), style_.unicode)) +
                   " " + time_or_absent(s.step_time_max_s));
  }

  void phases_of(const Record& r) {
    const auto phases = mean_phases(r);
    if (phases.empty()) return;
    const double step = r.summary.step_time_s->value;
    constexpr std::size_t figures = 14 + 9 + 10 + 2, widest = 40;  // in front of the bar; of a whole step
    const std::size_t used = 2 + label_width + figures;
    double largest = 0;
    for (const auto& [phase, mean] : phases) largest = std::max(largest, mean / step);
    const double room = width() > used ? static_cast<double>(width() - used) : 0;
    const std::size_t whole = largest * widest > room ? static_cast<std::size_t>(room / largest) : widest;
    if (whole == 0) {
      std::vector<std::string> parts;
      for (const auto& [phase, mean] : phases)
        parts.push_back(phase + " " + duration(mean) + ", " + percent(mean / step));
      return line("phases", join_said(parts, "; "));
    }
    std::string label = "phases";
    for (const auto& [phase, mean] : phases) {
      out_ += "  " + paint_.dim(pad_right(label, label_width)) + pad_right(phase, 14) + pad_left(duration(mean), 9) +
              pad_left(percent(mean / step), 10) + "  " + paint_.cyan(bar(mean / step, whole, style_.unicode)) + "\n";
      label.clear();
    }
  }

  void loss(const Record& r) {
    const Summary& s = r.summary;
    const std::vector<double> losses = joined(r, &Trial::loss);
    if (losses.empty()) return;
    const auto figure = [](const std::optional<double>& v) {
      return v ? significant(*v, 4) : std::string("not finite");
    };
    line("loss",
         figure(s.loss_first) + " → " + figure(s.loss_last) +
             (s.loss_slope_per_step ? ", slope " + significant(*s.loss_slope_per_step) + " per step" : "") +
             (r.target ? "; means over the seeds"
                       : "  " + paint_.cyan(sparkline(losses, std::min<std::size_t>(32, width() - label_width - 2),
                                                      style_.unicode))));
  }

  void energy(const Record& r) {
    const Summary& s = r.summary;
    std::vector<std::string> texts;
    for (const auto& [scope, joules] : s.energy_j) {
      if (!joules) continue;
      std::string text = scope + ": " + si(*joules, "J") + " per trial";
      // Of one or two trials there is no interval; what the meters may be wrong by is known all the same.
      if (const auto trials = valid_trials(r); !joules->low && !trials.empty()) {
        const double half = uncertainty_of(*trials.front(), scope);
        if (half > 0) text += " (± " + si(half, "J") + " from the meters)";
      }
      if (const auto figure = of_scope(s.flops_per_w, scope)) text += ", " + si(*figure, "FLOP/J");
      if (const auto figure = of_scope(s.samples_per_j, scope)) text += ", " + si(*figure, "samples/J");
      texts.push_back(std::move(text));
    }
    if (!s.energy_reason.empty()) texts.push_back("absent: " + s.energy_reason);
    lines("energy", texts);
    estimated(r);
    for (const LeftOut& row : left_out(r)) {
      const bool of_some = row.trials.size() < r.trials.size();
      const std::string trials =
          of_some ? fmt::format(" in trial{} {}", row.trials.size() == 1 ? "" : "s", ranges(row.trials)) : "";
      // Why a scope is absent has been said.
      if (row.detail.empty() && s.energy_reason.find(row.domain + ": " + row.reason) != std::string::npos) continue;
      line("", row.domain + " left out" + trials + ": " + (row.reason.empty() ? "not counted" : row.reason) +
                   (row.detail.empty() ? "" : ": " + row.detail));
    }
  }

  /// A sensor that some trials do not count, for one reason.
  struct LeftOut {
    std::string host, domain, reason, detail;  // detail: of the first of these trials
    std::vector<int> trials;                   // from 1
  };
  static std::vector<LeftOut> left_out(const Record& r) {
    std::vector<LeftOut> all;
    for (std::size_t i = 0; i < r.trials.size(); ++i)
      for (const EnergyRow& row : r.trials[i].energy) {
        if (row.counted || (row.method == Method::estimate && row.energy_j)) continue;
        // A source that found no sensor: said once, with the meters.
        if (row.scope == Scope::none && row.domain.find(':') == std::string::npos && !row.detail) continue;
        const auto same = [&](const LeftOut& one) {
          return one.host == row.host && one.domain == row.domain && one.reason == row.reason &&
                 one.detail.empty() == !row.detail;
        };
        auto known = std::ranges::find_if(all, same);
        if (known == all.end())
          known = all.insert(all.end(), {row.host, row.domain, row.reason, row.detail.value_or(""), {}});
        if (known->trials.empty() || known->trials.back() != static_cast<int>(i + 1))
          known->trials.push_back(static_cast<int>(i + 1));
      }
    return all;
  }

  /// What a model says, asked for and labelled; in no total, no ratio and no ranking.
  void estimated(const Record& r) {
    struct Sum {
      double joules = 0, seconds = 0;
      std::size_t trials = 0;
    };
    std::map<std::string, Sum> sums;  // by domain, with the host where there are several
    for (const Trial& trial : r.trials)
      for (const EnergyRow& row : trial.energy) {
        if (row.method != Method::estimate || !row.energy_j || !row.window_s) continue;
        Sum& sum = sums[(report_.context.hosts.size() > 1 ? row.host + ", " : "") + row.scope + " by " + row.domain];
        sum.joules += *row.energy_j, sum.seconds += *row.window_s, ++sum.trials;
      }
    std::vector<std::string> texts;
    for (const auto& [name, sum] : sums)
      texts.push_back(fmt::format("{}: {} per trial, {} mean: modelled, not measured, not used in other figures", name,
                                  si(sum.joules / static_cast<double>(sum.trials), "J"),
                                  si(sum.joules / sum.seconds, "W")));
    lines("estimate", texts);
  }

  const Report& report_;
  const TableStyle& style_;
  const Paint paint_;
  std::string out_;
};

}  // namespace

std::string show_report(const Report& report, const TableStyle& style) {
  const Report clean = printable(report);
  return Shower(clean, style).text() + "\n" + wrap(words::next_step(clean).text, style.width, 2) + "\n";
}

std::string show_records(const std::vector<Record>& records, const TableStyle& style) {
  Report report;
  report.records = records;
  report = printable(report);
  return Shower(report, style).records_text();
}

}  // namespace tw::results
