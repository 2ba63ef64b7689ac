// The script that makes several runs of a plan.
#pragma once

namespace tw::results {

/// scripts/repeat by the name that it has beside the programs, in a build folder and installed. Texts for users name it
/// thus: an installation has no scripts/ where the user works.
inline constexpr const char* repeat_program = "trainwatt-repeat";

}  // namespace tw::results
