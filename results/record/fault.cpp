#include "results/record/fault.hpp"

namespace tw::results {

std::string fault_line(const Fault& fault) {
  std::string line = fault.file.empty() ? "" : fault.file + ": ";
  if (!fault.where.empty()) line += fault.where + ": ";
  return line + fault.text;
}

Fault in_file(const std::string& file, Fault fault) {
  fault.file = file;
  return fault;
}

}  // namespace tw::results
