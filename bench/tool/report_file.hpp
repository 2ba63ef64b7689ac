// Reports as the subcommands read them.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/tool/commands.hpp"
#include "results/ranking.hpp"
#include "results/record.hpp"

namespace tw::tool {

/// The text of a file or pipe, of 256 MiB at most. Throws UsageError that names it.
std::string read_report_file(const std::string& path);

/// Does `work` on the text of a file; whatever goes wrong is a UsageError that names the file.
template <class Work>
auto with_report_file(const std::string& path, Work work) {
  try {
    return work(read_report_file(path));
  } catch (const UsageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw UsageError(path + ": does not fit into memory");
  } catch (const std::runtime_error& error) {
    throw UsageError(path + ": " + error.what());
  }
}

/// What --sort and --scope ask for. Throws UsageError with the nearest word.
Order parse_order(const SortOptions& options, const std::vector<Record>& records);

}  // namespace tw::tool
