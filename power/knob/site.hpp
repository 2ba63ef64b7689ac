// A site's own commands for a knob: where only a helper of the site may turn it (sudo rules, a daemon's client).
//
// The file (`--site site.json`; other keys of it belong to others) holds
//   {"knobs": [{
//     "kind": "gpu_clock_mhz",                  a record's key (power/knob/knob.hpp)
//     "domain": "nvml:GPU-…",                   optional; takes the place of the knob of that kind and domain, without
//                                             it ("site") of all knobs of that kind
//     "set": ["site-clocks", "lock", "{value}"],   words, no shell; {value} is the set point in the kind's unit
//     "reset": ["site-clocks", "reset"],        puts back; {value} is what "get" said at the start
//     "get": ["site-clocks", "show"],           optional: prints the set point; the first number (or governor's name)
//                                               in the first 4 KiB counts
//     "refused": "not allowed|denied",          optional: in a line of the output means no, as some exit with 0;
//                                               ECMAScript, case does not matter; looked for in pieces of 1000 bytes
//                                               of a longer line
//     "minimum": 300, "maximum": 1980,          what it takes,
//     "values": [900, 1200, 1500]               or these alone; ["performance", "powersave"] of a "cpu_governor"
//   }]}
// The first word of each is the program: a path, which counts from the folder that the run is started in unless it
// begins with "/", or a name that is looked for in PATH. The journal records the path that was
// found. Whatever restores the setting later (the guardian, the next run, an epilog, each with another folder and PATH)
// runs the program by this path. A knob whose programs are not there, or not executable, cannot be turned: its finding
// has the reason, and nothing is run. Of an output the first and the last 32 KiB are looked at. A command that ends
// with another code than 0, says what `refused` matches, or takes over a minute, has refused. For root the file and the
// programs that it names must belong to root and be writable by no other user, since they are run; what else their
// folders let others do is the site's to see to.
#pragma once

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"

namespace tw::power::site {

constexpr const char* whole_node = "site";  ///< the domain of an entry that names none

/// What is wrong with the file, with its name and the entry's, for whoever wrote it or named it.
struct SiteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `programs`: where those are that a journal knows (KnobOptions). Throws SiteError if the file cannot be read, is
/// wrong or is not to be trusted. Runs no command.
std::vector<KnobFinding> find_knobs(const std::filesystem::path& file,
                                    const std::map<std::string, std::string>& programs = {});

}  // namespace tw::power::site
