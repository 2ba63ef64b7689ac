// By which figure points are sorted, and how.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// A figure of merit: what --sort names.
struct Merit {
  std::string_view name;  ///< "throughput", "efficiency"
  std::string_view what;  ///< "samples/s", "FLOP/J"
  bool more_is_better;
  bool by_scope;  ///< of joules: of one scope, never of two in one order
  bool across_workloads;  ///< comparable between workloads (FLOPs, shares); else each workload has its own order
  /// Absent if a record has none, as where a run did not reach its target. `scope` counts where by_scope.
  std::optional<double> (*of)(const Summary& summary, Scope scope);
};
std::span<const Merit> merits();
/// Null if none has that name.
const Merit* find_merit(const std::string& name);

/// A figure of merit, of one scope where it is of joules.
struct Order {
  const Merit* merit = nullptr;  ///< null: no figure orders them
  Scope scope = Scope::none;     ///< "package"; empty if the figure has none
  /// Where no figure orders them: networks by name and size, then precisions, then batch, accumulation, ranks and
  /// settings, each ascending; false: the order of the run.
  bool by_axes = false;
};
/// Of `scope`; if that is none, of the scope for which most records have the figure, among those that hold for all
/// records with joules (results/analysis/scopes.hpp; in case of a tie the widest).
Order order_by(const Merit& merit, Scope scope, const std::vector<Record>& records);
/// "package FLOP/J"
std::string text_of(const Order& order);

/// How sort_records orders these ("by package FLOP/J, best first; points that do not count come last"), or why not.
std::string explain(const Order& order, const std::vector<Record>& records);

/// Best first (of each workload, in the order of the run, where the figure is of samples): valid records by the figure,
/// then valid ones without it, then invalid ones, whose figures do not count, and last those that did not run; among
/// equals the order of the run. Without a figure: by_axes.
void sort_records(std::vector<Record>& records, const Order& order);
/// The same without changing them.
std::vector<const Record*> in_order(const std::vector<Record>& records, const Order& order);

/// The scopes in the order in which they are looked at.
inline constexpr Scope scopes_in_order[] = {Scope::device, Scope::package, Scope::node, Scope::dram, Scope::facility};
/// These, then others that the records have.
std::vector<Scope> scopes_of(const std::vector<Record>& records);
/// Of these, those of which some record has joules, or a reason why it has none.
std::vector<Scope> measured_scopes(const std::vector<Record>& records);

}  // namespace tw::results
