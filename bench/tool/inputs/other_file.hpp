// Files of ours that are no reports, for whoever gives one where a report is expected.
#pragma once

#include <string>

namespace tw::bench::tool {

/// "is a kit (trainwatt freeze), no report: …", with the command that reads it; empty where the text is none that is known.
/// `text` may be anything.
std::string other_file(const std::string& text);

}  // namespace tw::bench::tool
