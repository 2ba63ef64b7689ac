// GPUs that are not there: the state behind the stand-in libnvidia-ml.so.1, shared by all processes through one text
// file, and exact. Tests change and read it here; the library (library.cpp) answers from it.
//
// Power is idle + load · (dynamic · (f/f_max)³ + memory · (m/m_max)), brought under the limit by lowering the clock f
// along the list of clocks. The energy counter is exact and steps every `step_ns`; time can be frozen and advanced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tw::standin {

/// The environment variable that names the folder of the state.
inline constexpr const char* folder_variable = "TRAINWATT_STANDIN_NVML";

using Count = std::uint64_t;

struct Gpu {
  std::string uuid, name = "Stand-in H100";
  // Fixed by the hardware. Clocks are minimum, minimum + step, …, maximum; memory clocks are two.
  Count idle_mw = 70000, dynamic_mw = 450000, memory_mw = 100000;
  Count minimum_mhz = 210, maximum_mhz = 1980, step_mhz = 15;
  Count low_memory_mhz = 1593, high_memory_mhz = 2619;
  Count minimum_limit_mw = 200000, maximum_limit_mw = 700000;
  Count step_ns = 100'000'000;  // of the energy counter
  // What programs set. 0: no lock.
  Count limit_mw = 700000, lock_mhz = 0, memory_lock_mhz = 0, resets = 0;
  // What a test sets.
  Count load_percent = 100;
  Count board_limit_mw = 0;  // an out-of-band limit; 0: none
  Count hot = 0, brake = 0;  // thermal and brake slowdown: half and quarter clock
  Count ecc_corrected = 0, ecc_uncorrected = 0, xid_count = 0, last_xid = 0;
  Count mig = 0, gpm = 1;
  Count memory_mib = 81559, memory_used_mib = 1024;
  Count pci_bus = 0;  // 0: its place in the state, from 1
  Count slow_ms = 0;  // before the energy counter answers
  // Faults.
  Count deny_set = 0;                                            // setters answer 4
  Count ignore_lock = 0;                                         // a lock is accepted and does nothing
  Count clamp_limit_mw = 0;                                      // limits below are raised to it, silently
  Count hidden = 0;                                              // no handle: 4
  Count lost = 0;                                                // everything answers 15
  Count no_energy = 0, no_power = 0, no_fields = 0, no_ecc = 0;  // 3
  Count no_field = 0;                                            // 3 of the field with this id alone
  Count old_base_ns = 0;                                         // what the older function counts throttle times from
  Count still = 0;                                               // the energy counter stands
  Count went_back_mj = 0;                                        // taken off the counter
  Count secret_lock = 0;                                         // a lock shows in no event reason
  // Accounts, up to mark_ns; energy in picojoules (mW · ns), as shown at the last step before mark_ns.
  Count mark_ns = 0, energy_pj = 0, shown_pj = 0, capped_ns = 0, hot_ns = 0, brake_ns = 0;
};

struct State {
  Count init_code = 0;  // of nvmlInit_v2
  std::string driver = "580.95.05";  // its version, by which it numbers throttle times; empty: not told
  Count reversed = 0;   // the driver's numbers run backwards, against the PCI buses
  // Time is the system's monotonic clock less origin_ns, or frozen_ns where frozen.
  Count origin_ns = 0, frozen = 0, frozen_ns = 0;
  std::vector<Gpu> gpus;
  Count now_ns() const;
};

/// What a GPU does as things stand.
struct Operation {
  Count clock_mhz, memory_mhz, power_mw;
  bool capped;  // the limit holds the clock down
};
Operation operation(const Gpu& gpu);
/// The accounts at a time: exact energy, energy as the counter shows it, and a throttle account that runs while `on`.
Count energy_pj(const Gpu& gpu, Count now_ns);
Count shown_energy_mj(const Gpu& gpu, Count now_ns);
Count throttled_ns(Count account_ns, bool on, const Gpu& gpu, Count now_ns);

/// The environment variable that names the GPUs a process may address, as "0,2", by their place in the state: the others are
/// not there for it, as where a cgroup keeps their device files away. Unset: all.
inline constexpr const char* only_variable = "TRAINWATT_STANDIN_NVML_ONLY";

/// Reads, or changes, the state in a folder; alone among all threads and processes. A change settles the accounts
/// first.
State read_state(const std::filesystem::path& folder);
void edit_state(const std::filesystem::path& folder, const std::function<void(State&)>& change);

/// Makes a folder with `gpus` GPUs, names it in the environment, and removes both at its end.
class StandIn {
 public:
  explicit StandIn(std::size_t gpus = 2);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  State state() const { return read_state(folder_); }
  Gpu gpu(std::size_t index) const { return state().gpus.at(index); }
  void edit_all(const std::function<void(State&)>& change) { edit_state(folder_, change); }
  void edit(std::size_t index, const std::function<void(Gpu&)>& change) {
    edit_state(folder_, [&](State& state) { change(state.gpus.at(index)); });
  }
  /// Stops time, at the next step of the counter.
  void freeze();
  void advance_milliseconds(Count milliseconds);
  /// The clock now, which a test's workload may take its step time from.
  Count effective_clock_mhz(std::size_t index) const { return operation(gpu(index)).clock_mhz; }

 private:
  std::filesystem::path folder_;
};

}  // namespace tw::standin
