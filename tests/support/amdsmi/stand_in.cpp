#include "tests/support/amdsmi/stand_in.hpp"

#include <stdlib.h>
#include <time.h>

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace fs = std::filesystem;

namespace tw::standin_amd {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

std::uint64_t monotonic_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * second_ns + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

std::uint64_t State::now_ns() const { return frozen_ns ? frozen_ns : monotonic_ns() - origin_ns; }

std::uint64_t count(const Gpu& gpu, std::uint64_t now_ns) {
  if (gpu.still) return gpu.offset;
  const auto shown_ns = static_cast<double>(now_ns / gpu.step_ns * gpu.step_ns);
  return gpu.offset + static_cast<std::uint64_t>(std::llround(gpu.watts * shown_ns * 1e-3 / gpu.unit_uj));
}

State read_state(const fs::path& folder) {
  std::ifstream file(folder / "state");
  State state;
  std::size_t gpus = 0;
  file >> state.init_code >> state.origin_ns >> state.frozen_ns >> gpus;
  state.gpus.resize(gpus);
  for (Gpu& gpu : state.gpus)
    file >> gpu.id >> gpu.uuid >> gpu.watts >> gpu.unit_uj >> gpu.stated_uj >> gpu.step_ns >> gpu.offset >> gpu.code >>
        gpu.type >> gpu.still;
  if (!file) throw std::runtime_error((folder / "state").string() + ": is not a stand-in's state");
  return state;
}

void StandIn::save() const {
  {
    std::ofstream file(folder_ / "state.new");
    file << state_.init_code << ' ' << state_.origin_ns << ' ' << state_.frozen_ns << ' ' << state_.gpus.size() << '\n';
    for (const Gpu& gpu : state_.gpus)
      file << gpu.id << ' ' << gpu.uuid << ' ' << gpu.watts << ' ' << gpu.unit_uj << ' ' << gpu.stated_uj << ' '
           << gpu.step_ns << ' ' << gpu.offset << ' ' << gpu.code << ' ' << gpu.type << ' ' << gpu.still << '\n';
  }
  fs::rename(folder_ / "state.new", folder_ / "state");
}

StandIn::StandIn(std::vector<Gpu> gpus) {
  std::string path = (fs::temp_directory_path() / "trainwatt-amdsmi-XXXXXX").string();
  if (!mkdtemp(path.data())) throw std::system_error(errno, std::generic_category(), path);
  folder_ = path;
  state_.origin_ns = monotonic_ns();
  state_.gpus = std::move(gpus);
  save();
  setenv(folder_variable, path.c_str(), 1);
}

StandIn::~StandIn() {
  unsetenv(folder_variable);
  std::error_code none;
  fs::remove_all(folder_, none);
}

void StandIn::edit(const std::function<void(State&)>& change) {
  change(state_);
  save();
}

void StandIn::freeze() {
  edit([](State& state) { state.frozen_ns = (state.now_ns() / second_ns + 1) * second_ns; });
}

void StandIn::advance_milliseconds(std::uint64_t milliseconds) {
  edit([&](State& state) {
    if (state.frozen_ns == 0) throw std::logic_error("time must be frozen before it is advanced");
    state.frozen_ns += milliseconds * 1'000'000;
  });
}

}  // namespace tw::standin_amd
