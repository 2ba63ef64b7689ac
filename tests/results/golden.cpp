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

}  // namespace tw::testing
