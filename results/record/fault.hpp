// What is found about a file, as data: programs and tests go by the code, people read the text.
#pragma once

#include <string>

namespace tw::results {

/// A fault of a report, a bundle or a kit, or a note about a good one.
struct Fault {
  std::string code;    ///< stable, in the words of flags: "meter_row_missing"; results/README.md lists all
  std::string where;   ///< JSON pointer into the file ("/records/0/trials/1/energy"); may be empty
  std::string text;    ///< what is wrong there; quotes the file, and is not safe to print as it is
  std::string file{};  ///< of a bundle, the file inside it; empty otherwise
};

/// "report.json: /records/0/id: is no point of the plan", without what is empty.
inline std::string fault_line(const Fault& fault) {
  return (fault.file.empty() ? "" : fault.file + ": ") + (fault.where.empty() ? "" : fault.where + ": ") + fault.text;
}
/// The same with the file of a bundle that a fault of its report is in.
inline Fault in_file(const std::string& file, Fault fault) {
  fault.file = file;
  return fault;
}

}  // namespace tw::results
