// The commands of `trainwatt`. Each is one file with its options and its work, and one line of the table in main.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tw::bench::tool {

/// Prints to stdout and returns the exit code (bench/README.md, exit codes).
using Action = std::function<int()>;

/// The command line.
struct Words {
  std::vector<std::string> all;
  std::vector<std::string> behind_dashes;  ///< of another program, which `meter` runs
};

inline constexpr int exit_usage = 2, exit_environment = 3;
inline constexpr int meter_failure = 125;  ///< of `meter` itself: the command's own code passes through

/// Adds the options of a command; what to do once they were read.
Action add_bundle(CLI::App& command, const Words& words);
Action add_compare(CLI::App& command, const Words& words);
Action add_cost(CLI::App& command, const Words& words);
Action add_export(CLI::App& command, const Words& words);
Action add_freeze(CLI::App& command, const Words& words);
Action add_html(CLI::App& command, const Words& words);
Action add_meter(CLI::App& command, const Words& words);
Action add_models(CLI::App& command, const Words& words);
Action add_plan(CLI::App& command, const Words& words);
Action add_probe(CLI::App& command, const Words& words);
Action add_restore(CLI::App& command, const Words& words);
Action add_show(CLI::App& command, const Words& words);
Action add_validate(CLI::App& command, const Words& words);

}  // namespace tw::bench::tool
