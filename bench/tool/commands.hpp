// The subcommands of `trainwatt`. Each prints to stdout and returns the exit code (DESIGN §9).
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw::tool {

/// Bad usage or an unreadable file: main prints the text as one line and ends with exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// 0: all are good; 1: some file breaks the schema or an invariant, or is at odds with the catalog; 2: some file cannot
/// be read. Takes reports, and the records.jsonl of unfinished runs.
int validate(const std::vector<std::string>& paths);

struct ShowOptions {
  std::string path;
  std::optional<int> width;         ///< columns; the terminal's where absent, 100 where there is none
  bool ascii = false;
};
int show(const ShowOptions& options);

/// All networks of the catalog.
int models(bool json);

struct PlanOptions {
  std::string model, precision = "float32";
  std::optional<int> layers;
  std::optional<long long> micro_batch, seq_len;
  long long accumulate = 1, ranks = 1;
  bool json = false;
};
/// What a training step of one network computes, without running it.
int plan(const PlanOptions& options);

/// Puts back what runs that are dead have left (`all`: also one that still lives). 0: nothing of them is left, 3: something
/// is, or a journal is not trusted.
int restore(bool all);

}  // namespace tw::tool
