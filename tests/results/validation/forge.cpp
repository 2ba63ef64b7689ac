// forge --list: a line "NAME CODE" for each forgery; forge REPORT NAME OUT: writes the forged report. For whole
// programs.
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>

#include "results/record/report_io.hpp"
#include "tests/results/validation/forgeries.hpp"

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--list") {
      for (const tw::testing::Forgery& one : tw::testing::forgeries())
        std::printf("%s %s\n", one.name.c_str(), one.code.c_str());
      return 0;
    }
    if (argc != 4) return std::fprintf(stderr, "usage: forge --list | forge REPORT NAME OUT\n"), 2;
    std::ostringstream text;
    text << std::ifstream(argv[1], std::ios::binary).rdbuf();
    tw::results::write_atomically(
        argv[3], tw::results::to_json(tw::testing::forged(tw::results::report_from_json(text.str()), argv[2])));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forge: %s\n", error.what());
    return 1;
  }
}
