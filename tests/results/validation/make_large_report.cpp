// make_large_report TRIALS OUT: a report that `trainwatt validate` finds good, to time it by.
#include <cstdio>
#include <exception>
#include <string>

#include "results/record/report_io.hpp"
#include "tests/results/validation/large_report.hpp"

int main(int argc, char** argv) {
  try {
    if (argc != 3) return std::fprintf(stderr, "usage: make_large_report TRIALS OUT\n"), 2;
    tw::results::write_atomically(argv[2], tw::results::to_json(tw::testing::large_report(std::stoul(argv[1]))));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_large_report: %s\n", error.what());
    return 1;
  }
}
