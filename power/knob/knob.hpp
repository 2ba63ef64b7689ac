// What changes a machine's speed and power, and what is needed to put it back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw::power {

enum class KnobKind { gpu_clock, gpu_memory_clock, gpu_power_limit, cpu_frequency, cpu_governor, cpu_power_limit };
/// Key of a record's setting, with its unit: "gpu_clock_mhz", "gpu_memory_clock_mhz", "gpu_power_limit_w",
/// "cpu_frequency_mhz", "cpu_governor", "cpu_power_limit_w".
const char* to_string(KnobKind kind);
/// The inverse; nullopt for an unknown name.
std::optional<KnobKind> knob_kind_from_string(const std::string& name);

/// Of a kind whose set points are names (cpu_governor), all names; empty if they are numbers. A set point is then
/// the place of its name in this list, counted from 1. Journals hold places: names are only ever added at the end.
const std::vector<std::string>& names_of(KnobKind kind);
/// "performance", or a number as people write it: "1305".
std::string set_point_text(KnobKind kind, double value);
/// The inverse for names; nullopt for an unknown name, and where the kind has none.
std::optional<double> set_point_of_name(KnobKind kind, const std::string& name);

/// Set points that the hardware says it takes, in the unit of the kind.
struct KnobRange {
  double minimum = 0, maximum = 0;
  std::vector<double> values;  ///< ascending; empty if anything between the two is taken
  bool is_default = false;     ///< the hardware states no limits: these are the program's, named in the knob's folder
};

/// All that must be written to come back to it, opaque to everybody but the knob: "min_khz" → "800000". Stands in the
/// journal as it is.
using KnobState = std::map<std::string, std::string>;

/// A value of a saved state; nullopt if it is no whole number.
std::optional<std::uint64_t> whole_number(const KnobState& state, const std::string& key);

/// A set point that the hardware did not take. `reason`: "permission", "unsupported", "locked" (by the firmware),
/// "out_of_range", "clamped" (another value reads back), "refused" (a site's command said no).
class NotApplied : public std::runtime_error {
 public:
  NotApplied(std::string why, const std::string& message) : std::runtime_error(message), reason(std::move(why)) {}
  std::string reason;
};

/// One call of set(), from before it is made, so that a journal says what may be in force after a kill.
struct Attempt {
  double requested = 0;
  std::optional<double> accepted;  ///< absent until the call has come back
  KnobState refused = {};          ///< what a call that threw has changed, as it read back: a clamped value is ours
  /// The value before the call, while it is under way: what it left has not been read, and the hardware may have made
  /// anything of it.
  std::optional<KnobState> before = {};

  /// Whether it is this call, though it was not taken or has not come back, that has left `value` in this place.
  bool has_left(const std::string& key, const std::string& value) const;
};

/// What became of putting back.
struct PutBack {
  bool changed = false;  ///< something was written; false: all was as found already, or is left
  bool reset = false;    ///< without a getter: brought to the hardware's default, which may not be what was found
  std::string left;      ///< what other programs have changed since and is left as it is, for people; empty if nothing
};

/// One set point of one device (or of all CPUs of a node). Used by one owner per node; functions throw
/// std::system_error naming the file or call where a read fails.
class Knob {
 public:
  virtual ~Knob() = default;
  virtual KnobKind kind() const = 0;
  virtual std::string domain() const = 0;  ///< "nvml:GPU-…", "cpu", "rapl:package-0"
  virtual KnobRange range() const = 0;
  /// The set point now; nullopt if the hardware has no getter (GPU clock locks) or none is in force.
  virtual std::optional<double> get() = 0;
  /// Writes and reads back. Returns what the hardware accepted: `value`, but for rounding to its step. Throws
  /// NotApplied, after which the state may be partly written: the caller restores.
  virtual double set(double value) = 0;
  /// What the hardware does at this moment: a clock in MHz, a power in W. Says something only under load. nullopt if
  /// unreadable.
  virtual std::optional<double> observe() = 0;
  /// Everything that restore needs.
  virtual KnobState save() = 0;
  /// Whether what is in force now is what set(requested) left, which read back as `accepted`: only then may it be
  /// restored, since otherwise another program has changed it since. Without a getter: true.
  virtual bool is_ours(double requested, double accepted) = 0;
  /// Why somebody else's setting seems to be in force that save() cannot keep, so that restore() would undo it; empty
  /// where none is evident. For knobs without a getter; says most under load.
  virtual std::string lock_evident() { return {}; }
  /// Puts a saved state back, in an order that the hardware takes (min below max at each moment), and checks it.
  /// Refuses values outside the hardware's range with NotApplied.
  virtual void restore(const KnobState& found) = 0;
  /// Puts back what is still ours: what stands neither as found nor as one of `attempts` left it is somebody else's,
  /// and stays; without a getter all is ours. All that is as found already is not written. A knob of several values
  /// decides for each (this one for all together, by is_ours). Throws as restore().
  virtual PutBack put_back(const KnobState& found, std::span<const Attempt> attempts);
  /// The programs that it runs, by the names that the site's file has for them: a journal keeps where they were found.
  virtual std::map<std::string, std::string> programs() const { return {}; }
  /// Before another set(): what somebody else has changed since the last one left the state `ours` counts as found from
  /// now on. Puts it into `found`, and returns it for people; empty if nothing was changed, or back to what was
  /// found.
  virtual std::string adopt(KnobState& found, const KnobState& ours, const KnobState& now) const;
};

/// What was found: a knob, or the reason why there is none or why it cannot be turned.
struct KnobFinding {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain = {};
  std::unique_ptr<Knob> knob = {};  ///< null if there is none; there but not writable: a knob with a reason
  std::string reason = {};  ///< "no_driver", "permission", "unsupported", "locked", "not_compiled"; empty if writable
  std::string detail = {};  ///< one line for people
  std::string grant = {};   ///< the smallest grant that would make it writable: a udev rule, a Slurm option, …

  void explain(std::string why, std::string what) { reason = std::move(why), detail = std::move(what); }
};

struct KnobOptions {
  std::filesystem::path site;  ///< a site's own commands (power/knob/site.hpp); empty: none
  /// Where the file's programs are, of those that a journal knows by name; others are looked for.
  std::map<std::string, std::string> programs = {};
};

/// Asks every source in knobs.def; at least one finding for each kind, so that what is missing has a reason. A site's
/// command takes the place of the knob of its kind and domain. Changes nothing. Call on one rank per node only. Throws
/// std::runtime_error where the site's file is wrong.
std::vector<KnobFinding> find_knobs(const KnobOptions& options = {});

}  // namespace tw::power
