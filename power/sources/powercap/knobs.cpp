// Package power caps through libpowercap's sysfs calls. Zones and constraints are told by their names; psys, dram, core
// and the MMIO mirror are left alone.
#include <powercap-sysfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "power/sources/powercap/cap_knob.hpp"
#include "power/sources/powercap/sysfs.hpp"

namespace tw::power {
namespace {

class LibraryCap : public powercap::CapAccess {
 public:
  LibraryCap(powercap::Zone zone, std::uint32_t constraint) : zone_(std::move(zone)), constraint_(constraint) {}

  std::string path() const override { return zone_.path() + "/constraint_" + std::to_string(constraint_); }
  int get_limit_uw(std::uint64_t* value) override { return call(powercap_sysfs_constraint_get_power_limit_uw, value); }
  int set_limit_uw(std::uint64_t value) override { return call(powercap_sysfs_constraint_set_power_limit_uw, value); }
  int get_window_us(std::uint64_t* value) override { return call(powercap_sysfs_constraint_get_time_window_us, value); }
  int set_window_us(std::uint64_t value) override { return call(powercap_sysfs_constraint_set_time_window_us, value); }
  int get_enabled(bool* value) override {
    std::uint32_t number = 0;
    const int error = powercap_sysfs_zone_get_enabled(type(), zone_.ids.data(), zone_.depth, &number);
    *value = number != 0;
    return error;
  }
  int set_enabled(bool value) override {
    return powercap_sysfs_zone_set_enabled(type(), zone_.ids.data(), zone_.depth, value ? 1 : 0);
  }
  int get_maximum_uw(std::uint64_t* value) override { return call(powercap_sysfs_constraint_get_max_power_uw, value); }
  int get_minimum_uw(std::uint64_t* value) override { return call(powercap_sysfs_constraint_get_min_power_uw, value); }
  int get_energy_uj(std::uint64_t* value) override { return zone_.energy_uj(value); }
  int get_energy_range_uj(std::uint64_t* value) override { return zone_.range_uj(value); }

 private:
  const char* type() const { return zone_.name.control_type.c_str(); }
  template <class Function, class Value>
  int call(Function* of_constraint, Value value) const {
    return of_constraint(type(), zone_.ids.data(), zone_.depth, constraint_, value);
  }
  powercap::Zone zone_;
  std::uint32_t constraint_;
};

std::optional<std::uint32_t> long_term_constraint(const powercap::Zone& zone) {
  for (std::uint32_t constraint = 0; constraint < 8; ++constraint) {
    char name[64] = {};
    if (powercap_sysfs_constraint_get_name(zone.name.control_type.c_str(), zone.ids.data(), zone.depth, constraint,
                                           name, sizeof name - 1) > 0 &&
        std::strcmp(name, "long_term") == 0)
      return constraint;
  }
  return std::nullopt;
}

}  // namespace

std::vector<KnobFinding> powercap_find_knobs() {
  std::vector<KnobFinding> findings;
  const std::vector<powercap::Zone> zones = powercap::enumerate();
  std::vector<powercap::ZoneName> names;
  for (const powercap::Zone& zone : zones) names.push_back(zone.name);
  const std::vector<powercap::ZoneUse> uses = powercap::classify(names);
  for (std::size_t i = 0; i < zones.size(); ++i) {
    const powercap::Zone& zone = zones[i];
    if (zone.name.control_type != "intel-rapl" || zone.depth != 1 || !zone.name.name.starts_with("package-")) continue;
    KnobFinding finding{.kind = KnobKind::cpu_power_limit, .domain = uses[i].domain};
    if (const auto constraint = long_term_constraint(zone)) {
      auto access = std::make_unique<LibraryCap>(zone, *constraint);
      const std::string limit = access->path() + "_power_limit_uw", enabled = zone.path() + "/enabled";
      std::uint64_t value = 0;
      if (const int error = access->get_limit_uw(&value)) {
        finding.explain(error == -EACCES || error == -EPERM ? "permission" : "unsupported",
                        limit + ": " + std::strerror(-error));
      } else {
        for (const std::string& file : {limit, enabled})
          if (finding.reason.empty() && eaccess(file.c_str(), W_OK) != 0) {
            finding.explain("permission", file + ": " + std::strerror(errno));
            finding.grant = "run as root; or as root: chgrp GROUP " + limit + " " + enabled + " and chmod g+w on them";
          }
        finding.knob =
            powercap::make_cap_knob(std::move(access), finding.domain, default_maximum_watts(EnergyScope::package));
      }
    } else {
      finding.explain("unsupported",
                      zone.path() + " has no long_term constraint: AMD CPUs report energy but have no cap here");
    }
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) {
    const powercap::Absence absence =
        zones.empty()
            ? powercap::why_no_zones()
            : powercap::Absence{"unsupported",
                                std::string(powercap::class_folder) + " has no package zone of intel-rapl", ""};
    findings.push_back({.kind = KnobKind::cpu_power_limit,
                        .domain = "rapl",
                        .reason = absence.reason,
                        .detail = absence.detail,
                        .grant = absence.grant});
  }
  return findings;
}

}  // namespace tw::power
