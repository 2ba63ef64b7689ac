#include "results/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "results/analysis/verdict.hpp"
#include "results/compare/break_even.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/compare/copies.hpp"
#include "results/compare/differences.hpp"
#include "results/compare/figures.hpp"
#include "results/compare/ratio.hpp"
#include "results/compare/run_variance.hpp"
#include "results/compare/seeds.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using text::printable;

/// What one system has of one figure in one workload.
struct Sample {
  RunSample logs = {};  ///< empty with a verdict and a reason
  std::optional<Estimate> figure = {};
  Claim verdict = Claim::none;  ///< else absent or not comparable
  std::string reason = {};
  bool unsupported = false;
};

std::vector<double> logs_of(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  return values;
}

class Comparer {
 public:
  Comparer(const std::vector<SystemInput>& systems, const CompareOptions& options) : in_(systems), options_(options) {
    if (systems.size() < 2) throw std::invalid_argument("a comparison takes two systems or more");
    if (options.reference >= systems.size()) throw std::invalid_argument("there is no such reference");
    out_.reference = options.reference;
    out_.currency = printable(options.currency);
    for (const SystemInput& system : systems)
      if (system.runs.empty()) throw std::invalid_argument(system.name + " has no report");
  }

  Comparison compare() {
    for (const SystemInput& system : in_) out_.systems.push_back(words::described(system, options_));
    match();
    earlier_.emplace(options_.run_variance, in_, records_of(reference().runs[0]));
    out_.learned = earlier_->learned();
    out_.replicates = replicates_of(in_, !out_.learned.empty(), out_.replicates_note);
    check_weights(options_.weights, out_.workloads);
    for (std::size_t s = 0; s < in_.size(); ++s) find_report_differences(s);
    find_same_samples();
    choose_figures();
    for (const FigureComparison& figure : out_.figures) find_energy_differences(figure.figure, figure.scope);
    if (std::ranges::none_of(out_.figures, [](const FigureComparison& f) { return f.figure.by_scope; }))
      find_energy_differences({FigureKind::samples_per_joule, "", "", true, true},
                              joule_scope_);  // that there is none in common is worth a note, too
    out_.differences = merged_differences(std::move(out_.differences), out_.workloads.size());
    for (FigureComparison& figure : out_.figures) fill(figure);
    find_break_evens();
    words::add_award_obstacles(in_, options_.is_tender, out_);
    add_answer(out_);
    return std::move(out_);
  }

 private:
  const SystemInput& reference() const { return in_[options_.reference]; }

  std::vector<const Record*> records_of(const Report& report) const {
    std::vector<const Record*> records;
    for (const Record& record : report.records)
      if (record.id.find(options_.only) != std::string::npos) records.push_back(&record);
    return records;
  }

  void match() {
    const std::vector<const Record*> wanted = records_of(reference().runs[0]);
    if (const std::vector<Record>& all = reference().runs[0].records; wanted.empty() && !all.empty())
      throw OptionError("no-match", fmt::format("--only \"{}\": no point of {} has it in its id; one id is {}",
                                                options_.only, reference().name, all.front().id));
    for (const Record* record : wanted) {
      const Workload& w = record->workload;
      out_.workloads.push_back({printable(record->id),
                                printable(w.model),
                                printable(w.precision),
                                w.global_batch,
                                record->target.has_value(),
                                {},
                                {}});
    }
    pairs_.resize(in_.size()), rules_.resize(in_.size());
    for (std::size_t s = 0; s < in_.size(); ++s)
      for (const Report& run : in_[s].runs) {
        pairs_[s].push_back(match_records(wanted, records_of(run)));
        rules_[s].push_back(check_run_rules(run));
      }
    for (std::size_t s = 0; s < in_.size(); ++s) {
      for (std::size_t w = 0; w < wanted.size(); ++w) {
        std::vector<std::string>& ids = out_.workloads[w].run_records.emplace_back();
        for (const auto& run : pairs_[s]) ids.push_back(run[w].system == nullptr ? "" : printable(run[w].system->id));
        out_.workloads[w].records.push_back(ids[0]);
      }
      std::set<const Record*> taken;
      for (const RecordPair& pair : pairs_[s][0]) taken.insert(pair.system);
      std::vector<std::string> left;
      for (const Record* record : records_of(in_[s].runs[0]))
        if (!taken.contains(record)) left.push_back(printable(record->id));
      if (!left.empty())
        add(s, made_difference("points", "-",
                               left.front() + (left.size() > 1 ? fmt::format(" and {} more", left.size() - 1) : ""),
                               false, "the reference has no such points: they are left out"));
    }
  }

  /// The means of a figure in the earlier runs of the system's machine, by group; empty if a run lacks it.
  std::vector<std::vector<double>> earlier_logs(std::size_t s, std::size_t w, const FigureComparison& figure) const {
    std::vector<std::vector<double>> groups;
    for (const std::vector<CostRun>& group : earlier_->groups_of(s, w)) {
      RunSample sample;
      for (const CostRun& run : group)
        if (const auto found = values_of(*run.record, figure.figure.kind, figure.scope, price_of(s), run.nodes);
            !found.values.empty())
          add_run(sample, logs_of(found.values), true);
      groups.push_back(sample.runs.logs.size() == group.size() ? std::move(sample.runs.logs) : std::vector<double>());
    }
    return groups;
  }
  const PriceRow* price_of(std::size_t s) const { return in_[s].price ? &*in_[s].price : nullptr; }

  void add(std::size_t system, Difference difference, std::optional<std::size_t> workload = std::nullopt) {
    difference.system = system;
    if (workload) difference.workloads = {*workload};
    out_.differences.push_back(std::move(difference));
  }

  void find_report_differences(std::size_t s) {
    const SystemInput& system = in_[s];
    for (Difference& difference : validation_differences(system)) add(s, std::move(difference));
    for (Difference& difference : index_differences(system.runs, !options_.run_variance.empty()))
      add(s, std::move(difference));
    for (Difference& difference : overlap_differences(system.runs)) add(s, std::move(difference));
    for (std::size_t run = 1; run < system.runs.size(); ++run) {
      SystemInput first{"", {}, {}, {}, {}}, other = first;
      first.runs = {contexts_of(system.runs[0])}, other.runs = {contexts_of(system.runs[run])};
      for (Difference& difference : report_differences(first, other)) {
        if (difference.what.starts_with("run")) continue;
        difference.why = between_runs(run + 1, difference.why);
        add(s, std::move(difference));
      }
    }
    const bool is_reference = s == options_.reference;
    if (!is_reference)
      for (Difference& difference : report_differences(reference(), system)) add(s, std::move(difference));
    for (std::size_t w = 0; w < out_.workloads.size(); ++w) {
      std::set<std::string> named;
      for (const auto& run : pairs_[s]) {
        if (is_reference || run[w].system == nullptr) continue;
        for (Difference& difference : record_differences(*run[w].reference, *run[w].system))
          if (named.insert(difference.what).second) add(s, std::move(difference), w);
      }
      for (std::size_t run = 1; run < pairs_[s].size(); ++run)
        for (Difference& difference : run_differences(pairs_[s][0][w].system, pairs_[s][run][w].system, run + 1))
          if (named.insert(difference.what).second) add(s, std::move(difference), w);
      if (is_reference) continue;
      for (Difference& difference : seed_differences(run_records(options_.reference, w), run_records(s, w)))
        add(s, std::move(difference), w);
      for (Difference& difference : rule_differences(judged_records(options_.reference, w), judged_records(s, w)))
        add(s, std::move(difference), w);
    }
  }
  void find_same_samples() {
    for (std::size_t w = 0; w < out_.workloads.size(); ++w) {
      MeasuredSystems measured;
      for (std::size_t s = 0; s < in_.size(); ++s) {
        measured.push_back({out_.systems[s].name, {}});
        for (const auto& run : pairs_[s]) measured.back().runs.push_back(run[w].system);
      }
      for (const Difference& one : copies(measured, options_.reference)) {
        std::erase_if(out_.differences,
                      [&](const Difference& d) { return d.system == one.system && d.what == own_run; });
        add(one.system, one, w);
      }
    }
  }
  std::vector<JudgedRecord> judged_records(std::size_t s, std::size_t w) const {
    std::vector<JudgedRecord> all;
    for (std::size_t run = 0; run < pairs_[s].size(); ++run)
      if (const Record* record = pairs_[s][run][w].system; record != nullptr && has_run(*record))
        all.push_back({record, &rules_[s][run]});
    return all;
  }
  /// Without the records, which may be large.
  static Report contexts_of(const Report& report) {
    return {report.program, report.context, report.plan, report.parts, {}, {}};
  }

  /// Those of a system's runs that were run.
  std::vector<const Record*> run_records(std::size_t s, std::size_t w) const {
    std::vector<const Record*> all;
    for (const auto& run : pairs_[s])
      if (run[w].system != nullptr && has_run(*run[w].system)) all.push_back(run[w].system);
    return all;
  }
  /// Nothing where the system has no price or did not run the workload.
  std::optional<CostGround> ground_of(std::size_t s, std::size_t w) const {
    const std::vector<const Record*> runs = run_records(s, w);
    return in_[s].price && !runs.empty() ? std::optional(cost_ground(runs, *in_[s].price)) : std::nullopt;
  }

  void find_energy_differences(const ComparedFigure& figure, Scope scope) {
    for (std::size_t s = 0; s < in_.size(); ++s)
      for (std::size_t w = 0; w < out_.workloads.size(); ++w) {
        std::vector<Difference> found;
        if (figure.is_cost()) {
          const std::optional<CostGround> ground = ground_of(s, w), of_reference = ground_of(options_.reference, w);
          if (ground) found = cost_differences(*ground);
          if (ground && of_reference && found.empty() && s != options_.reference)
            found = cost_differences(*of_reference, *ground);
        } else if (figure.by_scope && s != options_.reference) {
          const auto of_reference = run_records(options_.reference, w), runs = run_records(s, w);
          if (!of_reference.empty() && !runs.empty()) found = energy_differences(of_reference, runs, scope);
        }
        for (Difference& difference : found) add(s, std::move(difference), w);
      }
  }

  /// What blocks this figure of this workload of a system; null if nothing does.
  const Difference* blocking(std::size_t system, std::size_t workload, const std::string& figure) const {
    for (const Difference& d : out_.differences) {
      if (!d.blocking || (d.system != system && d.system != options_.reference)) continue;
      const bool here = d.workloads.empty() || std::ranges::find(d.workloads, workload) != d.workloads.end();
      const bool of_figure = d.figures.empty() || std::ranges::find(d.figures, figure) != d.figures.end();
      if (here && of_figure) return &d;
    }
    return nullptr;
  }

  FigureValues values(std::size_t s, std::size_t run, std::size_t w, const FigureComparison& figure) const {
    const Record& record = *pairs_[s][run][w].system;
    return values_of(record, figure.figure.kind, figure.scope, price_of(s), nodes_of(in_[s].runs[run], record));
  }

  void choose_figures() {
    std::vector<Record> all;  // without their trials, which may be large
    for (std::size_t s = 0; s < in_.size(); ++s)
      for (const RecordPair& pair : pairs_[s][0])
        if (pair.system != nullptr) {
          Record& copy = all.emplace_back();
          copy.workload = pair.system->workload, copy.setting = pair.system->setting,
          copy.summary = pair.system->summary;
        }
    joule_scope_ = order_by(*find_merit("samples-per-joule"), options_.scope, all).scope;
    for (const std::string& name : options_.figures)
      if (std::ranges::find(compared_figures(), name, &ComparedFigure::name) == compared_figures().end())
        throw std::invalid_argument("unknown figure " + name);
    for (const ComparedFigure& figure : compared_figures()) {
      const auto in = [&](const std::vector<std::string>& names) {
        return std::ranges::find(names, figure.name) != names.end();
      };
      const bool asked = in(options_.figures) || in(options_.also);
      if (!options_.figures.empty() && !asked) continue;
      // FLOPs are in the samples' ratio already, and steps in the time's.
      if (!asked && (figure.kind == FigureKind::efficiency || figure.kind == FigureKind::steps_to_target)) continue;
      FigureComparison one{figure, {}, "", {}, {}, "", {}};
      if (figure.by_scope) one.scope = order_by(*find_merit(figure.name), options_.scope, all).scope;
      if (figure.is_cost()) {
        one.figure.unit = printable(options_.currency) + " " + figure.unit;
        one.note = cost_note();
      }
      const auto has_any = [&](std::size_t s) {
        for (std::size_t w = 0; w < out_.workloads.size(); ++w)
          if (pairs_[s][0][w].system != nullptr && !values(s, 0, w, one).values.empty()) return true;
        return false;
      };
      bool any = asked;
      for (std::size_t s = 0; s < in_.size() && !any; ++s) any = has_any(s);
      if (any) out_.figures.push_back(std::move(one));
    }
    std::ranges::stable_sort(out_.figures, {}, [&](const FigureComparison& f) {
      return std::ranges::find(options_.figures, f.figure.name) - options_.figures.begin();  // as they were asked for
    });
  }

  /// Empty if all costs are complete.
  std::string cost_note() const {
    for (std::size_t s = 0; s < in_.size(); ++s)
      for (std::size_t w = 0; w < out_.workloads.size(); ++w)
        if (const auto ground = ground_of(s, w); ground && (ground->is_mixed || ground->basis != CostBasis::complete))
          return "lower bounds, which lack part of the electricity";
    return {};
  }

  Sample sample_of(std::size_t s, std::size_t w, const FigureComparison& figure) const {
    Sample sample{.verdict = Claim::absent};
    const RecordPair& first = pairs_[s][0][w];
    if (first.system == nullptr) {
      sample.reason = first.why_missing;
      return sample;
    }
    const Verdict& verdict = first.system->verdict;
    if (verdict.status == Status::unsupported || verdict.status == Status::failed) {
      sample.unsupported = verdict.status == Status::unsupported;
      sample.reason = to_string(verdict.status) + (verdict.reasons.empty() ? "" : ": " + printable(verdict.reasons[0]));
      return sample;
    }
    std::vector<double> means;
    for (std::size_t run = 0; run < pairs_[s].size(); ++run) {
      const RecordPair& pair = pairs_[s][run][w];
      const FigureValues of_run =
          pair.system == nullptr ? FigureValues{{}, 0, pair.why_missing} : values(s, run, w, figure);
      if (of_run.values.empty()) {
        sample.reason = (run > 0 ? fmt::format("run {}: ", run + 1) : "") + printable(of_run.reason);
        sample.logs = {};
        return sample;
      }
      sample.logs.runs.common = std::max(sample.logs.runs.common, of_run.common);
      sample.logs.runs.drop_extremes = !pair.system->target.has_value();
      add_run(sample.logs, logs_of(of_run.values), pairs_[s].size() > 1);
      means.push_back(std::exp(sample.logs.runs.logs.back()));
      if (pairs_[s].size() == 1) sample.figure = estimate_of(of_run);
    }
    if (means.size() > 1) sample.figure = estimate_of({means, sample.logs.runs.common, ""});
    sample.logs.runs.earlier = earlier_logs(s, w, figure);
    sample.logs.machine = machine_of(in_[s].runs[0]);
    if (const Difference* blocked = blocking(s, w, figure.figure.name)) {
      sample.verdict = Claim::not_comparable;
      const bool is_both = blocked->system != options_.reference && !blocked->reference_value.empty();
      sample.reason = fmt::format("{}: {}{}", blocked->what, blocked->system_value,
                                  !is_both ? ""
                                           : fmt::format(" in {}, {} in {}", out_.systems[s].name,
                                                         blocked->reference_value, reference_name()));
    } else {
      sample.verdict = Claim::none;
    }
    return sample;
  }

  /// The samples of one system in the rows.
  static std::vector<const RunSample*> column(const std::vector<std::vector<Sample>>& samples, std::size_t system) {
    std::vector<const RunSample*> logs;
    for (const std::vector<Sample>& row : samples) logs.push_back(&row[system].logs);
    return logs;
  }
  Ratio overall(const FigureComparison& figure, const std::vector<std::vector<Sample>>& samples,
                const std::vector<double>& weights, std::size_t a, std::size_t b) const {
    return judged(contrast_of(column(samples, a), column(samples, b), weights, out_.replicates),
                  figure.figure.more_is_better, out_.replicates, trials_of(figure, figure.rows, weights, a, b));
  }
  words::Trials trials_of(const FigureComparison& figure, std::span<const ComparedRow> rows,
                          std::span<const double> weights, std::size_t a, std::size_t b) const {
    words::Trials trials;
    trials.bounds = figure.note;
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (const std::size_t s : {a, b})
        if (weights[row] > 0) trials.add(run_records(s, rows[row].workload));
    return trials;
  }

  void fill(FigureComparison& figure) {
    const std::size_t reference = options_.reference, count = in_.size();
    std::vector<std::vector<Sample>> samples;
    std::vector<double> weights;
    std::string why_none;  // in the first workload
    for (std::size_t w = 0; w < out_.workloads.size(); ++w) {
      std::vector<Sample> of_row;
      for (std::size_t s = 0; s < count; ++s) of_row.push_back(sample_of(s, w, figure));
      std::vector<std::size_t> without;
      for (std::size_t s = 0; s < count; ++s)
        if (of_row[s].unsupported) without.push_back(s);
      const bool any_has = std::ranges::any_of(of_row, [](const Sample& one) { return !one.logs.runs.logs.empty(); });
      if (!without.empty() && any_has) figure.left_out.push_back({w, without});
      if (of_row[reference].logs.runs.logs.empty()) {
        if (why_none.empty() && !of_row[reference].reason.empty())
          why_none = " (" + out_.workloads[w].id + ": " + of_row[reference].reason + ")";
        continue;
      }
      ComparedRow& row = figure.rows.emplace_back();
      row.workload = w;
      row.weight = without.empty() ? weight_of(out_.workloads[w].id, options_.weights) : 0;
      for (std::size_t s = 0; s < count; ++s) {
        ComparedCell& cell = row.systems.emplace_back();
        const Sample& sample = of_row[s];
        cell.figure = sample.figure;
        if (const auto& logs = sample.logs.runs.logs; !logs.empty())
          cell.geometric = std::exp(std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(logs.size()));
        cell.record = out_.workloads[w].records[s];
        if (s == reference && sample.verdict == Claim::none) {
          const LogSample& own = sample.logs.trials.logs.empty() ? sample.logs.runs : sample.logs.trials;
          cell.ratio.value = 1, cell.ratio.verdict = Claim::reference;
          cell.ratio.replicates = static_cast<int>(own.logs.size());
        } else if (sample.verdict != Claim::none) {
          cell.ratio.verdict = sample.verdict, cell.ratio.reason = sample.reason;
        } else {
          const words::Trials trials = trials_of(figure, {&row, 1}, std::vector{1.0}, reference, s);
          cell.ratio = judged(contrast_of(of_row[reference].logs, sample.logs, out_.replicates),
                              figure.figure.more_is_better, out_.replicates, trials);
          out_.compared = true;
        }
      }
      weights.push_back(row.weight);
      samples.push_back(std::move(of_row));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    figure.overall.resize(count);
    if (!(sum > 0)) {
      figure.overall_reason = figure.rows.empty() ? reference_name() + " has this figure in no workload" + why_none
                              : options_.weights.empty() ? "no workload is supported by all systems"
                                                         : "no workload has a weight";
      for (Ratio& ratio : figure.overall) ratio.verdict = Claim::absent, ratio.reason = figure.overall_reason;
      return;
    }
    for (std::size_t row = 0; row < weights.size(); ++row) figure.rows[row].weight = weights[row] /= sum;
    std::vector<std::size_t> ranked;
    for (std::size_t s = 0; s < count; ++s) {
      const auto gap = std::ranges::find_if(
          figure.rows, [&](const ComparedRow& row) { return row.weight > 0 && !row.systems[s].ratio.value; });
      Ratio& ratio = figure.overall[s];
      if (gap != figure.rows.end()) {
        ratio.verdict = gap->systems[s].ratio.verdict;
        ratio.reason = reason_at(out_.workloads[gap->workload].id, out_.systems[s].name, gap->systems[s].ratio.reason);
        continue;
      }
      ranked.push_back(s);
      ratio = s == reference ? figure.rows[0].systems[s].ratio : overall(figure, samples, weights, reference, s);
    }
    rank(figure, samples, weights, ranked);
  }
  std::string reference_name() const { return out_.systems[options_.reference].name; }

  void rank(FigureComparison& figure, const std::vector<std::vector<Sample>>& samples,
            const std::vector<double>& weights, const std::vector<std::size_t>& ranked) const {
    for (const std::size_t s : ranked) {
      RankedSystem one{s, 1, false, 0, figure.overall[s].value};
      for (const std::size_t other : ranked) {
        const Claim it = other == s ? Claim::none : overall(figure, samples, weights, s, other).verdict;
        one.rank += it == Claim::better, one.beats += it == Claim::worse;
      }
      figure.ranking.push_back(one);
    }
    const double sign = figure.figure.more_is_better ? -1 : 1;
    std::ranges::stable_sort(
        figure.ranking, {}, [&](const RankedSystem& one) { return std::pair(one.rank, sign * one.ratio.value_or(0)); });
    for (RankedSystem& one : figure.ranking)
      one.tied = std::ranges::count(figure.ranking, one.rank, &RankedSystem::rank) > 1;
  }

  void find_break_evens() {
    for (std::size_t s = 0; s < in_.size(); ++s) {
      if (s == options_.reference || !reference().price || !in_[s].price) continue;
      for (std::size_t w = 0; w < out_.workloads.size(); ++w) {
        const RecordPair& pair = pairs_[s][0][w];
        if (pair.system == nullptr || blocking(s, w, pair.reference->target ? "cost-to-target" : "cost") != nullptr)
          continue;
        const auto subject = [&](std::size_t system) {
          CostSubject of{out_.systems[system].name,
                         {},
                         &*in_[system].price,
                         machine_of(in_[system].runs[0]),
                         earlier_->groups_of(system, w)};
          for (std::size_t run = 0; run < pairs_[system].size(); ++run)
            if (const Record* record = pairs_[system][run][w].system)
              of.runs.push_back({record, nodes_of(in_[system].runs[run], *record)});
          return of;
        };
        const CostSubject of_reference = subject(options_.reference), of_system = subject(s);
        if (of_reference.runs.size() < in_[options_.reference].runs.size() ||
            of_system.runs.size() < in_[s].runs.size())
          continue;  // a run lacks the point, which its cell says
        BreakEvens found = break_evens(of_reference, of_system, out_.replicates, out_.currency);
        if (!found.inputs.empty() || !found.reason.empty())
          out_.break_even.push_back({w, s, std::move(found.inputs), std::move(found.reason)});
      }
    }
  }

  const std::vector<SystemInput>& in_;
  const CompareOptions& options_;
  Comparison out_;
  Scope joule_scope_ = Scope::none;
  std::optional<EarlierRuns> earlier_;
  std::vector<std::vector<std::vector<RecordPair>>> pairs_;    // by system, run and workload
  std::vector<std::vector<std::vector<RunRuleCheck>>> rules_;  // by system and run
};

}  // namespace

Comparison compare(const std::vector<SystemInput>& systems, const CompareOptions& options) {
  return Comparer(systems, options).compare();
}

}  // namespace tw::results
