// The made-up GPU behind the stand-in for CUDA's runtime (runtime.cpp): what it is, which faults it has, and what it
// was asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tw::simt {

/// The order in which a grid's blocks and threads run.
enum class Schedule { ascending, descending, seeded };

/// When the work of streams is done.
enum class Overlap {
  none,  ///< when it is enqueued
  late,  ///< when the host waits for it: each stream only as far as is waited for
  early  ///< likewise, but before each piece of a stream all others do what their waits let them
};

struct StandInGpu {
  int architecture = 90;
  std::size_t memory_bytes = std::size_t{64} << 20;
  std::vector<std::string> calls;  ///< that allocate or wait, in their order

  /// Each grid runs once, in this order, instead of once in each with results that are compared: a third of the time,
  /// for tests of what is around the kernels.
  std::optional<Schedule> only;

  /// What one stream reads before another has written it, because it does not wait, shows in Overlap::late; what one
  /// overwrites before another has read it, in Overlap::early. Memory that is given back waits for all streams.
  Overlap overlap = Overlap::none;

  /// Allocations of this many bytes are filled with NaN before a graph runs, and where an event is recorded in a stream
  /// that is not captured: a workspace holds nothing from one operator to the next. 0: none are.
  std::size_t poisoned_bytes = 0;
  long poisoned = 0;  ///< times that such an allocation was filled

  /// The allocation of device or page-locked memory for which there is no memory: 1 is the next one, 0 none.
  long failing_allocation = 0;
  std::size_t refused_bytes = 0;  ///< that it asked for; 0 while none has failed
  /// Whether there is no memory to instantiate a graph.
  bool refuses_graphs = false;
  /// The piece of work (stream.hpp) that ends in failing_code: 1 is the next one, 0 none. As on a GPU, the call
  /// that enqueues it succeeds, every later call fails, and nothing is done any more.
  long failing_work = 0;
  int failing_code = 700;           ///< the cudaError_t of that: cudaErrorIllegalAddress
  int count_status = 0;             ///< the cudaError_t of cudaGetDeviceCount
  int fault = 0;                    ///< the cudaError_t of such a device; cudaSuccess for one that works
  long work_done = 0;               ///< pieces of work
  long recorded = 0, launched = 0;  ///< graphs
  long spins = 0;                   ///< waits for an event that had not happened and was not made to let the host sleep

  /// The made-up time in ms that events show instead of the host's, so that a test knows what a measurement gives: each
  /// piece of work adds work_ms, and the stand-ins for the libraries what the test says of theirs (take() of
  /// stream.hpp). Absent: the host's clock.
  std::optional<double> clock_ms;
  double work_ms = 0;
};
StandInGpu& gpu();
/// The priorities of its streams, as CUDA numbers them: the greatest is the lowest number.
constexpr int least_priority = 0, greatest_priority = -5;

/// Streams, events, graphs and blocks of page-locked memory that nobody has given back.
long handles();
/// "cudaErrorIllegalAddress" from a cudaError_t.
const char* name_of(int code);

}  // namespace tw::simt
