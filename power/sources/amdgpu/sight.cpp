#include "power/sources/amdgpu/amdgpu.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "power/meter/number_text.hpp"
#include "power/meter/sysfs.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

/// A GPU as ROCm numbers it: a card, or a partition of one.
struct Agent {
  std::string card, uuid;  // "0000:c1:00.0", "GPU-00b1…"
};

struct Agents {
  std::vector<Agent> all;
  bool some_hidden = false;  // by a cgroup
};

Agents find_agents(const fs::path& topology) {
  std::map<std::uint64_t, fs::path> nodes;
  for (const fs::path& folder : sysfs::sorted_entries(topology)) {
    const std::string name = folder.filename().string();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && *end == '\0') nodes.emplace(number, folder);
  }
  Agents agents;
  for (const auto& [number, folder] : nodes) {
    std::map<std::string, std::uint64_t> properties;
    const std::string text = sysfs::text_or_empty(folder / "properties");
    if (text.empty()) agents.some_hidden = true;
    std::istringstream lines(text);
    std::string name;
    for (std::uint64_t value = 0; lines >> name >> value;) properties[name] = value;
    if (properties["simd_count"] == 0) continue;               // CPUs alone, or hidden
    const std::uint64_t location = properties["location_id"];  // the function may be a partition's number
    agents.all.push_back(
        {formatted("%04x:%02x:%02x.0", static_cast<unsigned>(properties["domain"] & 0xffff),
                   static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f)),
         formatted("GPU-%016llx", static_cast<unsigned long long>(properties["unique_id"]))});
  }
  return agents;
}

std::vector<Agent> select(const std::vector<Agent>& all, std::string_view list) {
  std::vector<Agent> chosen;
  while (!list.empty()) {
    std::string entry(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    std::erase(entry, ' ');
    const Agent* match = nullptr;
    if (entry.starts_with("GPU-")) {
      std::transform(entry.begin() + 4, entry.end(), entry.begin() + 4,
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const auto fits = [&](const Agent& agent) { return agent.uuid.starts_with(entry); };
      if (std::ranges::count_if(all, fits) == 1) match = &*std::ranges::find_if(all, fits);
    } else {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
      if (error == std::errc() && *end == '\0' && index < all.size()) match = &all[index];
    }
    if (!match) break;
    chosen.push_back(*match);
  }
  return chosen;
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace

Sight amdgpu::look_in(const fs::path& driver, const fs::path& topology, const Hiding& hiding) {
  const Agents agents = find_agents(topology);
  const bool knows_none = agents.all.empty() && !agents.some_hidden;
  std::vector<Agent> left = hiding.rocr ? select(agents.all, *hiding.rocr) : agents.all;
  const auto has = [](const std::vector<Agent>& some, const std::string& card) {
    return std::ranges::find(some, card, &Agent::card) != some.end();
  };
  Sight sight;
  if (hiding.hip && !hiding.hip->empty()) {
    left = select(left, *hiding.hip);
  } else if (hiding.cuda && !hiding.cuda->empty()) {
    const std::vector<Agent> earlier = select(left, *hiding.cuda);
    if (!std::ranges::all_of(left, [&](const Agent& agent) { return has(earlier, agent.card); }))
      sight.unclear = "CUDA_VISIBLE_DEVICES=" + *hiding.cuda +
                      ": whether it hides AMD GPUs depends on the version of HIP: set HIP_VISIBLE_DEVICES, or "
                      "ROCR_VISIBLE_DEVICES";
  }
  for (const fs::path& entry : sysfs::sorted_entries(driver)) {
    const std::string card = sysfs::pci_address(entry);
    if (card.empty()) continue;
    sight.addressable.push_back("amdgpu:" + card);
    if (has(left, card) || knows_none) sight.visible.push_back("amdgpu:" + card);
  }
  return sight;
}

Sight amdgpu::look(bool beside_nvidia) {
  return look_in("/sys/bus/pci/drivers/amdgpu", "/sys/class/kfd/kfd/topology/nodes",
                 {variable("ROCR_VISIBLE_DEVICES"), variable("HIP_VISIBLE_DEVICES"),
                  beside_nvidia ? std::nullopt : variable("CUDA_VISIBLE_DEVICES")});
}

}  // namespace tw::power
