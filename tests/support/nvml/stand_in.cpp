#include "tests/support/nvml/stand_in.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <type_traits>

namespace fs = std::filesystem;

namespace tw::standin {
namespace {

Count monotonic_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Count>(time.tv_sec) * 1'000'000'000u + static_cast<Count>(time.tv_nsec);
}

#define FIELD(name) visit(#name, one.name)
void each_field(State& one, const auto& visit) {
  FIELD(init_code), FIELD(driver), FIELD(reversed), FIELD(origin_ns), FIELD(frozen), FIELD(frozen_ns);
}
void each_field(Gpu& one, const auto& visit) {
  FIELD(uuid), FIELD(name), FIELD(idle_mw), FIELD(dynamic_mw), FIELD(memory_mw);
  FIELD(minimum_mhz), FIELD(maximum_mhz), FIELD(step_mhz), FIELD(low_memory_mhz), FIELD(high_memory_mhz);
  FIELD(minimum_limit_mw), FIELD(maximum_limit_mw), FIELD(step_ns);
  FIELD(limit_mw), FIELD(lock_mhz), FIELD(memory_lock_mhz), FIELD(resets);
  FIELD(load_percent), FIELD(board_limit_mw), FIELD(hot), FIELD(brake);
  FIELD(ecc_corrected), FIELD(ecc_uncorrected), FIELD(xid_count), FIELD(last_xid), FIELD(mig), FIELD(gpm);
  FIELD(memory_mib), FIELD(memory_used_mib);
  FIELD(pci_bus), FIELD(slow_ms);
  FIELD(deny_set), FIELD(ignore_lock), FIELD(clamp_limit_mw), FIELD(hidden), FIELD(lost);
  FIELD(no_energy), FIELD(no_power), FIELD(no_fields), FIELD(no_ecc), FIELD(no_field), FIELD(old_base_ns);
  FIELD(still), FIELD(went_back_mj), FIELD(secret_lock);
  FIELD(mark_ns), FIELD(energy_pj), FIELD(shown_pj), FIELD(capped_ns), FIELD(hot_ns), FIELD(brake_ns);
}
#undef FIELD

/// The state file, open and locked: a process that is killed lets go of it.
class Locked {
 public:
  explicit Locked(const fs::path& folder) {
    const fs::path path = folder / "state";
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
    if (flock(file_, LOCK_EX) != 0) throw std::system_error(errno, std::generic_category(), path.string());
  }
  ~Locked() { close(file_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  /// "key = value" lines; "[gpu]" begins another.
  State load() const {
    std::string text;
    char buffer[8192];
    for (ssize_t got = 0; (got = pread(file_, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    State state;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line == "[gpu]") {
        state.gpus.emplace_back();
        continue;
      }
      const std::size_t equals = line.find(" = ");
      if (equals == std::string::npos) throw std::runtime_error("the stand-in's state has a line \"" + line + "\"");
      const std::string key = line.substr(0, equals), value = line.substr(equals + 3);
      const auto take = [&](const char* name, auto& field) {
        if (key != name) return;
        if constexpr (std::is_same_v<std::remove_reference_t<decltype(field)>, std::string>)
          field = value;
        else
          field = std::stoull(value);
      };
      if (state.gpus.empty())
        each_field(state, take);
      else
        each_field(state.gpus.back(), take);
    }
    return state;
  }

  void save(State state) const {
    std::ostringstream text;
    const auto put = [&](const char* name, const auto& field) { text << name << " = " << field << '\n'; };
    each_field(state, put);
    for (Gpu& gpu : state.gpus) {
      text << "[gpu]\n";
      each_field(gpu, put);
    }
    const std::string all = text.str();
    if (pwrite(file_, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size()) ||
        ftruncate(file_, static_cast<off_t>(all.size())) != 0)
      throw std::system_error(errno, std::generic_category(), "the stand-in's state");
  }

 private:
  int file_;
};

Count power_mw(const Gpu& gpu, Count clock_mhz, Count memory_mhz) {
  const double f = static_cast<double>(clock_mhz) / static_cast<double>(gpu.maximum_mhz);
  const double m = static_cast<double>(memory_mhz) / static_cast<double>(gpu.high_memory_mhz);
  const double busy = static_cast<double>(gpu.dynamic_mw) * f * f * f + static_cast<double>(gpu.memory_mw) * m;
  return gpu.idle_mw + static_cast<Count>(std::llround(static_cast<double>(gpu.load_percent) / 100 * busy));
}

/// The highest listed clock up to `mhz`.
Count listed(const Gpu& gpu, Count mhz) {
  if (mhz <= gpu.minimum_mhz) return gpu.minimum_mhz;
  return gpu.minimum_mhz + (std::min(mhz, gpu.maximum_mhz) - gpu.minimum_mhz) / gpu.step_mhz * gpu.step_mhz;
}

void settle(Gpu& gpu, Count now_ns) {
  const Count shown_mj = shown_energy_mj(gpu, now_ns), energy = energy_pj(gpu, now_ns);
  gpu.capped_ns = throttled_ns(gpu.capped_ns, operation(gpu).capped, gpu, now_ns);
  gpu.hot_ns = throttled_ns(gpu.hot_ns, gpu.hot != 0, gpu, now_ns);
  gpu.brake_ns = throttled_ns(gpu.brake_ns, gpu.brake != 0, gpu, now_ns);
  gpu.energy_pj = energy;
  gpu.shown_pj = shown_mj * 1'000'000'000u;
  gpu.mark_ns = now_ns;
}

}  // namespace

Count State::now_ns() const { return frozen ? frozen_ns : monotonic_ns() - origin_ns; }

Operation operation(const Gpu& gpu) {
  Count target = gpu.load_percent == 0 ? gpu.minimum_mhz : gpu.maximum_mhz;
  if (gpu.lock_mhz != 0 && !gpu.ignore_lock) target = gpu.lock_mhz;
  if (gpu.hot) target = listed(gpu, std::min(target, gpu.maximum_mhz / 2));
  if (gpu.brake) target = listed(gpu, std::min(target, gpu.maximum_mhz / 4));
  const Count memory = gpu.memory_lock_mhz != 0 && !gpu.ignore_lock ? gpu.memory_lock_mhz : gpu.high_memory_mhz;
  const Count limit = gpu.board_limit_mw ? std::min(gpu.board_limit_mw, gpu.limit_mw) : gpu.limit_mw;
  Count clock = target;
  while (clock > gpu.minimum_mhz && power_mw(gpu, clock, memory) > limit) clock -= gpu.step_mhz;
  return {clock, memory, power_mw(gpu, clock, memory), clock < target};
}

Count energy_pj(const Gpu& gpu, Count now_ns) {
  return gpu.energy_pj + operation(gpu).power_mw * (now_ns - gpu.mark_ns);
}

Count shown_energy_mj(const Gpu& gpu, Count now_ns) {
  const Count step = now_ns / gpu.step_ns * gpu.step_ns;
  const Count picojoules = gpu.still || step < gpu.mark_ns ? gpu.shown_pj : energy_pj(gpu, step);
  return picojoules / 1'000'000'000u;
}

Count throttled_ns(Count account_ns, bool on, const Gpu& gpu, Count now_ns) {
  return account_ns + (on ? now_ns - gpu.mark_ns : 0);
}

State read_state(const fs::path& folder) { return Locked(folder).load(); }

void edit_state(const fs::path& folder, const std::function<void(State&)>& change) {
  const Locked locked(folder);
  State state = locked.load();
  const Count now_ns = state.now_ns();
  for (Gpu& gpu : state.gpus) settle(gpu, now_ns);
  change(state);
  locked.save(std::move(state));
}

StandIn::StandIn(std::size_t gpus) {
  std::string path = (fs::temp_directory_path() / "trainwatt-nvml-XXXXXX").string();
  if (!mkdtemp(path.data())) throw std::system_error(errno, std::generic_category(), path);
  folder_ = path;
  fs::permissions(folder_, fs::perms::all);  // ordinary users ask the driver, too
  State state;
  state.origin_ns = monotonic_ns();
  for (std::size_t i = 0; i < gpus; ++i)
    state.gpus.emplace_back().uuid = "GPU-0000000" + std::to_string(i) + "-1111-2222-3333-444444444444";
  Locked(folder_).save(std::move(state));
  fs::permissions(folder_ / "state", fs::perms(0666));
  setenv(folder_variable, path.c_str(), 1);
}

StandIn::~StandIn() {
  unsetenv(folder_variable);
  std::error_code none;
  fs::remove_all(folder_, none);
}

void StandIn::freeze() {
  edit_all([](State& state) {
    const Count step = state.gpus.empty() ? 1 : state.gpus.front().step_ns;
    state.frozen_ns = (state.now_ns() / step + 1) * step;
    state.frozen = 1;
  });
}

void StandIn::advance_milliseconds(Count milliseconds) {
  edit_all([&](State& state) {
    if (!state.frozen) throw std::logic_error("time must be frozen before it is advanced");
    state.frozen_ns += milliseconds * 1'000'000u;
  });
}

}  // namespace tw::standin
