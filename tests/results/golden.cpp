#include "tests/results/golden.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tw::testing {
namespace {
std::string path_of(const std::string& name) { return std::string(TRAINWATT_FIXTURES) + "/" + name; }
}  // namespace

std::string fixture(const std::string& name) {
  std::ifstream file(path_of(name), std::ios::binary);
  EXPECT_TRUE(file) << path_of(name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_golden(const std::string& name, const std::string& text) {
  if (std::getenv("TRAINWATT_UPDATE_GOLDEN")) {
    std::ofstream(path_of(name), std::ios::binary) << text;
    ADD_FAILURE() << "rewrote " << path_of(name);
    return;
  }
  EXPECT_EQ(text, fixture(name)) << "TRAINWATT_UPDATE_GOLDEN=1 rewrites " << path_of(name);
}

std::vector<BrokenReport> broken_reports() {
  std::vector<BrokenReport> found;
  std::istringstream lines(fixture("broken.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> part;
    for (std::size_t at = 0, end; at <= line.size(); at = end + 3) {
      end = std::min(line.find(" | ", at), line.size());
      part.push_back(line.substr(at, end - at));
    }
    EXPECT_EQ(part.size(), 5u) << line;
    part.resize(5);
    std::string text = fixture(part[1] + ".json");
    const auto at = text.find(part[2]);
    EXPECT_NE(at, std::string::npos) << line;
    if (at != std::string::npos) text.replace(at, part[2].size(), part[3]);
    found.push_back({line, text, part[4]});
  }
  return found;
}

}  // namespace tw::testing
