// Frequency policies that can refuse, ignore writes and be changed by others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power::cpufreq {

/// What a test sets of a node, and what the knob under test left.
struct System {
  std::map<unsigned, Limits> now, hardware;
  std::map<unsigned, std::vector<unsigned long>> available;
  std::map<unsigned, std::vector<std::string>> governors;
  std::map<unsigned, int> error;  ///< of writes to this CPU
  bool ignores_writes = false;
  int inversions = 0;  ///< moments with min above max
};

class FakePolicies : public Policies {
 public:
  explicit FakePolicies(System& system) : system_(system) {}
  std::vector<unsigned> cpus() override {
    std::vector<unsigned> cpus;
    for (const auto& [cpu, limits] : system_.now) cpus.push_back(cpu);
    return cpus;
  }
  Limits limits(unsigned cpu) override { return system_.now.at(cpu); }
  Limits hardware(unsigned cpu) override { return system_.hardware.at(cpu); }
  std::vector<unsigned long> available_khz(unsigned cpu) override { return system_.available[cpu]; }
  std::vector<std::string> available_governors(unsigned cpu) override { return system_.governors[cpu]; }
  std::optional<unsigned long> current_khz(unsigned cpu) override { return system_.now.at(cpu).min_khz; }
  int set_min(unsigned cpu, unsigned long khz) override {
    return write(cpu, [&](Limits& limits) { limits.min_khz = khz; });
  }
  int set_max(unsigned cpu, unsigned long khz) override {
    return write(cpu, [&](Limits& limits) { limits.max_khz = khz; });
  }
  int set_governor(unsigned cpu, const std::string& governor) override {
    return write(cpu, [&](Limits& limits) { limits.governor = governor; });
  }

 private:
  template <typename Change>
  int write(unsigned cpu, const Change& change) {
    if (system_.error[cpu] != 0) return system_.error[cpu];
    if (!system_.ignores_writes) change(system_.now.at(cpu));
    system_.inversions += system_.now.at(cpu).min_khz > system_.now.at(cpu).max_khz;
    return 0;
  }
  System& system_;
};

}  // namespace tw::power::cpufreq
