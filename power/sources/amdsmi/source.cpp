#include "power/sources/amdsmi/source.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "power/meter/number_text.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/meter/watch.hpp"
#include "power/sources/amdgpu/amdgpu.hpp"
#include "power/sources/amdsmi/library.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;
using amdsmi::call;
using amdsmi::Device;
using amdsmi::Library;

constexpr const char* counter_function = "amdsmi_get_energy_count";

struct Reading {
  std::uint64_t count = 0;
  float microjoules = 0;
};
int read_counter(const Library& library, const Device& device, Reading* reading) {
  std::uint64_t nanoseconds = 0;
  const int code =
      call(library.amdsmi_get_energy_count, device.handle, &reading->count, &reading->microjoules, &nanoseconds);
  return code == amdsmi::success && reading->count == amdsmi::unknown_energy ? amdsmi::not_supported : code;
}
std::uint64_t read_count(const Library& library, const Device& device) {
  Reading reading;
  if (const int code = read_counter(library, device, &reading); code != amdsmi::success)
    library.fail(code, counter_function, device.domain());
  return reading.count;
}

/// The file in which the kernel shows the card's power in µW; empty if there is none.
fs::path power_file(const fs::path& card) {
  std::error_code none;
  for (const fs::path& chip : sysfs::sorted_entries(card / "hwmon"))
    for (const char* name : {"power1_average", "power1_input"})
      if (fs::exists(chip / name, none)) return chip / name;
  return {};
}

/// What the card's joules cover.
EnergyScope scope_of(const fs::path& card) {
  const std::vector<fs::path> chips = sysfs::sorted_entries(card / "hwmon");
  return std::ranges::any_of(chips, amdgpu::is_integrated) ? EnergyScope::package : EnergyScope::device;
}

MeterFinding unavailable(std::string domain, const Unavailable& why) {
  const bool permission = why.reason == "permission";
  return {.domain = std::move(domain),
          .reason = why.reason,
          .detail = why.detail,
          .grant = permission ? "membership of the groups render and video (/dev/kfd, /dev/dri)" : ""};
}

/// A card on its way to a meter.
struct Card {
  Device device;
  EnergyScope scope = EnergyScope::device;
  fs::path power;
  double joules_per_count = 0;
  Watched energy, watts;  // counts, µW

  double counter_watts() const { return energy.rate_per_second * joules_per_count; }
  double kernel_watts() const {
    double sum = 0;
    for (const std::uint64_t value : watts.values) sum += static_cast<double>(value) * 1e-6;
    return watts.values.empty() ? 0 : sum / static_cast<double>(watts.values.size());
  }
  bool agrees() const {
    const double ratio = counter_watts() / kernel_watts();  // neither is 0, see judge()
    return ratio <= amdsmi::disagreement_factor && ratio >= 1 / amdsmi::disagreement_factor;
  }
};

/// Fills what the watching needs; where it cannot be watched, says why.
std::optional<MeterFinding> prepare(const Library& library, const fs::path& pci_devices, Card& card) {
  const auto refuse = [&](const char* reason, const std::string& why) {
    MeterFinding finding = unavailable(card.device.domain(), {reason, why});
    finding.scope = card.scope;
    return finding;
  };
  const fs::path folder = pci_devices / card.device.card();
  card.scope = scope_of(folder);
  Reading first;
  if (const int code = read_counter(library, card.device, &first); code != amdsmi::success) {
    const Unavailable why = library.explain(code, counter_function);
    return refuse(why.reason.c_str(), why.detail);
  }
  card.power = power_file(folder);
  card.joules_per_count = static_cast<double>(first.microjoules) * 1e-6;
  if (card.power.empty() && first.count == 0) {
    // AMD's own tools identify the second die this way: power management is the first one's alone.
    MeterFinding second_die = refuse("contained",
                                     "accumulator at 0 and no power sensor: the second die of a card, "
                                     "whose energy the first die's counter includes");
    second_die.scope.reset();
    return second_die;
  }
  if (card.power.empty())
    return refuse("unsupported", (folder / "hwmon").string() +
                                     " has no power1_average or power1_input: the accumulator "
                                     "cannot be compared with the card's power");
  if (!std::isfinite(card.joules_per_count) || card.joules_per_count <= 0)
    return refuse("unsupported", std::string(counter_function) + " states a resolution of " +
                                     std::to_string(first.microjoules) + " uJ");
  return std::nullopt;
}

void observe(const Library& library, const std::vector<Card*>& cards) {
  Numbers counters, powers;
  for (const Card* card : cards) {
    counters.push_back([&library, card] { return read_count(library, card->device); });
    powers.push_back([card] { return sysfs::read_integer(card->power); });
  }
  Patience patience;
  patience.least_seconds = patience.usual_seconds;  // power is averaged over the time
  std::vector<Watched> watched = watch(counters, powers, patience);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    cards[i]->energy = std::move(watched[i]);
    cards[i]->watts = std::move(watched[cards.size() + i]);
  }
}

/// Whether a second look may end otherwise.
bool is_doubtful(const Card& card) {
  return !card.energy.error && !card.watts.error && card.counter_watts() > 0 && card.kernel_watts() > 0 &&
         !card.agrees();
}

MeterFinding judge(const std::shared_ptr<const Library>& library, const Card& card) {
  MeterFinding finding{.domain = card.device.domain(), .scope = card.scope};
  const auto refuse = [&](const std::string& why) {
    finding.explain("unsupported", why);
    return std::move(finding);
  };
  if (card.energy.error) {
    MeterFinding absent =
        unavailable(finding.domain, library->explain(card.energy.error->code().value(), counter_function));
    absent.scope = finding.scope;
    return absent;
  }
  if (!card.energy.moved()) return refuse(stood_still(counter_function, card.energy));
  if (card.watts.error)
    return refuse(std::string("the accumulator cannot be compared with the card's power: ") + card.watts.error->what());
  const std::string text =
      formatted("the accumulator grows by %.4g W, the kernel shows %.4g W", card.counter_watts(), card.kernel_watts());
  if (!(card.counter_watts() > 0) || !(card.kernel_watts() > 0) || !card.agrees())
    return refuse(text + formatted(": they differ by more than a factor of %.3g, so it is not used",
                                   amdsmi::disagreement_factor));
  finding.detail = card.device.uuid + (card.device.uuid.empty() ? "" : "; ") + text;
  if (card.scope == EnergyScope::package) finding.detail += std::string("; ") + amdgpu::socket_note;
  finding.meter = std::make_unique<CounterMeter>(
      CounterSpec{{finding.domain, card.scope, card.energy.period_seconds, {}}, card.joules_per_count},
      [library, device = card.device] { return read_count(*library, device); }, card.energy.last);
  finding.counted = true;
  return finding;
}

}  // namespace

std::vector<MeterFinding> amdsmi::find_meters_in(const fs::path& pci_devices) {
  std::vector<MeterFinding> findings;
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) return MeterFinding::only(unavailable("amdsmi", why));
  std::vector<Card> cards;
  std::set<std::string> seen;
  for (Device& device : find_devices(*library)) {
    if (!device.handle) {
      findings.push_back(unavailable("amdsmi", device.error));
      continue;
    }
    if (!seen.insert(device.card()).second) {
      findings.push_back(
          unavailable(device.domain(), {"duplicate", "a partition of a card; the accumulator covers the whole card"}));
      continue;
    }
    Card card{std::move(device), EnergyScope::device, {}, 0, {}, {}};
    if (std::optional<MeterFinding> absent = prepare(*library, pci_devices, card))
      findings.push_back(std::move(*absent));
    else
      cards.push_back(std::move(card));
  }
  if (cards.empty() && findings.empty())
    return MeterFinding::only(unavailable("amdsmi", {"no_driver", "the driver shows no AMD GPU"}));
  std::vector<Card*> doubtful;
  for (Card& card : cards) doubtful.push_back(&card);
  for (int look = 0; look < 2 && !doubtful.empty(); ++look) {
    observe(*library, doubtful);
    std::erase_if(doubtful, [](const Card* card) { return !is_doubtful(*card); });
  }
  for (const Card& card : cards) findings.push_back(judge(library, card));
  return findings;
}

std::vector<MeterFinding> amdsmi_find_meters(const MeterOptions&) {
  return amdsmi::find_meters_in("/sys/bus/pci/devices");
}

}  // namespace tw::power
