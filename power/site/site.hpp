// A site's own commands for a knob: where only a helper of the site may turn it (sudo rules, a daemon's client).
//
// The file (`--site site.json`; other keys of it belong to others) holds
//   {"knobs": [{
//     "kind": "gpu_clock_mhz",                  a record's key (power/knob.hpp)
//     "domain": "nvml:GPU-…",                   optional; takes the place of the knob of that kind and domain, without
//                                             it ("site") of all knobs of that kind
//     "set": ["site-clocks", "lock", "{value}"],   words, no shell; {value} is the set point in the kind's unit
//     "reset": ["site-clocks", "reset"],        puts back; {value} is what "get" said at the start
//     "get": ["site-clocks", "show"],           optional: prints the set point, the first number counts (or governor's name)
//     "refused": "not allowed|denied",          optional: in the output means no, as some exit with 0; ECMAScript, case
//                                               does not matter
//     "minimum": 300, "maximum": 1980,          what it takes,
//     "values": [900, 1200, 1500]               or these alone; ["performance", "powersave"] of a "cpu_governor"
//   }]}
// A command that ends with another code than 0, says what `refused` matches, or takes over a minute, has refused. For
// root the file must belong to root and be writable by nobody else, since its commands are run.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <vector>

#include "power/knob.hpp"

namespace tw::site {

constexpr const char* whole_node = "site";  ///< the domain of an entry that names none

/// What is wrong with the file, with its name and the entry's, for whoever wrote it or named it.
struct SiteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws SiteError where the file cannot be read, is wrong or is not to be trusted. Runs no command.
std::vector<KnobFinding> find_knobs(const std::filesystem::path& file);

}  // namespace tw::site
