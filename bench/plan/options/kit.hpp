// A kit: a plan that one party freezes and others run as it is. A JSON file with a version, what people should know of
// it, the plan as a config of its own (suites are written out, so that another version of the program runs the same),
// and the SHA-256 of all that, which the reports of its runs carry.
#pragma once

#include <string>

#include "bench/plan/options/request.hpp"

namespace tw::bench {

/// What makes a JSON file a kit, and its value: the format's version.
inline constexpr const char* kit_key = "kit_version";
inline constexpr const char* kit_version = "1.0";

struct KitText {
  std::string title, contact, notes;  ///< may be empty
};

struct Kit : KitText {
  std::string suite;  ///< that it was made of: "procurement", "quick (changed)", "command-line", a config's file name
  results::Program program;  ///< that froze it
  std::string config_json;   ///< the plan, as read_config takes it
  std::string sha256;        ///< of all the above
};

/// A request as the text of a config: read_config makes the same plan of it, for any number of ranks and any device.
std::string config_json(const Request& request);
/// The text of a kit. The same request and words make the same text.
std::string kit_json(const KitText& text, const Request& request, const results::Program& program);
/// Throws UsageError that names `path` where the kit is damaged, was changed (its content does not match its SHA-256),
/// or is of a version that this program does not know. Whoever changes a kit and its SHA-256 makes another kit.
Kit open_kit(const std::string& path, const std::string& text);

}  // namespace tw::bench
