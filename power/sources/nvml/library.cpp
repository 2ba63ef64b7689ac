#include "power/sources/nvml/library.hpp"

#include <cstdlib>

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

namespace tw::power::nvml {
namespace {

/// What an error means, and what to do about it.
struct Meaning {
  const char *reason, *advice;
};
Meaning meaning_of(int code) {
  static const std::map<int, Meaning> all = {
      {no_permission, {"permission", ""}},
      {operating_system, {"permission", "; the container or the job's cgroup hides the device file"}},
      {driver_not_loaded, {"no_driver", "; load the module nvidia"}},
      {library_not_found, {"no_driver", ""}},
      {library_version_mismatch,
       {"no_driver", "; the driver was updated while loaded: reboot, or reload the module nvidia"}},
      {gpu_is_lost, {"lost", "; the GPU has fallen off the bus: see dmesg"}},
      {reset_required, {"lost", "; reset the GPU"}}};
  const auto found = all.find(code);
  return found == all.end() ? Meaning{"unsupported", ""} : found->second;
}

/// The GPU that a MIG instance is a part of; empty if the driver does not know it.
std::string whole_of(const Library& library, const std::string& instance) {
  // "MIG-GPU-<the GPU's UUID>/<GPU instance>/<compute instance>", before drivers gave instances UUIDs of their own.
  if (constexpr std::string_view prefix = "MIG-"; instance.starts_with("MIG-GPU-"))
    return instance.substr(prefix.size(), instance.find('/') - prefix.size());
  DeviceHandle part = nullptr, whole = nullptr;
  char uuid[96] = {};
  if (call(library.nvmlDeviceGetHandleByUUID, instance.c_str(), &part) != success ||
      call(library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, part, &whole) != success ||
      call(library.nvmlDeviceGetUUID, whole, uuid, static_cast<unsigned>(sizeof uuid)) != success)
    return {};
  return uuid;
}

/// Why the numbers of these, in the order of their PCI buses, may not be CUDA's; empty if they are.
std::string why_not_numbered(const std::vector<Device>& all, const std::vector<Device>& usable, bool by_pci_bus) {
  if (usable.size() < 2) return {};
  for (const Device& device : all)
    if (!device.error.reason.empty() && device.error.reason != "permission")
      return "whether CUDA counts " + device.domain() + " is not known (" + device.error.detail +
             "): name them by UUID";
  const auto differs = [&](const auto& of) {
    return std::ranges::any_of(usable, [&](const Device& device) { return of(device) != of(usable.front()); });
  };
  if (differs([](const Device& device) { return device.mig; }))
    return "only some are cut into MIG instances: name them by UUID";
  if (!std::ranges::all_of(usable, [](const Device& device) { return device.pci.has_value(); }))
    return "the driver does not report their PCI buses: name them by UUID";
  if (!by_pci_bus && (usable.front().name.empty() || differs([](const Device& device) { return device.name; })))
    return "they differ, and CUDA numbers them by speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID";
  return {};
}

}  // namespace

std::shared_ptr<const Library> Library::open(Unavailable* why, const char* name) {
  std::shared_ptr<Library> library(new Library);
  if (std::string words; !library->file_.open({name}, &words)) {
    *why = {"no_driver", words + "; it comes with NVIDIA's driver"};
    return nullptr;
  }
#define TW_NVML(symbol, parameters) library->file_.find(library->symbol, #symbol);
#include "power/sources/nvml/functions.def"
  library->file_.find(library->error_string_, "nvmlErrorString");
  const int code = call(library->nvmlInit_v2);
  library->initialised_ = code == success;
  if (code == success) return library;
  *why = library->explain(code, "nvmlInit_v2");
  return nullptr;
}

Library::~Library() {
  if (initialised_) call(nvmlShutdown);
}

std::string Library::driver_version() const {
  char version[80] = {};
  return call(nvmlSystemGetDriverVersion, version, static_cast<unsigned>(sizeof version)) == success ? version : "";
}

std::string Library::text(int code) const {
  const char* words = error_string_ ? error_string_(code) : nullptr;
  const std::string number = "NVML error " + std::to_string(code);
  return words ? words + (" (" + number + ")") : number;
}

Unavailable Library::explain(int code, const char* function) const {
  if (code == function_not_found)
    return {"unsupported", std::string(default_library) + " has no symbol " + function + ": update the driver"};
  const Meaning meaning = meaning_of(code);
  return {meaning.reason, std::string(function) + ": " + text(code) + meaning.advice};
}

void Library::fail(int code, const char* function, const std::string& domain) const {
  const char* words = error_string_ ? error_string_(code) : nullptr;
  static const ErrorNumbers numbers("nvml", "NVML");
  throw std::system_error(code, numbers, domain + ": " + function + ": " + (words ? words : "failed"));
}

std::vector<Device> find_devices(const Library& library) {
  std::vector<Device> devices;
  unsigned count = 0;
  if (const int code = call(library.nvmlDeviceGetCount_v2, &count); code != success) {
    devices.emplace_back().error = library.explain(code, "nvmlDeviceGetCount_v2");
    return devices;
  }
  for (unsigned index = 0; index < count; ++index) {
    Device& device = devices.emplace_back();
    device.uuid = "#" + std::to_string(index);
    const char* function = "nvmlDeviceGetHandleByIndex_v2";
    int code = call(library.nvmlDeviceGetHandleByIndex_v2, index, &device.handle);
    char text[96] = {};
    if (code == success) {
      function = "nvmlDeviceGetUUID";
      code = call(library.nvmlDeviceGetUUID, device.handle, text, static_cast<unsigned>(sizeof text));
    }
    if (code != success) {
      device.error = library.explain(code, function);
      continue;
    }
    device.uuid = text;
    text[0] = '\0';
    if (call(library.nvmlDeviceGetName, device.handle, text, static_cast<unsigned>(sizeof text)) == success)
      device.name = text;
    unsigned current = 0, pending = 0;
    device.mig = call(library.nvmlDeviceGetMigMode, device.handle, &current, &pending) == success && current == 1;
    PciInfo pci{};
    if (call(library.nvmlDeviceGetPciInfo_v3, device.handle, &pci) == success)
      device.pci = std::uint64_t{pci.domain} << 32 | std::uint64_t{pci.bus} << 16 | pci.device;
  }
  return devices;
}
Named visible_devices(const Library& library, const std::vector<Device>& all, std::string_view visible,
                      bool by_pci_bus) {
  std::vector<Device> usable;
  for (const Device& device : all)
    if (device.error.reason.empty()) usable.push_back(device);
  std::ranges::stable_sort(usable, {}, [](const Device& device) { return device.pci.value_or(0); });
  Named named;
  std::vector<const Device*> chosen, by_name, by_number;
  const auto add = [](std::vector<const Device*>& to, const Device* device) {
    if (std::ranges::find(to, device) == to.end()) to.push_back(device);
  };
  while (!visible.empty()) {
    const std::size_t comma = std::min(visible.find(','), visible.size());
    std::string_view entry = visible.substr(0, comma);
    visible.remove_prefix(std::min(comma + 1, visible.size()));
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);

    std::string parent;  // outlives `entry`, which may refer to it
    if (entry.starts_with("MIG-")) {
      parent = whole_of(library, std::string(entry));
      if (parent.empty()) break;
      entry = parent;
    }
    const Device* match = nullptr;
    const bool is_name = entry.starts_with("GPU-");
    if (is_name) {
      const auto fits = [&](const Device& device) { return device.uuid.starts_with(entry); };
      if (std::ranges::count_if(usable, fits) == 1) match = &*std::ranges::find_if(usable, fits);
    } else {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
      if (error == std::errc() && end == entry.data() + entry.size() && index < usable.size()) match = &usable[index];
    }
    if (!match) break;
    add(chosen, match);
    add(is_name ? by_name : by_number, match);
  }
  // In whatever order CUDA numbers: as many numbers as there are GPUs name all of them.
  if (!by_number.empty() && by_number.size() < usable.size()) named.unclear = why_not_numbered(all, usable, by_pci_bus);
  for (const Device* device : named.unclear.empty() ? chosen : by_name) named.devices.push_back(*device);
  return named;
}

Sight look() {
  Sight sight;
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) return sight;
  const std::vector<Device> all = find_devices(*library);
  for (const Device& device : all)
    if (device.error.reason.empty()) sight.addressable.push_back(device.domain());
  const char* named = std::getenv("CUDA_VISIBLE_DEVICES");
  if (named == nullptr) {
    sight.visible = sight.addressable;
    return sight;
  }
  const char* order = std::getenv("CUDA_DEVICE_ORDER");
  const bool by_pci_bus = order != nullptr && std::string_view(order) == "PCI_BUS_ID";
  const Named chosen = visible_devices(*library, all, named, by_pci_bus);
  for (const Device& device : chosen.devices) sight.visible.push_back(device.domain());
  if (!chosen.unclear.empty())
    sight.unclear =
        "CUDA_VISIBLE_DEVICES=" + std::string(named) + ": which GPUs the numbers name is not known: " + chosen.unclear;
  return sight;
}

std::vector<std::string> names_of_visible() {
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  std::vector<std::string> names;
  if (!library) return names;
  const std::vector<std::string> visible = look().visible;
  for (const Device& device : find_devices(*library)) {
    if (!device.error.reason.empty() || std::ranges::find(visible, device.domain()) == visible.end()) continue;
    if (device.mig) return {};
    names.push_back(device.name);
  }
  return names;
}

GpuName name_of(const std::string& uuid) {
  constexpr std::string_view prefix = "GPU-";
  const GpuName as_given{uuid, uuid};
  Unavailable why;
  const std::shared_ptr<const Library> library = uuid.starts_with(prefix) ? Library::open(&why) : nullptr;
  DeviceHandle device = nullptr;
  if (!library || call(library->nvmlDeviceGetHandleByUUID, uuid.c_str(), &device) == success) return as_given;
  const std::string instance = "MIG-" + uuid.substr(prefix.size());
  const std::string whole = whole_of(*library, instance);
  return whole.empty() ? as_given : GpuName{instance, whole};
}

std::optional<double> field_number(const FieldValue& field) {
  if (field.status != success) return std::nullopt;
  switch (field.value_type) {
    case value_double:
      return field.value.d;
    case value_unsigned:
      return static_cast<double>(field.value.u);
    case value_unsigned_long:
      return static_cast<double>(field.value.ul);
    case value_unsigned_long_long:
      return static_cast<double>(field.value.ull);
    case value_long_long:
      return static_cast<double>(field.value.ll);
    case value_int:
      return static_cast<double>(field.value.i);
    case value_unsigned_short:
      return static_cast<double>(field.value.us);
    default:
      return std::nullopt;
  }
}

std::optional<double> read_field(const Library& library, DeviceHandle device, unsigned id) {
  FieldValue field{};
  field.field_id = id;
  if (call(library.nvmlDeviceGetFieldValues, device, 1, &field) != success) return std::nullopt;
  return field_number(field);
}

PowerSensor::PowerSensor(std::shared_ptr<const Library> library, const Device& device)
    : library_(std::move(library)), device_(device.handle), domain_(device.domain()) {
  instant_ = read_field(*library_, device_, field_power_instant).has_value();
}

int PowerSensor::read(double* watts) const {
  if (!instant_) {
    unsigned milliwatts = 0;
    const int code = call(library_->nvmlDeviceGetPowerUsage, device_, &milliwatts);
    *watts = milliwatts * 1e-3;
    return code;
  }
  FieldValue field{};
  field.field_id = field_power_instant;
  const int code = call(library_->nvmlDeviceGetFieldValues, device_, 1, &field);
  if (code != success) return code;
  const std::optional<double> milliwatts = field_number(field);
  if (!milliwatts) return field.status != success ? field.status : static_cast<int>(not_supported);
  *watts = *milliwatts * 1e-3;
  return success;
}

double PowerSensor::watts() const {
  double value = 0;
  if (const int code = read(&value); code != success) library_->fail(code, function(), domain_);
  return value;
}

ThrottleFields throttle_fields_of(std::string_view driver_version) {
  std::pair<unsigned, unsigned> version;  // "580.82.07": 580, 82
  const char* const last = driver_version.data() + driver_version.size();
  const auto [point, error] = std::from_chars(driver_version.data(), last, version.first);
  if (error != std::errc() || point == last || *point != '.' ||
      std::from_chars(point + 1, last, version.second).ec != std::errc())
    return {};
  if (version < std::pair(575u, 0u)) return {};
  if (version < std::pair(580u, 82u)) return {74, 251, 252, 253};
  return {74, 269, 270, 271};
}

}  // namespace tw::power::nvml
