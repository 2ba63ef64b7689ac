#include "results/compare/baseline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "results/compare/comparison_words.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using text::printable;

/// Figures without an interval, beside those of results/selection/ranking.hpp.
struct PlainFigure {
  const char* name;
  std::optional<double> (*of)(const Summary& summary);
};
constexpr PlainFigure plain_figures[] = {
    {"step-time-p99", [](const Summary& s) { return s.step_time_p99_s; }},
    {"loss-last", [](const Summary& s) { return s.loss_last; }},
    {"peak-memory",
     [](const Summary& s) {
       return s.peak_resident_bytes_per_rank > 0 ? std::optional(static_cast<double>(s.peak_resident_bytes_per_rank))
                                                 : std::nullopt;
     }},
};

std::optional<double> plain_value(const Record& record, const std::string& figure, Scope scope) {
  if (const Merit* merit = find_merit(figure)) return merit->of(record.summary, scope);
  return std::ranges::find_if(plain_figures, [&](const PlainFigure& one) { return one.name == figure; })
      ->of(record.summary);
}

bool is_compared(const std::string& figure) {
  return std::ranges::find(compared_figures(), figure, &ComparedFigure::name) != compared_figures().end();
}

const Record* find(const Report& report, const std::string& printable_id) {
  const auto found =
      std::ranges::find_if(report.records, [&](const Record& r) { return printable(r.id) == printable_id; });
  return found == report.records.end() ? nullptr : &*found;
}

/// Of one workload FLOP/s are its samples/s times a constant: the same ratio.
std::string ratio_of(const std::string& figure) { return figure == "flops" ? "throughput" : figure; }

class Checker {
 public:
  Checker(const std::vector<SystemInput>& systems, const Comparison& comparison)
      : systems_(systems), comparison_(comparison) {}

  std::vector<RuleCheck> check(const BaselineRules& rules) {
    for (const BaselineRule& rule : rules.rules)
      for (std::size_t s = 0; s < systems_.size(); ++s) {
        if (s == comparison_.reference) continue;
        const std::size_t before = checks_.size();
        if (const std::string fault = fault_of(rule, s); !fault.empty())
          add(rule, s, "", RuleState::not_checked, fault);
        else if (rule.kind == RuleKind::failure)
          check_failures(rule, s);
        else
          for (std::size_t w = 0; w < comparison_.workloads.size(); ++w)
            if (concerns(rule, comparison_.workloads[w].id) && !is_unsupported(rule, s, w)) check_point(rule, s, w);
        if (checks_.size() == before) add(rule, s, "", RuleState::not_checked, "the baseline has no such point");
      }
    return std::move(checks_);
  }

 private:
  static bool concerns(const BaselineRule& rule, const std::string& id) {
    return rule.points.empty() || std::ranges::any_of(rule.points, [&](const std::string& text) {
             return id.find(text) != std::string::npos;
           });
  }
  void add(const BaselineRule& rule, std::size_t system, const std::string& point, RuleState status,
           const std::string& text) {
    checks_.push_back({printable(rule.name), system, point, status, text});
  }

  /// What `trainwatt validate` says of the report, or of the baseline where the rule is about that, too.
  std::string fault_of(const BaselineRule& rule, std::size_t s) const {
    const auto of = [&](std::size_t system) {
      const std::vector<std::string>& faults = systems_[system].faults;
      return faults.empty() ? "" : "validation: " + printable(faults.front());
    };
    if (const std::string own = of(s); !own.empty() || rule.kind == RuleKind::value) return own;
    const std::string baseline = of(comparison_.reference);
    return baseline.empty() ? "" : "the baseline: " + baseline;
  }

  /// Of each run of the system; null: it has none.
  std::vector<const Record*> records_of(std::size_t s, std::size_t w) const {
    std::vector<const Record*> records;
    const std::vector<std::string>& ids = comparison_.workloads[w].run_records[s];
    for (std::size_t run = 0; run < systems_[s].runs.size(); ++run)
      records.push_back(ids[run].empty() ? nullptr : find(systems_[s].runs[run], ids[run]));
    return records;
  }
  /// "run 2: " of several.
  std::string run_name(std::size_t s, std::size_t run) const {
    return systems_[s].runs.size() > 1 ? fmt::format("run {}: ", run + 1) : "";
  }

  /// No rule applies to a point that the baseline's device does not support; a value rule if neither device does.
  bool is_unsupported(const BaselineRule& rule, std::size_t s, std::size_t w) const {
    const auto all = [&](std::size_t system) {
      return std::ranges::all_of(records_of(system, w), [](const Record* record) {
        return record != nullptr && record->verdict.status == Status::unsupported;
      });
    };
    return all(comparison_.reference) && (rule.kind != RuleKind::value || all(s));
  }

  void check_point(const BaselineRule& rule, std::size_t s, std::size_t w) {
    const std::string& id = comparison_.workloads[w].id;
    if (rule.kind == RuleKind::value) return check_value(rule, s, w);
    const std::string compared = ratio_of(rule.figure);
    if (!is_compared(compared)) return check_plain(rule, s, w);
    for (const FigureComparison& figure : comparison_.figures) {
      if (figure.figure.name != compared) continue;
      for (const ComparedRow& row : figure.rows)
        if (row.workload == w) return check_ratio(rule, s, id, row.systems[s].ratio);
    }
    add(rule, s, id, RuleState::not_checked, "the baseline has no " + rule.figure + " there");
  }

  void check_ratio(const BaselineRule& rule, std::size_t s, const std::string& id, const Ratio& ratio) {
    if (!ratio.value)
      return add(rule, s, id, RuleState::not_checked, text::join_said({to_string(ratio.verdict), ratio.reason}, ": "));
    const double low = 1 - rule.most_below.value_or(INFINITY), high = 1 + rule.most_above.value_or(INFINITY);
    const bool is_outside = *ratio.value < low || *ratio.value > high;
    std::string text = words::change(*ratio.value) + allowed(rule);
    if (!is_compared(ratio_of(rule.figure)))
      return add(rule, s, id, is_outside ? RuleState::violated : RuleState::kept,
                 text + "; this figure has no interval");
    if (!ratio.is_decided()) {
      if (ratio.low && ratio.high)
        text += (ratio.is_range ? "; range " : "; interval over its trials ") + words::interval(ratio);
      return add(rule, s, id, RuleState::undecided,
                 text + "; " + (ratio.reason.empty() ? "no interval" : ratio.reason));
    }
    const bool all_outside = *ratio.high < low || *ratio.low > high,
               all_inside = *ratio.low >= low && *ratio.high <= high;
    text += fmt::format("; the interval {} {}", words::interval(ratio),
                        all_outside  ? "lies outside"
                        : all_inside ? "lies inside"
                        : is_outside ? "reaches inside"
                                     : "reaches outside");
    if (ratio.detectable)
      text += fmt::format("; a difference of {} % would have shown", text::significant(100 * *ratio.detectable, 2));
    add(rule, s, id, all_outside ? RuleState::violated : all_inside ? RuleState::kept : RuleState::undecided, text);
  }
  static std::string allowed(const BaselineRule& rule) {
    const auto percent = [](double share) { return text::significant(100 * share, 3) + " %"; };
    std::string text;
    if (rule.most_below) text += percent(*rule.most_below) + " below";
    if (rule.most_above) text += (text.empty() ? "" : ", ") + (percent(*rule.most_above) + " above");
    return " (allowed: at most " + text + ")";
  }

  void check_plain(const BaselineRule& rule, std::size_t s, std::size_t w) {
    const auto mean_of = [&](std::size_t system) -> std::optional<double> {  // over the runs
      const std::vector<const Record*> records = records_of(system, w);
      double sum = 0;
      for (const Record* record : records) {
        const auto value = value_of(record, rule.figure, Scope::none);
        if (!value) return std::nullopt;
        sum += *value / static_cast<double>(records.size());
      }
      return sum;
    };
    const std::optional<double> a = mean_of(comparison_.reference), b = mean_of(s);
    const std::string& id = comparison_.workloads[w].id;
    if (!a || !b || !(*a != 0))
      return add(rule, s, id, RuleState::not_checked, "no " + rule.figure + (a ? "" : " in the baseline"));
    Ratio ratio;
    ratio.value = *b / *a;
    if (std::min(systems_[comparison_.reference].runs.size(), systems_[s].runs.size()) == 1)
      return add(rule, s, id, RuleState::undecided,
                 words::change(*ratio.value) + allowed(rule) + "; " + words::single_run());
    check_ratio(rule, s, id, ratio);
  }

  void check_value(const BaselineRule& rule, std::size_t s, std::size_t w) {
    const std::string& id = comparison_.workloads[w].id;
    const std::vector<const Record*> records = records_of(s, w);
    bool kept = true;
    std::string text;  // of the first run that is outside; else of the first
    for (std::size_t run = 0; run < records.size(); ++run) {
      const auto value = value_of(records[run], rule.figure, rule.scope);
      if (!value) return add(rule, s, id, RuleState::not_checked, run_name(s, run) + "no " + rule.figure);
      const bool inside = *value >= rule.at_least.value_or(-INFINITY) && *value <= rule.at_most.value_or(INFINITY);
      if (text.empty() || (kept && !inside)) text = run_name(s, run) + text::significant(*value, 4);
      kept = kept && inside;
    }
    if (rule.at_least) text += fmt::format(" (at least {})", text::significant(*rule.at_least, 4));
    if (rule.at_most) text += fmt::format(" (at most {})", text::significant(*rule.at_most, 4));
    add(rule, s, id, kept ? RuleState::kept : RuleState::violated, text);
  }

  static std::optional<double> value_of(const Record* record, const std::string& figure, Scope scope) {
    if (record == nullptr || !is_valid(*record)) return std::nullopt;
    const std::optional<double> value = plain_value(*record, figure, scope);
    return value && std::isfinite(*value) ? value : std::nullopt;
  }

  /// "missing", "failed", "flagged throttled"; empty: none of these.
  static std::string failure(const BaselineRule& rule, const Record* record) {
    if (record == nullptr) return "missing";
    const Verdict& verdict = record->verdict;
    if (verdict.status == Status::failed || verdict.status == Status::invalid) return to_string(verdict.status);
    for (const Flag flag : rule.flags)
      if (has_flag(*record, flag)) return std::string("flagged ") + to_string(flag);
    return {};
  }

  /// Of the baseline's points that count.
  void check_failures(const BaselineRule& rule, std::size_t s) {
    std::vector<std::string> failed;
    std::size_t looked_at = 0;
    for (std::size_t w = 0; w < comparison_.workloads.size(); ++w) {
      const std::string& id = comparison_.workloads[w].id;
      const Record* before = records_of(comparison_.reference, w)[0];
      if (!concerns(rule, id) || before == nullptr || !is_valid(*before)) continue;
      ++looked_at;
      const std::vector<const Record*> records = records_of(s, w);
      for (std::size_t run = 0; run < records.size(); ++run)
        if (const std::string what = failure(rule, records[run]); !what.empty()) {
          failed.push_back(run_name(s, run) + id + " is " + what);
          break;  // a point counts once
        }
    }
    if (looked_at == 0) return;
    const bool violated = static_cast<double>(failed.size()) > rule.at_most.value_or(0);
    add(rule, s, "", violated ? RuleState::violated : RuleState::kept,
        failed.empty() ? "none of " + text::count(looked_at, "point")
                       : fmt::format("{} of {} points (at most {}): {}", failed.size(), looked_at,
                                     rule.at_most.value_or(0), fmt::join(failed, ", ")));
  }

  const std::vector<SystemInput>& systems_;
  const Comparison& comparison_;
  std::vector<RuleCheck> checks_;
};

}  // namespace

std::vector<std::string> rule_figures() {
  std::vector<std::string> names;
  for (const Merit& merit : merits()) names.emplace_back(merit.name);
  for (const PlainFigure& figure : plain_figures) names.emplace_back(figure.name);
  return names;
}

std::string compared_figure_of(const std::string& figure) {
  return is_compared(ratio_of(figure)) ? ratio_of(figure) : "";
}

std::vector<RuleCheck> check_baseline(const BaselineRules& rules, const std::vector<SystemInput>& systems,
                                      const Comparison& comparison) {
  return Checker(systems, comparison).check(rules);
}

}  // namespace tw::results
