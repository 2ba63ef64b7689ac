#include "bench/train/sweep/in_flight.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bench/train/job/interruption.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Ends {
  int count = 0;      // beginnings without an agreed end
  std::string words;  // the last ones
};

Ends ends_of(const fs::path& path, const std::string& id) {
  Ends ends;
  bool counts = false;  // whether the last beginning still does
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text, nullptr, false);  // a kill may have torn it
    if (!line.is_object()) continue;
    const auto is = [&](const char* key) { return line.contains(key) && line[key] == id; };
    if (is("begun")) {
      ++ends.count;
      counts = true;
    } else if (line.contains("begun")) {
      counts = false;
    } else if (line.contains("left") && counts) {
      --ends.count;
      counts = false;
    } else if (is("failed") && line.contains("what") && line["what"].is_string()) {
      ends.words = line["what"].get<std::string>();
    }
  }
  return ends;
}

}  // namespace

std::string InFlight::why_not(const std::string& id) const {
  const Ends ends = ends_of(path_, id);
  if (ends.count < most_ends) return {};
  return "ended the job twice: " + (ends.words.empty() ? "no rank reported a cause; it may have been killed for "
                                                         "lack of memory, or its node lost: see the launcher's output"
                                                       : ends.words);
}

void InFlight::begin(const std::string& id) {
  results::append_line(path_, Json{{"begun", id}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  file_ = power::Descriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (file_.get() < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path_.string());
  note_signals_in(file_.get(), "{\"left\":\"by a signal\"}\n");
}

void InFlight::close() noexcept {
  if (file_.get() < 0) return;
  note_signals_in(-1, "");
  file_.close();
}

void InFlight::end() {
  close();
  fs::remove(path_);
}

void InFlight::leave() noexcept {
  if (file_.get() < 0) return;
  close();
  try {
    results::append_line(path_, Json{{"left", "together"}}.dump());
  } catch (const std::exception&) {  // a full disk, which the run reports anyway
  }
}

void InFlight::tell(const fs::path& folder, const std::string& id, const std::string& what) noexcept {
  try {
    const std::string line =
        Json{{"failed", id}, {"what", what}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    const power::Descriptor file(::open((folder / in_flight_file).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    [[maybe_unused]] const ssize_t written =
        ::write(file.get(), line.data(), line.size());  // fails where there is no file
  } catch (const std::exception&) {
  }
}

}  // namespace tw::bench
