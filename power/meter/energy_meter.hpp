// What every source of joules looks like to the rest of the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tw::power {

inline double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

inline std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

/// One reading. `joules` counts from the meter's opening and never decreases.
struct EnergySample {
  std::chrono::steady_clock::time_point time;
  double joules = 0;
  int wraps = 0;  ///< how often the counter has started again at zero since the opening; its joules go on
  /// Of a counter: differs between two readings where the sensor was updated in between.
  std::optional<std::uint64_t> mark = {};
};

/// How a joule came to be: a hardware counter, power readings integrated over time, or a model (opt-in, outside
/// rankings).
enum class EnergyMethod { counter, integrated_power, estimate };
const char* to_string(EnergyMethod method);

/// What the joules cover: each line of scopes.def.
enum class EnergyScope {
#define TW_ENERGY_SCOPE(name, watts) name,
#include "power/meter/scopes.def"
};
const char* to_string(EnergyScope scope);
/// Assumed upper bound of one sensor's power if the hardware states none, in watts (scopes.def).
double default_maximum_watts(EnergyScope scope);

/// A window that a meter cannot tell the joules of, though it goes on: `reason` is "gap" (it was not sampled in
/// between), "lost" (it did not answer in between) or "not_covered" (its series does not reach so far).
class WindowUnknown : public std::runtime_error {
 public:
  WindowUnknown(std::string why, const std::string& message) : std::runtime_error(message), reason(std::move(why)) {}
  std::string reason;
};

/// A counter that does not wrap went back: it was set to another value.
class CounterReset : public std::system_error {
 public:
  using std::system_error::system_error;
};

/// One physical sensor, opened by one reader per node.
class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;
  /// Identifies the sensor: "rapl:package-0", "nvml:GPU-…".
  virtual std::string domain() const = 0;
  virtual EnergyScope scope() const = 0;
  virtual EnergyMethod method() const = 0;
  /// Throws std::system_error naming the sensor when one that once answered does not, CounterReset where it answers
  /// with less than before. A later call may answer again: what was used in between is then not known, and the joules
  /// go on from somewhere at or above the last ones.
  virtual EnergySample read() = 0;
  /// Joules between two of its readings. Throws WindowUnknown. May run while another thread reads.
  virtual double joules_between(const EnergySample& from, const EnergySample& to) { return to.joules - from.joules; }
  /// Whether the joules that read() returns follow the time, so that those between readings within a window can be
  /// judged (power/meter/interval_judge.hpp). Not where they come late and many at once.
  virtual bool follows_time() const { return true; }
  /// Time between changes of the counter, in seconds: the longest that was seen when the meter was opened.
  virtual double update_period_seconds() const = 0;
  /// The longest time between changes, or samples, that touch the window between two of its readings: its uncertainty's
  /// period, at least update_period_seconds(). May run while another thread reads.
  virtual double longest_period_seconds(const EnergySample&, const EnergySample&) { return update_period_seconds(); }
  /// Seconds after which a counter that is not read may wrap unseen at maximum power, or is not known to have gone on;
  /// infinity if neither can be.
  virtual double wrap_seconds() const = 0;
  /// Whether the counter starts again at zero: then what was left unread for wrap_seconds() is "wrapped", else a "gap".
  virtual bool may_wrap() const { return false; }
  /// Seconds after which it must be read again, whether or not anybody asks for its joules; infinity if it need not.
  virtual double reading_interval_seconds() const { return wrap_seconds() / 4; }
  /// CPU time that its own threads and the programs that it starts have used since the opening.
  virtual double cpu_seconds() { return 0; }
  /// Upper bound of plausible power, for the check in the ledger; `maximum_power_is_default` tells that the hardware
  /// gave none.
  virtual double maximum_power_watts() const = 0;
  virtual bool maximum_power_is_default() const = 0;
};

/// What a source found: a meter, or the reason why there is none. Sensors that would be counted twice are never
/// counted: "contained" (core and uncore lie inside package), "duplicate" (the MMIO mirror of a zone, one counter shown
/// twice, or the same joules by another method: such a finding may keep its meter, as a cross-check beside the one
/// counted).
struct MeterFinding {
  std::string domain = {};                  ///< of the sensor, or of the source ("rapl") where there is none
  std::unique_ptr<EnergyMeter> meter = {};  ///< null if unavailable
  /// Whose total is too small without this sensor; absent for a whole source, and for what is contained or duplicate.
  std::optional<EnergyScope> scope = {};
  /// "no_driver", "permission", "unsupported", "duplicate", "contained", "estimate", "not_compiled", "not_visible" (a
  /// GPU that is not the job's: nothing of the total is missing with it); empty if counted
  std::string reason = {};
  std::string detail = {};  ///< one line for people: path, errno text, and what to do
  /// The smallest grant that would make it available: a udev rule, setcap, …; empty if none would.
  std::string grant = {};
  bool counted = false;  ///< whether the ledger adds it to its scope
  bool shared = false;   ///< other jobs' joules may be in it: a GPU that is cut into instances

  void explain(std::string why, std::string what) { reason = std::move(why), detail = std::move(what); }
  /// All that a source has found.
  static std::vector<MeterFinding> only(MeterFinding finding) {
    std::vector<MeterFinding> findings;
    findings.push_back(std::move(finding));
    return findings;
  }
};

/// What a site or a user adds to what is found.
struct MeterOptions {
  std::optional<std::filesystem::path> external_csv;  ///< of this node's power (power/sources/external)
  std::optional<double> estimate_watts;               ///< opt-in: a nominal power (TDP) that an estimate may rest on
};

/// Asks every source in sources.def; at least one finding each, so that what is missing has a reason (external and
/// estimate, which options ask for: none without). `choose` may then take findings away, or leave them out as
/// "not_visible", before arbitrate() decides what is counted.
/// Takes up to two seconds a source, in which update periods are measured. Call on one rank per node only (the caller
/// chooses the reader).
using ChooseMeters = std::function<void(std::vector<MeterFinding>&)>;
std::vector<MeterFinding> find_meters(const MeterOptions& options = {}, const ChooseMeters& choose = {});

/// Sets `counted` and `reason` so that no joule is counted twice in a scope (power/README.md), whatever sources there
/// are. Sources have told their own sensors apart already; what they left with a reason stays as it is.
///
/// Of each scope one source is counted, as a whole: two sources name the same silicon differently, so that a mixture
/// could count it twice. Exception: GPUs have names of their own (NVML's UUID, an AMD card's PCI address, the same to
/// AMD SMI and to the kernel's sensor) and are one source: the best meter of each GPU counts. Order of trust: a
/// source none of whose sensors is missing; then counters before integrated power; then as in the table of
/// domain_kinds.hpp. The others stay open as a cross-check, not counted, "duplicate". A sensor that is unavailable but
/// whose joules are counted elsewhere loses its scope: nothing is missing from the total. An estimate is never counted:
/// "duplicate" beside a counted meter of its scope, else "estimate". What is "not_visible" is not missing.
void arbitrate(std::vector<MeterFinding>& findings);

}  // namespace tw::power
