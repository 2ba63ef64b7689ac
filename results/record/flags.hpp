// The flags of a verdict (results/record/flags.def), and what logic asks of each.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <utility>

#include "results/record/names.hpp"

namespace tw::results {

enum class Flag {
#define TRAINWATT_FLAG(flag, ...) flag,
#include "results/record/flags.def"
#undef TRAINWATT_FLAG
};
template <>
inline constexpr std::array name_list<Flag> = {
#define TRAINWATT_FLAG(flag, name, ...) name,
#include "results/record/flags.def"
#undef TRAINWATT_FLAG
};

enum class FlagSource {
  samples,  ///< summarise() of results/analysis/verdict.hpp, each time anew
  records,  ///< several records together (flag_unstable() of results/analysis/conditions.hpp)
  program,  ///< whoever measured
};
struct FlagUse {
  enum Kind {
    notes,     ///< nothing: people read it
    blocks,    ///< the point's figures say nothing of the machine's speed at this work: it is compared with nothing
    disturbs,  ///< a comparison claims nothing of a run that has it (words::Trials)
    voids_joules,  ///< named as the reason of an energy row of a meter that is not believed
    fails_run,     ///< a run to a target is not what was asked for: trainwatt-train ends with 1
  } kind = notes;
  const char* why = "";  ///< of those that disturb: what happened
};
struct FlagFacts {
  FlagSource source;
  FlagUse use;
  const char *text, *of_command = nullptr;  ///< thresholds by name: note_of() of results/analysis/flag_notes.hpp
};
const FlagFacts& facts_of(Flag flag);

/// A flag of a record: one of the list, or a name that this version does not know.
struct FlagName {
  FlagName() = default;
  FlagName(Flag flag) : name(to_string(flag)) {}
  explicit FlagName(std::string text) : name(std::move(text)) {}
  std::string name;
  std::optional<Flag> known() const { return named<Flag>(name); }
  /// Whether it is known and of this use.
  bool is(FlagUse::Kind kind) const { return known() && facts_of(*known()).use.kind == kind; }
  auto operator<=>(const FlagName&) const = default;
};

}  // namespace tw::results
