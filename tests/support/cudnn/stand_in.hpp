// A made-up cuDNN that runs graphs on the host in float64, and what a test may ask of it. A program that is linked with
// it opens it under the library's own name. What the real one would read wrongly or refuse ends in an error status:
// operands that are missing, foreign or misaligned, extents that do not fit. Its workspace is filled with NaN in each
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tw::cudnn {

/// An engine that the heuristics propose. One with the note "tensor cores" rounds float32 inputs of convolutions to
/// TF32, one that is "not deterministic" adds noise, and one that "rounds its inputs" halves them: no test passes with
/// them.
struct Proposal {
  std::int64_t engine = 0;
  std::vector<int> notes;  ///< CUDNN_NUMERICAL_NOTE_…
  bool compiled = false;
  int status = 0;  ///< of its plan
  std::int64_t workspace_bytes = 1000;
  std::int64_t bytes_each_score = 0;  ///< more, for each score of an attention's backward
  int run_status = 0;                 ///< of each run
  double milliseconds = 0;            ///< of a run on the made-up clock (StandInGpu::clock_ms)
  int config_status = 0;              ///< of the configuration in which it is asked for by number
};

/// An engine that was asked for by number: its settings (CUDNN_KNOB_TYPE_…, value), and of how many operations.
struct Asked {
  std::int64_t engine = 0;
  std::vector<std::pair<int, std::int64_t>> knobs;
  std::size_t operations = 0;
};

struct Run {
  std::int64_t engine = 0;
  std::size_t operations = 0;
  std::vector<std::int64_t> uids;
  void* stream = nullptr;
};

struct State {
  std::size_t version = 91900;
  int create_status = 0;      ///< of cudnnCreate
  int heuristics_status = 0;  ///< of each question
  std::vector<Proposal> proposals = {{3, {0, 4}}, {4, {0, 1}}, {5, {0}}, {6, {}}};
  int questions = 0;              ///< to the heuristics
  std::vector<Proposal> engines;  ///< that can be asked for by number; the heuristics do not propose them
  std::vector<Asked> asked;       ///< whose configuration was finalized or refused
  std::vector<Run> runs;
  std::string refusal;  ///< the last error in words
};
__attribute__((visibility("default"))) State& state();

}  // namespace tw::cudnn
