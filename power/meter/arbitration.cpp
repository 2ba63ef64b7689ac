#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "power/meter/domain_kinds.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power {
namespace {

// A source without a rank would be behind all others.
#define TW_ENERGY_SOURCE(folder, kind)                                                            \
  static_assert(std::ranges::count(domain_kinds, std::string_view(kind), &DomainKind::name) == 1, \
                #folder " of sources.def has no rank in domain_kinds.hpp");
#include "power/meter/sources.def"

/// One source's sensors of one scope.
struct Candidate {
  std::string source;
  std::map<std::string, MeterFinding*> best;  // by id
  std::vector<MeterFinding*> beaten, missing;

  void add(MeterFinding& finding) {
    MeterFinding*& place = best[id_of(finding.domain)];
    if (!place) {
      place = &finding;
    } else if (finding.meter->method() < place->meter->method()) {
      beaten.push_back(place);
      place = &finding;
    } else {
      beaten.push_back(&finding);
    }
  }
  bool covers(const MeterFinding& absent) const { return best.count(id_of(absent.domain)) > 0; }
  bool is_complete() const {
    return std::ranges::all_of(missing, [this](const MeterFinding* one) { return covers(*one); });
  }
  EnergyMethod worst_method() const {
    EnergyMethod worst = EnergyMethod::counter;
    for (const auto& [id, finding] : best) worst = std::max(worst, finding->meter->method());
    return worst;
  }
  auto order() const { return std::tuple(!is_complete(), worst_method(), rank_of_source(source), source); }
};

void leave_out(MeterFinding& finding, const std::string& reason, const std::string& why) {
  finding.counted = false;
  finding.reason = reason;
  finding.detail += (finding.detail.empty() ? "" : "; ") + why;
}

void arbitrate_scope(std::vector<MeterFinding>& findings, EnergyScope scope) {
  std::map<std::string, Candidate> candidates;
  std::vector<MeterFinding*> estimates;
  for (MeterFinding& finding : findings) {
    const std::string source(kind_of(finding.domain).source);
    if (finding.meter && finding.meter->scope() == scope && finding.reason.empty()) {
      if (finding.meter->method() == EnergyMethod::estimate)
        estimates.push_back(&finding);
      else
        candidates[source].add(finding);
    } else if (!finding.meter && finding.scope == scope && finding.reason != "not_visible") {
      candidates[source].missing.push_back(&finding);
    }
  }
  for (auto& [source, candidate] : candidates) candidate.source = source;
  const Candidate* chosen = nullptr;
  for (const auto& [source, candidate] : candidates)
    if (!candidate.best.empty() && (!chosen || candidate.order() < chosen->order())) chosen = &candidate;

  for (MeterFinding* estimate : estimates) {
    if (chosen)
      leave_out(*estimate, "duplicate", "an estimate is not counted if there is a meter");
    else
      leave_out(*estimate, "estimate", "estimates are shown, never counted");
  }
  if (!chosen) return;
  const std::string counted = chosen->best.size() == 1 ? chosen->best.begin()->second->domain : chosen->source;
  for (const auto& [source, candidate] : candidates) {
    const bool is_chosen = &candidate == chosen;
    for (const auto& [id, finding] : candidate.best) {
      if (is_chosen)
        finding->counted = true;
      else
        leave_out(*finding, "duplicate", "a cross-check of " + counted + ", which is counted");
    }
    for (MeterFinding* finding : candidate.beaten)
      leave_out(*finding, "duplicate",
                "a cross-check of " + (is_chosen ? candidate.best.at(id_of(finding->domain))->domain : counted) +
                    ", which is counted");
    for (MeterFinding* finding : candidate.missing)
      if (is_chosen ? candidate.covers(*finding) : chosen->is_complete()) finding->scope.reset();
  }
}

}  // namespace

void arbitrate(std::vector<MeterFinding>& findings) {
#define TW_ENERGY_SCOPE(name, watts) arbitrate_scope(findings, EnergyScope::name);
#include "power/meter/scopes.def"
}

}  // namespace tw::power
