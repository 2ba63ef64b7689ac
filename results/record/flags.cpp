#include "results/record/flags.hpp"

namespace tw::results {
namespace {

constexpr FlagUse note, blocks{FlagUse::blocks}, voids_joules{FlagUse::voids_joules}, fails_run{FlagUse::fails_run};
constexpr FlagUse disturbs(const char* why) { return {FlagUse::disturbs, why}; }

constexpr FlagFacts all[] = {
#define TRAINWATT_FLAG(flag, name, source, use, ...) {FlagSource::source, use, __VA_ARGS__},
#include "results/record/flags.def"
#undef TRAINWATT_FLAG
};

}  // namespace

const FlagFacts& facts_of(Flag flag) { return all[static_cast<std::size_t>(flag)]; }

}  // namespace tw::results
