// Another program, run as a shell would, with its output looked at.
#pragma once

#include <string>
#include <vector>

#include "bench/tool/meter/output_parser.hpp"

namespace tw::bench::tool {

/// The command's exit code, as a shell has it: 128 + the number of a signal. With a parser, its standard output is
/// copied through and looked at. A signal is the command's while there is one; if this process is killed, the command
/// gets SIGTERM (ProgramStart::ends_with_this). Call it from the main thread. Throws std::system_error.
int run_command(const std::vector<std::string>& command, OutputParser* parser);

/// Whether a signal came when the command had ended: this program is to end. It has no other effect.
bool told_to_end();

}  // namespace tw::bench::tool
