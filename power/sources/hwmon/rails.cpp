#include "power/sources/hwmon/rails.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "power/sources/amdgpu/amdgpu.hpp"

namespace tw::power::hwmon {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 4 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "Module Power Socket 1" → "module", "1"; empty if it is no such label.
struct Socket {
  std::string rail, number;
};
Socket socket_of(const Rail& rail) {
  const std::string middle = " Power Socket ";
  const std::size_t at = rail.label.find(middle);
  if (at != std::string::npos && is_number(rail.label.substr(at + middle.size()))) {
    Socket socket{rail.label.substr(0, at), rail.label.substr(at + middle.size())};
    for (char& c : socket.rail) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* known : {"module", "grace", "cpu", "sysio"})
      if (socket.rail == known) return socket;
  }
  const std::string head = "Esocket";  // the driver amd_energy
  if (rail.chip == "amd_energy" && rail.label.starts_with(head) && is_number(rail.label.substr(head.size())))
    return {"package", rail.label.substr(head.size())};
  return {};
}

bool is_system(const Rail& rail) { return rail.chip == "power_meter" && rail.label.empty() && !rail.battery; }

bool is_module(const Rail& rail) { return socket_of(rail).rail == "module"; }

/// slowPPT and fastPPT, limits of laptops' APUs, are not.
bool is_gpu(const Rail& rail) {
  return rail.chip == "amdgpu" && !rail.pci.empty() && (rail.label.empty() || rail.label == "PPT");
}

}  // namespace

std::vector<RailUse> classify(const std::vector<Rail>& rails) {
  std::vector<RailUse> uses;
  const auto has = [&](const std::string& rail, const std::string& number) {
    return std::ranges::any_of(rails, [&](const Rail& other) {
      const Socket socket = socket_of(other);
      return socket.rail == rail && socket.number == number;
    });
  };
  for (const Rail& rail : rails) {
    RailUse use;
    const auto refuse = [&use](const char* why, std::string what) { use.reason = why, use.detail = std::move(what); };
    const Socket socket = socket_of(rail);
    use.domain = "hwmon:" + (socket.rail.empty() ? rail.id : socket.rail + "-" + socket.number);
    if (is_gpu(rail)) use.domain = "amdgpu:" + rail.pci;
    const bool known_twice = std::ranges::find(uses, use.domain, &RailUse::domain) != uses.end();
    if (rail.battery) {
      refuse("unsupported", rail.id + " is a battery sensor");
    } else if (known_twice) {
      use.domain += "@" + rail.id;
      refuse("duplicate", rail.id + " has the label of another sensor: \"" + rail.label + "\"");
    } else if (is_gpu(rail)) {
      use.scope = rail.integrated ? EnergyScope::package : EnergyScope::device;
      if (rail.integrated) use.detail = amdgpu::socket_note;
    } else if (socket.rail == "module") {
      use.scope = EnergyScope::node;
    } else if (socket.rail == "grace" || socket.rail == "package") {
      use.scope = EnergyScope::package;
    } else if ((socket.rail == "cpu" || socket.rail == "sysio") && has("grace", socket.number)) {
      refuse("contained", "is part of hwmon:grace-" + socket.number);
    } else if (socket.rail == "cpu") {
      use.scope = EnergyScope::package;
    } else if (is_system(rail) && std::ranges::count_if(rails, is_system) > 1) {
      refuse("unsupported",
             rail.id + " is one of several system meters without a label: whether one contains another is unknown");
    } else if (is_system(rail) && std::ranges::any_of(rails, is_module)) {
      refuse("unsupported", rail.id + " has no label: it may contain the modules, which are already counted");
    } else if (is_system(rail)) {
      use.domain = "hwmon:node";
      use.scope = EnergyScope::node;
    } else {
      refuse("unsupported", rail.id + " of chip \"" + rail.chip + "\" has the unknown rail \"" + rail.label + "\"");
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace tw::power::hwmon
