// The stand-in libamd_smi.so: AMD SMI's functions over the state of stand_in.hpp. One socket for each GPU.
#include <cstdlib>
#include <cstring>
#include <exception>

#include "power/sources/amdsmi/abi.hpp"
#include "tests/support/amdsmi/stand_in.hpp"

using namespace tw::power::amdsmi;
using tw::standin_amd::Gpu;
using tw::standin_amd::State;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Handles: 1, 2, … for sockets, 1001, … for their processors.
constexpr std::uintptr_t processor_offset = 1000;
Handle handle_of(std::uintptr_t number) { return reinterpret_cast<Handle>(number); }

int with_state(const auto& body) try {
  const char* folder = std::getenv(tw::standin_amd::folder_variable);
  return body(tw::standin_amd::read_state(folder ? folder : ""));
} catch (const std::exception&) {
  return driver_not_loaded;
}

int with_gpu(Handle processor, const auto& body) {
  return with_state([&](const State& state) -> int {
    const std::uintptr_t index = reinterpret_cast<std::uintptr_t>(processor) - processor_offset - 1;
    return index < state.gpus.size() ? body(state, state.gpus[index]) : invalid_argument;
  });
}

}  // namespace

EXPORT int amdsmi_init(std::uint64_t flags) {
  return with_state([&](const State& state) { return flags == initialise_gpus ? state.init_code : not_supported; });
}
EXPORT int amdsmi_shut_down() { return success; }
EXPORT int amdsmi_status_code_to_string(int code, const char** text) {
  *text = code == no_permission ? "AMDSMI_STATUS_NO_PERM: Permission Denied" : "AMDSMI_STATUS: an error";
  return success;
}
EXPORT int amdsmi_get_socket_handles(std::uint32_t* count, Handle* sockets) {
  return with_state([&](const State& state) {
    *count = static_cast<std::uint32_t>(state.gpus.size());
    for (std::uint32_t i = 0; sockets && i < *count; ++i) sockets[i] = handle_of(i + 1);
    return static_cast<int>(success);
  });
}
EXPORT int amdsmi_get_processor_handles(Handle socket, std::uint32_t* count, Handle* processors) {
  *count = 1;
  if (processors) processors[0] = handle_of(reinterpret_cast<std::uintptr_t>(socket) + processor_offset);
  return success;
}
EXPORT int amdsmi_get_processor_type(Handle processor, int* type) {
  return with_gpu(processor, [&](const State&, const Gpu& gpu) { return *type = gpu.type, success; });
}
EXPORT int amdsmi_get_gpu_bdf_id(Handle processor, std::uint64_t* id) {
  return with_gpu(processor, [&](const State&, const Gpu& gpu) { return *id = gpu.id, success; });
}
EXPORT int amdsmi_get_gpu_device_uuid(Handle processor, unsigned* length, char* uuid) {
  return with_gpu(processor, [&](const State&, const Gpu& gpu) -> int {
    if (*length < gpu.uuid.size() + 1) return invalid_argument;
    std::memcpy(uuid, gpu.uuid.c_str(), gpu.uuid.size() + 1);
    return success;
  });
}
EXPORT int amdsmi_get_energy_count(Handle processor, std::uint64_t* accumulator, float* microjoules,
                                   std::uint64_t* nanoseconds) {
  return with_gpu(processor, [&](const State& state, const Gpu& gpu) {
    *nanoseconds = state.now_ns();
    *accumulator = tw::standin_amd::count(gpu, *nanoseconds);
    *microjoules = gpu.stated_uj;
    return gpu.code;
  });
}
