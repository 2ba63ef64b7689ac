#include "power/sources/amdsmi/library.hpp"

#include <system_error>

#include "power/meter/number_text.hpp"

namespace tw::power::amdsmi {
namespace {

const char* reason_of(int code) {
  switch (code) {
    case no_permission:
      return "permission";
    case driver_error:
    case driver_not_loaded:
    case no_driver:
      return "no_driver";
    default:
      return "unsupported";
  }
}

/// What a function of this pattern lists: asked for the number first.
template <typename List>
int list(const List& ask, std::vector<Handle>& handles) {
  std::uint32_t count = 0;
  if (const int code = ask(&count, static_cast<Handle*>(nullptr)); code != success) return code;
  handles.resize(count);
  if (count == 0) return success;
  const int code = ask(&count, handles.data());
  handles.resize(count < handles.size() ? count : handles.size());
  return code;
}

}  // namespace

std::shared_ptr<const Library> Library::open(Unavailable* why, const std::vector<std::string>& names) {
  std::shared_ptr<Library> library(new Library);
  if (std::string words; !library->file_.open(names, &words)) {
    *why = {"no_driver", words + "; it comes with ROCm, as the package amd-smi-lib"};
    return nullptr;
  }
#define TW_AMDSMI(symbol, parameters) library->file_.find(library->symbol, #symbol);
#include "power/sources/amdsmi/functions.def"
  const int code = call(library->amdsmi_init, initialise_gpus);
  library->initialised_ = code == success;
  if (code == success) return library;
  *why = library->explain(code, "amdsmi_init");
  return nullptr;
}

Library::~Library() {
  if (initialised_) call(amdsmi_shut_down);
}

std::string Library::text(int code) const {
  const char* words = nullptr;
  const std::string number = "AMD SMI error " + std::to_string(code);
  if (call(amdsmi_status_code_to_string, code, &words) != success || !words) return number;
  return words + (" (" + number + ")");
}

Unavailable Library::explain(int code, const char* function) const {
  if (code == symbol_missing)
    return {"unsupported", std::string("libamd_smi.so has no symbol ") + function + ": update ROCm"};
  return {reason_of(code), std::string(function) + ": " + text(code)};
}

void Library::fail(int code, const char* function, const std::string& domain) const {
  static const ErrorNumbers numbers("amdsmi", "AMD SMI");
  throw std::system_error(code, numbers, domain + ": " + function + ": " + text(code));
}

std::string Device::card() const { return formatted("%04x:%02x:%02x.0", address.domain, address.bus, address.device); }

std::string Device::domain() const {
  std::string name = "amdsmi:" + card();
  if (is_partition()) name += "/" + std::to_string(address.partition) + "." + std::to_string(address.function);
  return name;
}
std::vector<Device> find_devices(const Library& library) {
  std::vector<Device> devices;
  const auto failed = [&](int code, const char* function) {
    devices.emplace_back().error = library.explain(code, function);
    return devices;
  };
  std::vector<Handle> sockets;
  int code = list([&](auto* count, auto* to) { return call(library.amdsmi_get_socket_handles, count, to); }, sockets);
  if (code != success) return failed(code, "amdsmi_get_socket_handles");
  for (const Handle socket : sockets) {
    std::vector<Handle> processors;
    code = list([&](auto* count, auto* to) { return call(library.amdsmi_get_processor_handles, socket, count, to); },
                processors);
    if (code != success) return failed(code, "amdsmi_get_processor_handles");
    for (const Handle processor : processors) {
      int type = 0;
      code = call(library.amdsmi_get_processor_type, processor, &type);
      if (code == success && type != processor_gpu) continue;
      std::uint64_t id = 0;
      const char* function = "amdsmi_get_processor_type";
      if (code == success) {
        function = "amdsmi_get_gpu_bdf_id";
        code = call(library.amdsmi_get_gpu_bdf_id, processor, &id);
      }
      if (code != success) return failed(code, function);
      Device& device = devices.emplace_back();
      device.handle = processor;
      device.address = unpack(id);
      char uuid[96] = {};
      unsigned length = sizeof uuid;
      if (call(library.amdsmi_get_gpu_device_uuid, processor, &length, uuid) == success) device.uuid = uuid;
    }
  }
  return devices;
}

}  // namespace tw::power::amdsmi
