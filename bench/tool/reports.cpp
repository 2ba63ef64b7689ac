// `trainwatt validate` and `trainwatt show`.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bench/tool/commands.hpp"
#include "results/report_io.hpp"
#include "results/tables.hpp"

namespace tw::tool {
namespace {

std::string read_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw UsageError(path + ": " + std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw UsageError(path + ": is a folder; give the report.json inside it");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw UsageError(path + ": cannot be read");
  return text;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Whether the terminal's character set holds the blocks of bars and sparklines.
bool has_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"})  // the first that is set decides
    if (is_set(variable)) {
      std::string value = std::getenv(variable);
      std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
      return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
    }
  return false;
}

}  // namespace

int validate(const std::vector<std::string>& paths) {
  int code = 0;
  for (const std::string& path : paths) {
    try {
      const std::vector<std::string> violations = validate_report(read_file(path));
      for (const std::string& line : violations) fmt::print(stderr, "{}: {}\n", path, line);
      if (violations.empty())
        fmt::print("{}: good\n", path);
      else
        code = std::max(code, 1);
    } catch (const UsageError& error) {
      fmt::print(stderr, "trainwatt: {}\n", error.what());  // the other files are still worth a look
      code = 2;
    }
  }
  return code;
}

int show(const ShowOptions& options) {
  TableStyle style;
  const bool terminal = isatty(STDOUT_FILENO);
  style.color = terminal && !is_set("NO_COLOR");
  style.unicode = !options.ascii && has_unicode();
  winsize size{};
  if (options.width)
    style.width = *options.width;
  else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = std::clamp<int>(size.ws_col, 80, 120);
  const std::string text = read_file(options.path);
  try {
    fmt::print("{}", show_report(report_from_json(text), style));
  } catch (const std::runtime_error& error) {
    throw UsageError(options.path + ": " + error.what());
  }
  return 0;
}

}  // namespace tw::tool
