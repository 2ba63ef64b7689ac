#include "power/knob/site.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "power/meter/descriptor.hpp"
#include "power/meter/program.hpp"

namespace tw::power::site {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
constexpr std::chrono::milliseconds command_limit = std::chrono::minutes(1);

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// The first number in a command's output; of a kind with names the first of these that stands there as a word. What
/// stands behind the first few KiB is no answer. By hand: std::regex recurses for each character, and a long output
/// would end the run, and its guardian, by their stacks.
std::optional<double> first_value(KnobKind kind, std::string_view output) {
  constexpr std::size_t looked_at = 4096;
  output = output.substr(0, looked_at);
  if (names_of(kind).empty()) {
    const auto digit = std::ranges::find_if(output, is_digit);
    if (digit == output.end()) return std::nullopt;
    const char *begin = output.data() + (digit - output.begin()), *const all_end = output.data() + output.size();
    const char* end = std::find_if_not(begin, all_end, is_digit);
    if (all_end - end > 1 && *end == '.' && is_digit(end[1])) end = std::find_if_not(end + 1, all_end, is_digit);
    if (begin > output.data() && (begin[-1] == '-' || begin[-1] == '+')) --begin;
    return std::strtod(std::string(begin, end).c_str(), nullptr);
  }
  for (auto at = output.begin(); at != output.end();) {
    const auto begin = std::find_if(at, output.end(), is_letter);
    at = std::find_if_not(begin, output.end(), is_letter);
    if (const auto value = set_point_of_name(kind, std::string(begin, at))) return value;
  }
  return std::nullopt;
}

/// Whether a line of it matches. A long line is looked at in pieces that overlap, so that std::regex's recursion, and
/// the time of a pattern that tries everything, stay bounded.
bool any_line_matches(const std::string& output, const std::regex& pattern) {
  constexpr std::size_t longest = 1000, step = longest / 2;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    for (std::size_t at = 0;; at += step) {
      auto flags = std::regex_constants::match_default;
      if (at > 0) flags |= std::regex_constants::match_prev_avail | std::regex_constants::match_not_bol;
      const bool is_last = line.size() - at <= longest;
      if (!is_last) flags |= std::regex_constants::match_not_eol;
      const auto begin = line.cbegin() + static_cast<std::ptrdiff_t>(at);
      if (std::regex_search(begin, is_last ? line.cend() : begin + longest, pattern, flags)) return true;
      if (is_last) break;
    }
  return false;
}

/// Empty, or: root runs nothing that others may have written.
std::string why_not_trusted(const std::string& path) {
  struct stat status {};
  if (geteuid() != 0 || stat(path.c_str(), &status) != 0 || (status.st_uid == 0 && (status.st_mode & 022) == 0))
    return {};
  return "\"" + path + "\" is not run as root: it must be owned by root and writable only by root";
}

/// Why this file cannot be run; empty if it can.
std::string why_not_executable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return "\"" + path + "\" cannot be run: " + std::generic_category().message(errno);
  if (!S_ISREG(status.st_mode)) return "\"" + path + "\" cannot be run: not a file";
  if (access(path.c_str(), X_OK) != 0) return "\"" + path + "\" cannot be run: it is not executable";
  return why_not_trusted(path);
}

/// What a program's name stands for, as exec would find it here: an absolute path, also where nothing is there; empty
/// where no folder in PATH has it.
std::string found_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return std::filesystem::absolute(name).string();
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "/bin:/usr/bin";
  while (true) {
    const std::size_t colon = folders.find(':');
    const std::string folder(folders.substr(0, colon));
    const std::filesystem::path place = std::filesystem::absolute((folder.empty() ? "." : folder) + "/" + name);
    struct stat status {};
    if (stat(place.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(place.c_str(), X_OK) == 0)
      return place.string();
    if (colon == std::string_view::npos) return {};
    folders.remove_prefix(colon + 1);
  }
}

struct Commands {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain = whole_node;
  Words set, reset, get;
  std::optional<std::regex> refused;
  KnobRange range;
};

class SiteKnob : public Knob {
 public:
  explicit SiteKnob(Commands commands) : commands_(std::move(commands)) {}

  KnobKind kind() const override { return commands_.kind; }
  std::string domain() const override { return commands_.domain; }
  KnobRange range() const override { return commands_.range; }
  std::map<std::string, std::string> programs() const override { return programs_; }
  /// Puts each program's path in the place of its name. Returns which of the commands cannot be run, and why; empty
  /// where all can.
  std::string find_programs(const std::map<std::string, std::string>& known) {
    std::string why;
    for (const auto& [key, words] :
         {std::pair("set", &commands_.set), std::pair("reset", &commands_.reset), std::pair("get", &commands_.get)}) {
      if (words->empty()) continue;
      std::string& name = words->front();
      const auto journalled = known.find(name);
      const std::string path = journalled != known.end() ? journalled->second : found_program(name);
      const std::string wrong = !path.empty() ? why_not_executable(path)
                                              : "\"" + name +
                                                    "\" cannot be run: no folder in PATH has such a program: "
                                                    "name it with its path";
      if (why.empty() && !wrong.empty()) why = std::string("\"") + key + "\": " + wrong;
      if (path.empty()) continue;
      programs_[name] = path;
      name = path;
    }
    return why;
  }

  std::optional<double> get() override {
    if (commands_.get.empty()) return std::nullopt;
    return first_value(commands_.kind, run(commands_.get, ""));
  }

  double set(double value) override {
    const KnobRange& range = commands_.range;
    const bool listed = range.values.empty() || std::ranges::find(range.values, value) != range.values.end();
    if (!listed || value < range.minimum || value > range.maximum)
      throw NotApplied("out_of_range", commands_.domain + ": the site's file does not allow " + text_of(value));
    run(commands_.set, text_of(value));
    if (commands_.get.empty()) return value;
    const std::optional<double> now = get();
    if (!now || !same(*now, value))
      throw NotApplied("clamped", "\"" + joined(commands_.get) + "\" shows " + (now ? text_of(*now) : "no such value") +
                                      " after " + text_of(value) + " was set");
    return *now;
  }

  /// A name is a state, which "get" shows; how a number works out is for other eyes to see.
  std::optional<double> observe() override { return names_of(commands_.kind).empty() ? std::nullopt : get(); }

  KnobState save() override {
    if (const auto now = get()) return {{"value", text_of(*now)}};
    return {};
  }

  bool is_ours(double requested, double accepted) override {
    const std::optional<double> now = get();
    return !now || same(*now, requested) || same(*now, accepted);
  }

  void restore(const KnobState& found) override {
    const auto value = found.find("value");
    const std::optional<double> number =
        value == found.end() ? std::nullopt : first_value(commands_.kind, value->second);
    if (!number) {
      run(commands_.reset, "");
      return;
    }
    run(commands_.reset, text_of(*number));
    if (const std::optional<double> now = get(); now && !same(*now, *number))
      throw NotApplied("clamped", "\"" + joined(commands_.get) + "\" shows " + text_of(*now) + " after the reset, " +
                                      text_of(*number) + " was found");
  }

 private:
  std::string text_of(double value) const { return set_point_text(commands_.kind, value); }
  /// Commands print rounded numbers.
  static bool same(double a, double b) { return std::abs(a - b) <= 0.5; }

  std::string run(Words words, const std::string& value) const {
    for (std::string& word : words)
      for (std::size_t at = word.find("{value}"); at != std::string::npos; at = word.find("{value}", at + value.size()))
        word.replace(at, 7, value);
    const std::string what = "\"" + joined(words) + "\"";
    if (const std::string why = why_not_trusted(words.front()); !why.empty()) throw NotApplied("permission", why);
    ProgramResult result;
    try {
      result = run_program(words, command_limit);
    } catch (const std::system_error& error) {
      throw NotApplied("unsupported", what + " cannot be started: " + error.code().message());
    }
    std::string said = result.output.substr(0, 200);
    while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
    std::ranges::replace(said, '\n', ' ');
    if (result.timed_out) throw NotApplied("refused", what + " was stopped: it took over a minute");
    if (result.exit_code != 0)
      throw NotApplied("refused", what + " ended with code " + std::to_string(result.exit_code) + ": " + said);
    if (commands_.refused && any_line_matches(result.output, *commands_.refused))
      throw NotApplied("refused", what + " said: " + said);
    return result.output;
  }

  Commands commands_;
  std::map<std::string, std::string> programs_;  // by their names in the file
};

std::string string_of(const Json& entry, const char* key, const std::string& otherwise) {
  if (!entry.contains(key)) return otherwise;
  if (!entry[key].is_string()) throw std::runtime_error(std::string("\"") + key + "\" must be a string");
  return entry[key].get<std::string>();
}
double number_of(const Json& entry, const char* key) {
  if (!entry[key].is_number()) throw std::runtime_error(std::string("\"") + key + "\" must be a number");
  return entry[key].get<double>();
}

Commands parse(const Json& entry) {
  static const std::set<std::string> known = {"kind",    "domain",  "set",     "reset", "get",
                                              "refused", "minimum", "maximum", "values"};
  if (!entry.is_object()) throw std::runtime_error("is not an object");
  for (const auto& [key, value] : entry.items())
    if (known.count(key) == 0) throw std::runtime_error("unknown key \"" + key + "\"");
  Commands commands;
  const auto kind = knob_kind_from_string(string_of(entry, "kind", ""));
  if (!kind) throw std::runtime_error("\"kind\" is not one of a record's settings, as gpu_clock_mhz");
  commands.kind = *kind;
  commands.domain = string_of(entry, "domain", commands.domain);
  const auto words = [&](const char* key, bool required) {
    if (!entry.contains(key) && !required) return Words();
    const Json& list = entry.contains(key) ? entry[key] : Json();
    if (!list.is_array() || list.empty() || !std::all_of(list.begin(), list.end(), [](const Json& word) {
          return word.is_string() && word.get<std::string>().find('\0') == std::string::npos;
        }))
      throw std::runtime_error(std::string("\"") + key + "\" must be a list of strings: the program and its arguments");
    if (list.front().get<std::string>().empty())
      throw std::runtime_error(std::string("\"") + key + "\": the first word, which names the program, is empty");
    return list.get<Words>();
  };
  commands.set = words("set", true);
  commands.reset = words("reset", true);
  commands.get = words("get", false);
  const auto takes_value = [](const Words& list) {
    return std::ranges::any_of(list, [](const std::string& word) { return word.find("{value}") != std::string::npos; });
  };
  if (!takes_value(commands.set)) throw std::runtime_error("\"set\" has no {value}");
  if (takes_value(commands.reset) && commands.get.empty())
    throw std::runtime_error("\"reset\" has {value}: add \"get\", which reads the value to restore");
  try {
    if (entry.contains("refused"))
      commands.refused.emplace(string_of(entry, "refused", ""), std::regex::ECMAScript | std::regex::icase);
  } catch (const std::regex_error& error) {
    throw std::runtime_error(std::string("\"refused\" is not a regular expression: ") + error.what());
  }
  KnobRange& range = commands.range;
  if (entry.contains("values")) {
    if (!entry["values"].is_array()) throw std::runtime_error("\"values\" is not a list");
    for (const Json& value : entry["values"]) {
      const bool is_name = !names_of(*kind).empty();
      std::optional<double> one;
      if (is_name && value.is_string()) one = set_point_of_name(*kind, value.get<std::string>());
      if (!is_name && value.is_number()) one = value.get<double>();
      if (!one) throw std::runtime_error("\"values\": " + value.dump() + " is no " + to_string(*kind));
      range.values.push_back(*one);
    }
    std::ranges::sort(range.values);
    if (range.values.empty()) throw std::runtime_error("\"values\" is empty");
    range.minimum = range.values.front(), range.maximum = range.values.back();
  } else if (!names_of(*kind).empty()) {
    throw std::runtime_error(std::string("\"values\" is missing: list the names that may be set"));
  } else if (entry.contains("minimum") && entry.contains("maximum")) {
    range.minimum = number_of(entry, "minimum"), range.maximum = number_of(entry, "maximum");
  } else {
    throw std::runtime_error("needs \"minimum\" and \"maximum\", or \"values\"");
  }
  if (!(range.minimum > 0 && range.minimum <= range.maximum)) throw std::runtime_error("allows no positive value");
  return commands;
}

/// "knob", "Knobs", "konbs": other keys of the file belong to others, but these were meant for us.
bool is_nearly_knobs(std::string key) {
  const std::string ours = "knobs";
  if (key == ours) return false;
  for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (key == ours || key + "s" == ours || key == ours + "s") return true;
  if (key.size() != ours.size()) return false;
  int differing = 0;
  for (std::size_t i = 0; i < key.size(); ++i) differing += key[i] != ours[i];
  std::ranges::sort(key);
  std::string letters = ours;
  std::ranges::sort(letters);
  return differing <= 1 || (differing == 2 && key == letters);
}

std::string read_trusted(const std::filesystem::path& file) {
  constexpr std::size_t largest_bytes = 1 << 20;
  const Descriptor opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe may have no writer
  const auto fail = [&](int error) { throw SiteError(file.string() + ": " + std::generic_category().message(error)); };
  if (opened.get() < 0) fail(errno);
  struct stat status {};
  std::string text;
  char part[4096];
  ssize_t count = fstat(opened.get(), &status) == 0 ? 1 : -1;
  const bool is_file = count > 0 && S_ISREG(status.st_mode);
  while (is_file && text.size() <= largest_bytes && count > 0 && (count = read(opened.get(), part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(count));
  const int error = errno;
  if (count >= 0 && !is_file) throw SiteError(file.string() + ": not a regular file");
  if (text.size() > largest_bytes) throw SiteError(file.string() + ": too large for a site file (maximum 1 MiB)");
  if (count < 0) fail(error);
  if (geteuid() == 0 && (status.st_uid != 0 || (status.st_mode & 022) != 0))
    throw SiteError(file.string() + ": not used as root: the file must be owned by root and writable only by root");
  return text;
}

}  // namespace

std::vector<KnobFinding> find_knobs(const std::filesystem::path& file,
                                    const std::map<std::string, std::string>& programs) {
  const std::string text = read_trusted(file);
  std::vector<KnobFinding> findings;
  std::string place = file.string();
  try {
    constexpr int deepest = 16;  // what quotes a value in an error recurses
    const Json site = Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
      if (depth > deepest) throw std::runtime_error("has more than " + std::to_string(deepest) + " levels");
      return true;
    });
    if (!site.is_object()) throw std::runtime_error("is not an object with a list \"knobs\"");
    for (const auto& [key, value] : site.items())
      if (is_nearly_knobs(key)) throw std::runtime_error("\"" + key + "\" is an unknown key: did you mean \"knobs\"?");
    if (!site.contains("knobs")) throw std::runtime_error("has no list \"knobs\": name the site's commands in it");
    const Json& knobs = site["knobs"];
    if (!knobs.is_array()) throw std::runtime_error("\"knobs\" is not a list");
    for (std::size_t i = 0; i < knobs.size(); ++i) {
      place = file.string() + ": /knobs/" + std::to_string(i);
      KnobFinding finding;
      auto knob = std::make_unique<SiteKnob>(parse(knobs[i]));
      finding.kind = knob->kind();
      finding.domain = knob->domain();
      if (const std::string why = knob->find_programs(programs); !why.empty()) {
        finding.reason = "unsupported";
        finding.detail = place + ": " + why;
      }
      finding.knob = std::move(knob);
      for (const KnobFinding& other : findings)
        if (other.kind == finding.kind && other.domain == finding.domain)
          throw std::runtime_error("duplicate: an earlier entry has the same kind and domain");
      findings.push_back(std::move(finding));
    }
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    throw SiteError(place + ": is not JSON: look at line " + std::to_string(std::count(text.begin(), end, '\n') + 1));
  } catch (const Json::exception&) {  // all that an entry may be has been asked before
    throw SiteError(place + ": number out of range");
  } catch (const std::runtime_error& error) {
    throw SiteError(place + ": " + error.what());
  }
  return findings;
}

}  // namespace tw::power::site
