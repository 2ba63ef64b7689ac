// Runs `trainwatt` as a user does: what it prints and its exit code.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tw::testing {

/// Where the golden reports are.
extern const std::string fixtures;

struct Outcome {
  int code = -1;
  std::string out, err;
};

/// Runs the tool with these arguments and with `environment` ("NAME=value") alone; its stdout goes to `device` where
/// one is named.
Outcome run(std::vector<std::string> arguments, std::vector<std::string> environment = {},
            const char* device = nullptr);

/// Exit code 2, nothing on stdout, and one line that contains `what`.
inline void expect_refused(const Outcome& o, const std::string& what) {
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.err.find(what), std::string::npos) << o.err;
}

inline std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::string file_with(const std::string& text, const std::string& name = "") {
  const std::string path = ::testing::TempDir() + "trainwatt-tool-" + std::to_string(getpid()) + name + ".json";
  std::ofstream(path) << text;
  return path;
}

/// What `validate` prints is wrapped; the same on one line.
inline std::string flat(const std::string& out) {
  std::istringstream words(out);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}
/// What `validate --json` prints of these files, after its exit code was held against that of the process.
std::string validate_json(const std::vector<std::string>& paths);

}  // namespace tw::testing
