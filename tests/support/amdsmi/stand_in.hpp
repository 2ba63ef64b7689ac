// AMD GPUs that are not there: the state behind the stand-in libamd_smi.so, one text file that tests rewrite. The
// accumulator is exact: it counts `watts` in units of `unit_uj` and steps every `step_ns`; time can be frozen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tw::standin_amd {

/// The environment variable that names the folder of the state.
inline constexpr const char* folder_variable = "TRAINWATT_STANDIN_AMDSMI";

struct Gpu {
  std::uint64_t id = 0;  // as amdsmi_get_gpu_bdf_id
  std::string uuid = "00ff74a1-0000-1000-80ab-0123456789ab";
  double watts = 320;
  float unit_uj = 16, stated_uj = 16;  // what a count is, and what the library says that it is
  std::uint64_t step_ns = 1'000'000, offset = 1'000'000;
  int code = 0;   // of amdsmi_get_energy_count
  int type = 1;   // of the processor
  int still = 0;  // the accumulator stands at its offset
};

struct State {
  int init_code = 0;
  std::uint64_t origin_ns = 0, frozen_ns = 0;  // frozen where not 0
  std::vector<Gpu> gpus;
  std::uint64_t now_ns() const;
};
std::uint64_t count(const Gpu& gpu, std::uint64_t now_ns);

State read_state(const std::filesystem::path& folder);

/// Makes a folder with the state, names it in the environment, and removes both at its end.
class StandIn {
 public:
  explicit StandIn(std::vector<Gpu> gpus);
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  void edit(const std::function<void(State&)>& change);
  /// Stops time, at a step of every counter whose step divides a second.
  void freeze();
  void advance_milliseconds(std::uint64_t milliseconds);

 private:
  void save() const;
  std::filesystem::path folder_;
  State state_;
};

}  // namespace tw::standin_amd
