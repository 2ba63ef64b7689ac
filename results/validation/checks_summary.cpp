// Every figure, flag and reason of a record, computed again from its samples.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "results/analysis/convergence.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/known_texts.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::json;

/// A profiled step's operators are timed inside the step, with a clock read around each.
constexpr double op_share_slack = 1.05;

/// Summation order and text rounding, nothing more.
bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

void check_band(const Record& record, const std::string& at, Findings& found) {
  const std::optional<Target>& target = record.target;
  if (!target) return;
  const ReferenceFinding finding = check_reference(record);
  if (!finding.fault.empty()) found.broken("reference_differs", at + "/reference", finding.fault);
  if (!finding.note.empty()) found.note("reference_not_checked", at + "/reference", finding.note);
  if (target->reference.has_value() == !target->reference_reason.empty())
    found.broken("reason_missing", at + "/reference",
                 target->reference ? "is given although reference_reason is, too" : "is null without reference_reason");
  if (!target->reference) return;
  const ConvergenceReference& r = *target->reference;
  if (!(r.steps_low <= r.steps_mean && r.steps_mean <= r.steps_high))
    found.broken("reference_differs", at + "/reference", "has a band that does not hold its mean");
}

/// What does not follow from the samples alone.
void check_stated(const Record& record, std::size_t place, bool is_newer, Findings& found) {
  const std::string at = place_of(place);
  const Workload& w = record.workload;
  std::int64_t batch = 0;
  if (__builtin_mul_overflow(w.micro_batch, w.accumulate, &batch) || __builtin_mul_overflow(batch, w.ranks, &batch) ||
      w.global_batch != batch)
    found.broken("batch_differs", at + "/workload/global_batch", "is not micro_batch x accumulate x ranks");
  if (is_valid(record) && record.trials.empty())
    found.broken("trials_missing", at + "/trials", "a valid record has none");
  std::set<FlagName> flags;  // not by uniqueItems of the schema, which costs the square of their number
  for (const FlagName& flag : record.verdict.flags)
    if (!flags.insert(flag).second) {
      found.broken("flag_duplicate", at + "/verdict/flags", "\"" + flag.name + "\" occurs twice");
      break;
    }
  if (!is_newer)
    for (const FlagName& flag : flags)
      if (!flag.known())
        found.broken("flag_unknown", at + "/verdict/flags",
                     "\"" + flag.name + "\" is no flag of this or an earlier schema version");
  const bool was_measured = is_valid(record) || record.verdict.status == Status::invalid;
  if (was_measured && w.hash.empty())
    found.broken("workload_hash", at + "/workload/hash", "is empty though the point ran");
  if (!w.hash.empty() && w.hash != workload_hash(w, record.target))
    found.broken("workload_hash", at + "/workload/hash", "is not that of this workload");
  check_band(record, at + "/target", found);

  const Summary& s = record.summary;
  const std::string summary = at + "/summary";
  if (s.of_ceiling && s.flops_per_s && s.ceiling_flops_per_s)
    if (!close(*s.of_ceiling, s.flops_per_s->value / *s.ceiling_flops_per_s))
      found.broken("ceiling_differs", summary + "/of_ceiling", "is not flops_per_s / ceiling_flops_per_s");
  if (!s.of_ceiling && s.of_ceiling_reason.empty())
    found.broken("reason_missing", summary + "/of_ceiling", "is null without of_ceiling_reason");
  if (s.mfu && *s.mfu > 1)
    found.broken("mfu_above_peak", summary + "/mfu", "is over 1: no device computes faster than its peak");
  else if (s.mfu && !s.peak_flops_per_s)
    found.broken("mfu_without_peak", summary + "/mfu", "must be null: peak_flops_per_s is");
  if (!s.mfu && s.mfu_reason.empty()) found.broken("reason_missing", summary + "/mfu", "is null without mfu_reason");
  bool absent = s.energy_j.empty();
  for (const auto& [scope, energy] : s.energy_j) absent = absent || !energy;
  if (absent && s.energy_reason.empty())
    found.broken("reason_missing", summary + "/energy_j", "is null without energy_reason");
  double shares = 0;
  for (const auto& [op, share] : s.op_share) shares += share;
  if (shares > op_share_slack)
    found.broken("op_share_sum", summary + "/op_share", "adds up to more than its step");
  if (s.hardware_flops_per_sample && *s.hardware_flops_per_sample < s.model_flops_per_sample)
    found.broken("hardware_flops", summary + "/hardware_flops_per_sample", "is less than the model's");
  if ((s.flops_per_s || s.mfu) && s.flops_rule.empty())
    found.broken("flops_rule_missing", summary + "/flops_rule", "is empty beside a FLOP rate");
}

/// Walks what the file says and what the samples give. Reasons are compared by their codes, so that prose may change:
/// the figures on which they rest are compared by themselves.
class Comparison {
 public:
  Comparison(const std::set<std::string>& later, bool is_newer, Findings& found)
      : later_(later), is_newer_(is_newer), found_(found) {}

  void walk(const Json& stated, const Json& computed, const std::string& at) {
    if (stated.is_number() && computed.is_number()) {
      // An older program left Student's t below 0, where none of these figures can be: the same interval.
      const bool is_same_end = at.ends_with("/low") && computed == 0 && stated.get<double>() < 0;
      if (!is_same_end && !close(stated.get<double>(), computed.get<double>())) differ(stated, computed, at);
    } else if (stated.is_object() && computed.is_object()) {
      for (const auto& [key, value] : computed.items()) {
        if (later_.contains(at + "/" + key)) continue;  // noted by name
        walk(stated.contains(key) ? stated[key] : Json(), value, at + "/" + key);
      }
      for (const auto& [key, value] : stated.items())
        if (!computed.contains(key) && !is_newer_) walk(value, Json(), at + "/" + key);
    } else if (stated.is_string() && computed.is_string() && at.ends_with("reason")) {
      if (!same_reason(text_of(stated), text_of(computed))) differ(stated, computed, at);
    } else if (stated.is_array() && computed.is_array() && at.ends_with("/reasons")) {
      if (!std::ranges::equal(stated, computed, same_reason, text_of, text_of)) differ(stated, computed, at);
    } else if (stated != computed) {
      differ(stated, computed, at);
    }
  }

 private:
  static std::string text_of(const Json& reason) { return reason.get<std::string>(); }
  void differ(const Json& stated, const Json& computed, const std::string& at) {
    found_.broken("figure_differs", at, "is " + stated.dump() + ", the samples give " + computed.dump());
  }
  const std::set<std::string>& later_;
  const bool is_newer_;
  Findings& found_;
};

/// Takes those that the file has not out of `computed`.
void find_left_out_flags(std::size_t place, const Json& stated, Json& computed, Findings& found) {
  Json left = Json::array();
  for (const Json& flag : computed)
    if (std::ranges::find(stated, flag) == stated.end())
      found.left_out_flag(place, FlagName(flag.get<std::string>()));
    else
      left.push_back(flag);
  computed = std::move(left);
}

}  // namespace

void check_summaries(std::vector<Record>& records, const std::vector<std::string>& lines,
                     const std::set<std::string>& later, bool is_newer, Findings& found) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    check_stated(records[i], i, is_newer, found);
    // Everything else that follows from the samples must be what the samples say.
    Record& record = records[i];
    const Summary summary = record.summary;
    const Verdict verdict = record.verdict;
    summarise(record, interval_rule(summary));
    std::vector<Trial> trials;
    std::swap(trials, record.trials);
    Json computed = Json::parse(to_json_line(record));
    record.trials = std::move(trials), record.summary = summary, record.verdict = verdict;
    const Json stated = Json::parse(lines[i]);
    find_left_out_flags(i, stated["verdict"]["flags"], computed["verdict"]["flags"], found);
    Comparison comparison(later, is_newer, found);
    comparison.walk(stated["summary"], computed["summary"], place_of(i) + "/summary");
    comparison.walk(stated["verdict"], computed["verdict"], place_of(i) + "/verdict");
  }
}

}  // namespace tw::results
