// What metering costs: the CPU time of the sampler's thread, and of all metering threads, as shares of one core at 10
// Hz, over eight energy counters alone, with the clocks of 64 CPUs, and with the files of eight AMD cards; over eight
// power sensors, which are integrated; in a made-up tree. Not a test: figures differ by machine, and no test asserts a
// time.
//
//   sampler_cost [SECONDS]
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "power/sources/amdgpu/amdgpu.hpp"
#include "power/sources/cpu/telemetry.hpp"
#include "power/sources/hwmon/source.hpp"
#include "power/telemetry/sampler.hpp"
#include "tests/power/fake_tree.hpp"

namespace {

constexpr int sensors = 8, cpus = 64;

void make_tree(const tw::FakeTree& tree) {
  for (int i = 0; i < sensors; ++i) {
    const std::string number = std::to_string(i), card = "pci/0000:c" + number + ":00.0", chip = "gpus/hwmon" + number;
    tree.write(card + "/gpu_busy_percent", "99");
    tree.write(chip + "/name", "amdgpu");
    std::filesystem::create_directory_symlink(tree.at(card), tree.at(chip + "/device"));
    for (const char* file : {"power1_average", "temp1_input"}) tree.write(chip + "/" + file, "300000000");
    for (const auto& [file, label] : {std::pair{"freq1", "sclk"}, {"freq2", "mclk"}}) {
      tree.write(chip + "/" + file + "_label", label);
      tree.write(chip + "/" + file + "_input", "1700000000");
    }
  }
  tree.write("counters/hwmon0/name", "amd_energy");
  std::string stat = "cpu  " + std::to_string(cpus) + " 0 0 9 0 0 0 0 0 0\n";
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string policy = "cpus/cpufreq/policy" + std::to_string(cpu);
    tree.write(policy + "/scaling_cur_freq", "3000000");
    tree.write(policy + "/affected_cpus", std::to_string(cpu));
    stat += "cpu" + std::to_string(cpu) + " 1234567 0 7654321 987654321 1 2 3 0 0 0\n";
  }
  tree.write("stat", stat);
}

void step_counters(const tw::FakeTree& tree, long value) {
  for (int i = 0; i < sensors; ++i) {
    const std::string stem = "counters/hwmon0/energy" + std::to_string(i + 1);
    tree.write(stem + "_label", "Esocket" + std::to_string(i));
    tree.write(stem + "_input", std::to_string(value));
  }
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Samples for `seconds` and prints a line.
void measure(const char* what, std::vector<tw::power::TelemetryFinding> telemetry, tw::power::EnergyReader& reader,
             double seconds) {
  std::size_t channels = 0, meters = 0;
  for (const tw::power::TelemetryFinding& one : telemetry)
    channels += one.telemetry ? one.telemetry->channels().size() : 0;
  for (const tw::power::MeterFinding& one : reader.findings()) meters += one.meter != nullptr;
  tw::power::Sampler sampler(std::move(telemetry), &reader);
  const double before = process_cpu_seconds();
  sampler.begin();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const tw::power::Sampled sampled = sampler.end();
  const double process = process_cpu_seconds() - before;
  std::printf(
      "%s: %zu meters, %zu channels, every %.0f ms for %.1f s: sampler %.4f %% of a core, all "
      "metering threads %.4f %%, process %.4f %%\n",
      what, meters, channels, sampler.period_seconds() * 1e3, sampled.window_seconds,
      100 * sampled.thread_seconds / sampled.window_seconds, 100 * sampled.cpu_seconds / sampled.window_seconds,
      100 * process / sampled.window_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 30;
  const tw::FakeTree tree;
  make_tree(tree);
  step_counters(tree, 1000);
  std::atomic<bool> found{false};
  std::thread ticker([&] {
    for (long value = 1000; !found; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      step_counters(tree, ++value);
  });
  std::vector<tw::power::MeterFinding> meters = tw::power::hwmon::find_meters_in(tree.at("counters"));
  found = true;
  ticker.join();
  tw::power::EnergyReader reader(std::move(meters));
  measure("counters alone", {}, reader, seconds);
  std::vector<tw::power::TelemetryFinding> telemetry =
      tw::power::cpu::find_telemetry_in(tree.at("cpus"), tree.at("hwmon"), tree.at("stat"));
  measure("and CPUs", std::move(telemetry), reader, seconds);
  telemetry = tw::power::amdgpu::find_telemetry_in(tree.at("gpus"));
  measure("and cards", std::move(telemetry), reader, seconds);
  tw::power::EnergyReader integrating(tw::power::hwmon::find_meters_in(tree.at("gpus")));
  measure("powers alone", {}, integrating, seconds);
  return 0;
}
