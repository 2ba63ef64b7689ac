// The options of a program in the formats of manuals and shells, from the CLI::App that --help prints, too.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tw::bench {

/// The words that an option takes: "--device" -> "auto", "cpu", …. Values of other options are completed as files.
using KnownWords = std::map<std::string, std::vector<std::string>>;

/// Adds the hidden option --describe with the formats man (a page of section 1 in roff), bash, zsh and fish
/// (completion), which the build calls for what it installs. `format` has to outlive the parsing.
void add_describe_option(CLI::App& app, std::string& format);
/// The text in one of these formats. `version`: of the program.
std::string describe(const CLI::App& app, const std::string& format, const std::string& version,
                     const KnownWords& words);

}  // namespace tw::bench
