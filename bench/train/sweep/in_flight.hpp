// What a run's folder says of the point that is being measured, so that the launch after a sudden end knows which point
// it was: a point that ends every job would otherwise end the sweep for ever.
#pragma once

#include <filesystem>
#include <string>

#include "power/meter/descriptor.hpp"

namespace tw::bench {

inline constexpr const char* in_flight_file = "in-flight.jsonl";

/// Root's account of the point in flight, in DIR/in-flight.jsonl, a line for each event; there is no such file between
/// points. A job that ends suddenly (a rank's error in the middle of a step, SIGKILL, a lost node) leaves it behind; an
/// end that all ranks have agreed upon, and a signal that asked for one, are no fault of the point, and not counted.
class InFlight {
 public:
  explicit InFlight(std::filesystem::path folder) : path_(std::move(folder) / in_flight_file) {}
  ~InFlight() { close(); }

  /// A point that has ended so many jobs is not begun again.
  static constexpr int most_ends = 2;
  /// Why not: "ended the job twice: rank 1 on n2: …", with the last words of a rank where there are any; empty if
  /// the point may be begun.
  std::string why_not(const std::string& id) const;
  /// Throws std::system_error if the folder cannot be written.
  void begin(const std::string& id);
  /// The point has its record.
  void end();
  /// All ranks leave the point together. Never throws: it says nothing that the run's end has not said.
  void leave() noexcept;

  /// Any rank: what it failed of, before it ends the job. Where it does not see the folder, or cannot write, the point
  /// is without last words.
  static void tell(const std::filesystem::path& folder, const std::string& id, const std::string& what) noexcept;

 private:
  void close() noexcept;
  std::filesystem::path path_;
  power::Descriptor file_;  // where signals are noted
};

}  // namespace tw::bench
