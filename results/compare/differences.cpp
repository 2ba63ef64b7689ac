#include "results/compare/differences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/flag_notes.hpp"
#include "results/analysis/losses.hpp"
#include "results/analysis/scopes.hpp"
#include "results/cost/cost.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/names_format.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"

namespace tw::results {
namespace {

using text::printable;

constexpr const char* joule_figures[] = {"samples-per-joule", "efficiency", "energy-to-target"};

std::string split(const Workload& w) {
  return fmt::format("{} x {} x {}", w.micro_batch, w.accumulate, text::count(w.ranks, "rank"));
}

bool breaks_a_rule(const FlagName& flag) {
  return std::ranges::any_of(run_rules(), [&](const RunRule& rule) {
    return std::ranges::any_of(rule.flags, [&](const RunRuleFlag& one) { return flag == one.flag; });
  });
}

/// "kept", or of records that break it "broken (short, steps_given)".
struct RuleOutcome {
  bool is_broken = false;
  std::string text;
};
RuleOutcome state_of(std::size_t rule, const std::vector<JudgedRecord>& runs) {
  bool is_broken = false;
  std::set<std::string> flags;
  RunRuleState otherwise = RunRuleState::kept;  // also where the report breaks it in another record
  for (const auto& [record, rules] : runs) {
    const RunRuleCheck& check = (*rules)[rule];
    if (std::ranges::find(check.places, record, &RunRulePlace::record) == check.places.end()) {
      if (check.state != RunRuleState::broken) otherwise = check.state;
      continue;
    }
    is_broken = true;
    for (const RunRuleFlag& one : check.rule->flags)
      if (has_flag(*record, one.flag)) flags.insert(to_string(one.flag));
  }
  if (!is_broken) return {false, to_string(otherwise)};
  const std::string broken = to_string(RunRuleState::broken);
  return {true, flags.empty() ? broken : fmt::format("{} ({})", broken, fmt::join(flags, ", "))};
}

class Finder {
 public:
  void add(const std::string& what, const std::string& a, const std::string& b, bool blocking, const std::string& why,
           std::vector<std::string> figures = {}) {
    if (a == b) return;
    found_.push_back({what, 0, shown(a), shown(b), blocking, why, {}, std::move(figures)});
  }
  void note(const std::string& what, const std::string& a, const std::string& b, const std::string& why = "") {
    add(what, a, b, false, why);
  }
  void block(const std::string& what, const std::string& a, const std::string& b, const std::string& why,
             std::vector<std::string> figures = {}) {
    add(what, a, b, true, why, std::move(figures));
  }
  std::vector<Difference> take() { return std::move(found_); }

 private:
  static std::string shown(const std::string& text) { return text.empty() ? "-" : printable(text); }
  std::vector<Difference> found_;
};

/// Each value once, in the order of appearance: "node1, node2".
template <class Rows, class Of>
std::string distinct(const Rows& rows, Of of) {
  std::vector<std::string> all;
  for (const auto& row : rows)
    if (const std::string one = of(row); !one.empty() && std::ranges::find(all, one) == all.end()) all.push_back(one);
  return fmt::format("{}", fmt::join(all, ", "));
}
std::string mhz(const std::optional<double>& value) { return value ? text::significant(*value, 4) + " MHz" : ""; }

void compare_contexts(Finder& found, const Context& a, const Context& b) {
  const auto hosts = [&](const std::string& what, const std::string& why, auto of) {
    found.note(what, distinct(a.hosts, of), distinct(b.hosts, of), why);
  };
  found.note("hosts", std::to_string(a.hosts.size()), std::to_string(b.hosts.size()));
  hosts("CPU", "", [](const HostInfo& h) { return h.cpu; });
  hosts("cores of a host", "", [](const HostInfo& h) {
    return h.cores > 0 ? fmt::format("{} in {}", h.cores, text::count(h.sockets, "socket")) : "";
  });
  hosts("usable threads", "the job may not use the whole host",
        [](const HostInfo& h) { return std::to_string(h.usable_threads); });
  hosts("hypervisor", "other virtual machines on the same host share its hardware",
        [](const HostInfo& h) { return h.hypervisor.value_or("none"); });
  hosts("container", "", [](const HostInfo& h) { return h.container.value_or("none"); });
  hosts("CPU governor", "it affects the clocks", [](const HostInfo& h) { return h.cpu_governor.value_or(""); });
  hosts("CPU clock limit", "", [](const HostInfo& h) { return mhz(h.cpu_max_mhz); });
  hosts("NICs", "", [](const HostInfo& h) { return fmt::format("{}", fmt::join(h.nics, " + ")); });
  found.note("devices", distinct(a.devices, [](const DeviceEntry& d) { return d.kind + ": " + d.name; }),
             distinct(b.devices, [](const DeviceEntry& d) { return d.kind + ": " + d.name; }));
  found.note("instruction set", distinct(a.devices, [](const DeviceEntry& d) { return d.instruction_set; }),
             distinct(b.devices, [](const DeviceEntry& d) { return d.instruction_set; }));
  const auto each = [&](const std::string& prefix, const std::map<std::string, std::string>& of_a,
                        const std::map<std::string, std::string>& of_b, const std::string& why) {
    std::set<std::string> names;
    for (const auto& [name, value] : of_a) names.insert(name);
    for (const auto& [name, value] : of_b) names.insert(name);
    for (const std::string& name : names) {
      if (name.starts_with("SLURM_")) continue;  // numbers of jobs and nodes
      const auto value = [&](const auto& map) {
        const auto at = map.find(name);
        return at == map.end() ? std::string() : at->second;
      };
      found.note(prefix + printable(name), value(of_a), value(of_b), why);
    }
  };
  each("", a.versions, b.versions, "");
  // Those of the first rank are among the versions.
  const auto libraries = [](const DeviceEntry& d) {
    return d.libraries.empty() ? std::string("none") : fmt::format("{}", fmt::join(d.libraries, " + "));
  };
  const auto are_mixed = [&](const Context& context) {
    return std::ranges::any_of(context.devices,
                               [&](const DeviceEntry& d) { return d.libraries != context.devices.front().libraries; });
  };
  if (are_mixed(a) || are_mixed(b))
    found.note("libraries of the ranks", distinct(a.devices, libraries), distinct(b.devices, libraries));
  each("environment ", a.environment, b.environment, "");
  found.note("launcher", a.launcher, b.launcher);
}

/// How the plan measures, beyond the points: "window_s" and the like.
void compare_plans(Finder& found, const PlanInfo& a, const PlanInfo& b) {
  const auto measures = [](const PlanInfo& plan) {
    std::map<std::string, std::string> all;
    if (!json_fault(plan.canonical_json).empty()) return all;
    const auto json = nlohmann::json::parse(plan.canonical_json);
    if (json.is_object())
      for (const auto& [key, value] : json.items())
        if (value.is_primitive() && key != "suite")
          all[key] = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return all;
  };
  const auto of_a = measures(a), of_b = measures(b);
  if (sha256_hex(a.canonical_json) != sha256_hex(b.canonical_json))
    found.note("plan", a.suite + " " + sha256_hex(a.canonical_json).substr(0, 12),
               b.suite + " " + sha256_hex(b.canonical_json).substr(0, 12), "other points, or measured in another way");
  for (const auto& [key, value] : of_a)
    if (const auto other = of_b.find(key); other != of_b.end() && key == "device_class")
      found.block(device_class_difference, value, other->second,
                  "the suites have other sizes for each class of device: compare runs of one class, or choose another "
                  "class for both with --device-class");
    else if (other != of_b.end())
      found.note("plan: " + printable(key), value, other->second);
}

}  // namespace

Difference made_difference(const std::string& what, const std::string& reference_value, const std::string& system_value,
                           bool blocking, const std::string& why, std::vector<std::string> figures) {
  return {what, 0, reference_value, system_value, blocking, why, {}, std::move(figures)};
}

std::vector<Difference> validation_differences(const SystemInput& system) {
  std::vector<Difference> all;
  const auto add = [&](const char* what, const std::vector<std::string>& lines, bool blocking, const char* why,
                       const std::vector<std::string>& figures = {}) {
    if (lines.empty()) return;
    const std::string more = lines.size() > 1 ? fmt::format(" and {} more", lines.size() - 1) : "";
    all.push_back({what, 0, "", printable(lines[0]) + more, blocking, why, {}, figures});
  };
  add(validation_difference, system.faults, true,
      "the report is inconsistent, so no claim is made; `trainwatt validate` lists the faults");
  add("note of validation", system.notes, false, "`trainwatt validate` lists all");
  std::vector<std::string> of_joules;
  for (const ComparedFigure& figure : compared_figures())
    if (figure.by_scope || (figure.is_cost() && costs::pays_for_joules(system.price))) of_joules.push_back(figure.name);
  add("energy and power", system.joule_doubts, true,
      "the energy and the power samples beside it differ by more than a factor of 1.25, so neither energy nor a cost "
      "of electricity is claimed: measure again, or with another meter",
      of_joules);
  for (const MissingField& field : system.missing_fields)
    if (!field.figures.empty())
      add("missing field", {fmt::format("{}, of schema version {}", field.pointer, field.since)}, true,
          "the version of the report does not have this field, and the figure needs it", field.figures);
  return all;
}

std::vector<Difference> report_differences(const SystemInput& reference, const SystemInput& system) {
  Finder found;
  const Report &a = reference.runs[0], &b = system.runs[0];
  const auto program = [](const Report& r) {
    return fmt::format("{} {} ({})", r.program.name, r.program.version, r.program.git_commit);
  };
  found.note("program", program(a), program(b), "another version may compute figures differently");
  compare_plans(found, a.plan, b.plan);
  compare_contexts(found, a.context, b.context);
  const auto state = [](const Report& r) {
    const std::size_t missing = missing_points(r).size();
    return std::string(was_interrupted(r.context)      ? "interrupted"
                       : r.context.finished_at.empty() ? "not finished"
                                                       : "finished") +
           (missing > 0 ? fmt::format(", {} missing", text::count(missing, "point")) : "");
  };
  found.note("run", state(a), state(b));
  if (a.context.launch && a.context.launch == b.context.launch)
    found.note(own_run, "", "no: same as the reference", "neither has the variation between runs");
  const auto forced = [](const Report& r) {
    std::size_t count = 0;
    for (const RunPart& part : r.parts.value_or(std::vector<RunPart>())) count += part.forced_over.size();
    return count == 0 ? std::string("no") : "over " + text::count(count, "difference");
  };
  found.note("resumed by force", forced(a), forced(b), "parts of the run were measured under other conditions");
  return found.take();
}

std::vector<Difference> record_differences(const Record& reference, const Record& system) {
  Finder found;
  const Workload &a = reference.workload, &b = system.workload;
  if (a.model != b.model || a.layers != b.layers || a.table_rows_at_most != b.table_rows_at_most ||
      a.seq_len != b.seq_len || a.optimizer != b.optimizer || a.parameters != b.parameters) {
    const auto shape = [](const Workload& w) {
      return fmt::format("{}{}{}{}, {}, {} parameters", w.model,
                         w.layers ? " cut to " + text::count(*w.layers, "layer") : "",
                         w.table_rows_at_most ? fmt::format(", tables of at most {} rows", *w.table_rows_at_most) : "",
                         w.seq_len ? fmt::format(", {} {}", *w.seq_len, w.positions()) : "", w.optimizer, w.parameters);
    };
    found.block("workload", shape(a), shape(b), "they train different workloads");
  }
  const auto target = [](const Record& r) {
    if (!r.target) return std::string("none");
    const Target& t = *r.target;
    const Schedule& s = t.schedule;
    return fmt::format("{} {} <= {}, {} samples every {} steps, learning rate {} to {} of it, {} + {} steps", t.task,
                       t.metric, t.value, t.held_out_samples, t.evaluation_interval, s.learning_rate, s.final_share,
                       s.warmup_steps, s.decay_steps) +
           (t.drawn_tokens ? fmt::format(", {} different tokens", *t.drawn_tokens) : "");
  };
  found.block("target", target(reference), target(system), "they train to different targets");
  if (a.hash != b.hash)
    found.block("workload hash", a.hash.substr(0, 12), b.hash.substr(0, 12), "they train different workloads");
  std::string why_batch = "a different batch size needs a different number of samples to reach a target";
  if (a.global_batch * b.ranks == b.global_batch * a.ranks)
    why_batch += "; it grew with the number of ranks: give both the same --global-batch (a kit can fix it)";
  found.block("global batch", std::to_string(a.global_batch), std::to_string(b.global_batch), why_batch);
  found.block("precision", a.precision, b.precision, "lower precision is less work");
  if (!rule_of_flops.is(reference.summary.flops_rule) || !rule_of_flops.is(system.summary.flops_rule))
    found.block("FLOP rule", reference.summary.flops_rule, system.summary.flops_rule,
                "their FLOPs are counted by different rules", {"efficiency"});
  const auto status = [](const Record& r) {
    return to_string(r.verdict.status) + (r.verdict.reasons.empty() ? "" : ": " + r.verdict.reasons.front());
  };
  if (reference.verdict.status == Status::unsupported || system.verdict.status == Status::unsupported) {
    found.note("verdict", status(reference), status(reference) == status(system) ? "the same" : status(system),
               "unsupported points are excluded from the means of all systems");
    return found.take();
  }
  if (!is_valid(reference) || !is_valid(system))
    found.block("verdict", status(reference), status(reference) == status(system) ? "the same" : status(system),
                "points that do not count are not compared");
  if (const auto pair = furthest_first_losses(reference, system); pair && losses_differ(*pair))
    found.block("losses_differ", fmt::format("{} in step {}", text::significant(pair->a), pair->step),
                fmt::format("{} in step {}", text::significant(pair->b), pair->step),
                "the same weights and data give the same first losses: one of the two did not train what it states");
  const auto reduction = [](const Record& r) {  // reports from before there was a choice: float32
    return r.execution ? r.execution->reduce_precision.value_or("float32") : "float32";
  };
  found.block("precision of summed gradients", reduction(reference), reduction(system),
              "bf16 halves the bytes that ranks exchange, and rounds their gradients");
  found.note("device", a.device, b.device);
  found.note("split of the batch", split(a), split(b));
  found.note("threads of a rank", std::to_string(a.threads_per_rank), std::to_string(b.threads_per_rank));
  std::set<std::string> names;
  std::set<FlagName> flags;
  for (const Record* r : {&reference, &system}) {
    for (const auto& [name, setting] : r->setting) names.insert(name);
    flags.insert(r->verdict.flags.begin(), r->verdict.flags.end());
  }
  for (const std::string& name : names) {
    const auto of = [&](const Record& r) {
      const auto at = r.setting.find(name);
      return at == r.setting.end() ? Setting() : at->second;
    };
    const Setting of_a = of(reference), of_b = of(system);
    const auto asked = [](const Setting& s) {
      return s.requested ? text::set_point(*s.requested) : std::string("found");
    };
    found.note(printable(name) + " requested", asked(of_a), asked(of_b));
    if (!of_a.observed || !of_b.observed) continue;
    const double least = std::min(of_a.observed->number, of_b.observed->number),
                 most = std::max(of_a.observed->number, of_b.observed->number);
    if (of_a.observed->name != of_b.observed->name || most - least > clock_tolerance * most)
      found.note(printable(name) + " observed", text::observed(*of_a.observed), text::observed(*of_b.observed));
  }
  std::vector<Difference> all = found.take();
  for (const FlagName& flag : flags) {
    const bool blocking = flag.is(FlagUse::blocks);
    if (breaks_a_rule(flag) && !blocking) continue;
    all.push_back(made_difference("flag " + printable(flag.name), has_flag(reference, flag) ? "yes" : "no",
                                  has_flag(system, flag) ? "yes" : "no", blocking, note_of(flag)));
  }
  return all;
}

std::string between_runs(std::size_t run, const std::string& why) {
  return fmt::format("between its runs 1 and {}{}", run, why.empty() ? "" : ": " + why);
}

std::vector<Difference> run_differences(const Record* first, const Record* other, std::size_t run) {
  if (first == nullptr || other == nullptr) return {};
  std::vector<Difference> all = record_differences(*first, *other);
  std::erase_if(all, [](const Difference& d) { return !d.blocking || d.reference_value == d.system_value; });
  for (Difference& difference : all) difference.why = between_runs(run, difference.why);
  return all;
}

std::vector<Difference> rule_differences(const std::vector<JudgedRecord>& reference,
                                         const std::vector<JudgedRecord>& system) {
  std::vector<Difference> all;
  if (reference.empty() || system.empty()) return all;
  for (std::size_t rule = 0; rule < run_rules().size(); ++rule) {
    const RuleOutcome of_reference = state_of(rule, reference), of_system = state_of(rule, system);
    if (!of_reference.is_broken && !of_system.is_broken) continue;
    const RunRule& its = run_rules()[rule];
    all.push_back({"run rule " + its.id, 0, of_reference.text, of_system.text, false, its.asks, {}, {}});
  }
  return all;
}

/// Those that every one of the records has joules of.
static std::vector<Scope> scopes_of(const std::vector<const Record*>& records) {
  std::vector<Scope> all;
  for (const auto& [scope, joules] : records.front()->summary.energy_j)
    if (std::ranges::all_of(records, [&](const Record* r) {
          const auto its = r->summary.energy_j.find(scope);
          return its != r->summary.energy_j.end() && its->second.has_value();
        }))
      all.push_back(scope);
  return all;
}

/// Why records with joules have none that can be compared.
static std::string why_no_joules(const std::vector<const Record*>& records, const std::vector<Scope>& telling) {
  const std::vector<Scope> common = scopes_of(records);
  if (common.empty()) return "joules of different scopes are never compared, and these have no scope in common";
  std::set<std::string> set;
  for (const Record* r : records)
    for (const auto& [name, setting] : r->setting)
      if (setting.requested) set.insert(name);
  return fmt::format(
      "joules of {} do not include all that training on {} draws{}: joules of scope {} are needed",
      fmt::join(common, ", "), printable(records.front()->workload.device),
      set.empty() ? "" : fmt::format(" while {} was set", printable(fmt::format("{}", fmt::join(set, ", ")))),
      fmt::join(telling, " or "));
}

std::vector<Difference> energy_differences(const std::vector<const Record*>& reference,
                                           const std::vector<const Record*>& system, Scope scope) {
  Finder found;
  const auto methods = [&](const std::vector<const Record*>& runs) {
    std::set<std::string> all;
    for (const Record* run : runs) {
      std::set<std::string> of_run;
      for (const Trial& trial : run->trials)
        for (const EnergyRow& row : trial.energy)
          if (row.scope == scope && row.counted && row.energy_j)
            of_run.insert(row.domain.substr(0, row.domain.find(':')) + " " + row.method);
      if (of_run.empty()) return std::string();
      all.merge(of_run);
    }
    return fmt::format("{}", fmt::join(all, ", "));
  };
  const auto scopes = [](const std::vector<const Record*>& runs) {
    const std::vector<Scope> all = scopes_of(runs);
    return all.empty() ? std::string("none") : fmt::format("{}", fmt::join(all, ", "));
  };
  std::vector<const Record*> both = reference;
  both.insert(both.end(), system.begin(), system.end());
  const std::vector<std::string> figures(std::begin(joule_figures), std::end(joule_figures));
  const std::string of_a = methods(reference), of_b = methods(system), scopes_a = scopes(reference),
                    scopes_b = scopes(system);
  std::vector<Difference> all;
  const std::vector<Scope> telling = telling_scopes(both);
  if (of_a.empty() || of_b.empty()) {
    if (scopes_a != "none" || scopes_b != "none")
      all.push_back({"scope of energy", 0, scopes_a, scopes_b, true, why_no_joules(both, telling), {}, figures});
    return all;
  }
  if (std::ranges::find(telling, scope) == telling.end())
    all.push_back(made_difference("scope of energy", scopes_a, scopes_b, true,
                                  "joules of the scope " + scope + " do not include all that this training draws",
                                  figures));
  found.add("method of energy (" + scope + ")", of_a, of_b, false,
            "each method has its own errors, which the intervals do not include", figures);
  for (Difference& one : found.take()) all.push_back(std::move(one));
  return all;
}

static const std::vector<std::string> cost_figures = {"cost", "cost-to-target"};

std::vector<Difference> cost_differences(const CostGround& system) {
  if (!system.is_mixed) return {};
  return {made_difference("basis of cost", "", system.text, true,
                          "its runs have costs of different kinds, which have no common mean", cost_figures)};
}

std::vector<Difference> cost_differences(const CostGround& reference, const CostGround& system) {
  if (reference.is_mixed || system.is_mixed) return {};
  Finder found;
  found.block("basis of cost", reference.text, system.text,
              "a cost and a lower bound, or different lower bounds, are never compared", cost_figures);
  std::vector<Difference> all = found.take();
  if (all.empty() && reference.basis != CostBasis::complete)
    all.push_back(made_difference("basis of cost", reference.text, system.text, false,
                                  "both are lower bounds: the missing part may reverse the order", cost_figures));
  return all;
}

std::vector<Difference> merged_differences(std::vector<Difference> differences, std::size_t workloads) {
  std::vector<Difference> merged;
  for (Difference& one : differences) {
    const auto same = std::ranges::find_if(merged, [&](const Difference& other) {
      return other.what == one.what && other.system == one.system && other.reference_value == one.reference_value &&
             other.system_value == one.system_value && other.why == one.why;
    });
    if (same == merged.end())
      merged.push_back(std::move(one));
    else
      for (const std::size_t w : one.workloads)
        if (std::ranges::find(same->workloads, w) == same->workloads.end()) same->workloads.push_back(w);
  }
  for (Difference& one : merged) {
    std::ranges::sort(one.workloads);
    if (one.workloads.size() == workloads) one.workloads.clear();
  }
  std::ranges::stable_sort(merged, std::ranges::greater(), &Difference::blocking);
  return merged;
}

}  // namespace tw::results
