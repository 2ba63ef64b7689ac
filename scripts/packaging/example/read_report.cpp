// read_report REPORT: each point with its speed.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>

#include "results/record/report_io.hpp"

int main(int argc, char** argv) {
  using namespace tw::results;
  if (argc != 2) return std::fprintf(stderr, "usage: read_report REPORT\n"), 2;
  std::ifstream file(argv[1]);
  if (!file) return std::fprintf(stderr, "read_report: cannot open %s\n", argv[1]), 3;
  try {
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const Report report = report_from_json(text);
    for (const Record& record : report.records)
      if (const auto& speed = record.summary.samples_per_s)
        std::printf("%s: %.4g samples/s\n", record.id.c_str(), speed->value);
  } catch (const std::exception& error) {  // not a report, one that was cut, or a folder
    return std::fprintf(stderr, "read_report: %s: %s\n", argv[1], error.what()), 3;
  }
}
