// The stand-in libnvidia-ml.so.1: NVML's functions over the state of stand_in.hpp. Built a second time as an old
// driver, which lacks what came with Volta and later (TW_STANDIN_OLD).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "power/sources/nvml/abi.hpp"
#include "tests/support/nvml/stand_in.hpp"

using namespace tw::power::nvml;
using tw::standin::Count;
using tw::standin::Gpu;
using tw::standin::Operation;
using tw::standin::State;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Event sets and samples are the process's own.
struct tw::power::nvml::EventSetObject {
  DeviceHandle device = nullptr;
  Count seen = 0;
};
struct tw::power::nvml::GpmSampleObject {
  DeviceHandle device = nullptr;
  Count time_ns = 0, load_percent = 0;
};

namespace {

constexpr std::uintptr_t mig_offset = 1000;  // handles: 1, 2, … for GPUs, 1001, … for the MIG device of each

std::string folder() {
  const char* text = std::getenv(tw::standin::folder_variable);
  return text ? text : "";
}

/// Places of the GPUs that this process may address, in the driver's order.
std::vector<std::size_t> addressable(const State& state) {
  const char* only = std::getenv(tw::standin::only_variable);
  const std::string named = only ? "," + std::string(only) + "," : "";
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < state.gpus.size(); ++i)
    if (!only || named.find("," + std::to_string(i) + ",") != std::string::npos) places.push_back(i);
  if (state.reversed) std::reverse(places.begin(), places.end());
  return places;
}

DeviceHandle handle_of(std::uintptr_t number) { return reinterpret_cast<DeviceHandle>(number); }
std::size_t index_of(DeviceHandle device) { return reinterpret_cast<std::uintptr_t>(device) - 1; }

/// Runs `body` on the state; what it returns is the answer.
int with_state(const auto& body) try { return body(tw::standin::read_state(folder())); } catch (const std::exception&) {
  return driver_not_loaded;
}

/// Runs `body` on the GPU of a handle and the time.
int with_gpu(DeviceHandle device, const auto& body) {
  return with_state([&](const State& state) -> int {
    if (index_of(device) >= state.gpus.size()) return invalid_argument;
    const Gpu& gpu = state.gpus[index_of(device)];
    return gpu.lost ? gpu_is_lost : body(gpu, state.now_ns());
  });
}

/// Changes the GPU of a handle where `allow` answers success.
int change_gpu(DeviceHandle device, const auto& allow, const auto& change) {
  const int code = with_gpu(device, [&](const Gpu& gpu, Count) { return gpu.deny_set ? no_permission : allow(gpu); });
  if (code == success) tw::standin::edit_state(folder(), [&](State& state) { change(state.gpus[index_of(device)]); });
  return code;
}

Code copy(const std::string& text, char* to, unsigned length) {
  if (text.size() + 1 > length) return insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return success;
}

/// Downwards, as the driver lists.
Code list(unsigned* count, unsigned* mhz, Count first, Count last, Count step) {
  const auto number = static_cast<unsigned>((last - first) / step + 1);
  const unsigned room = *count;
  *count = number;
  if (!mhz || room < number) return insufficient_size;
  for (unsigned i = 0; i < number; ++i) mhz[i] = static_cast<unsigned>(last - i * step);
  return success;
}

template <typename T>
Code answer(T* to, Count value) {
  *to = static_cast<T>(value);
  return success;
}

/// Under which ids the driver keeps the times of thermal (software, hardware) and brake slowdown: the first of three;
/// 0: none. Written from nvml.h of these drivers, apart from the program's own table.
[[maybe_unused]] Count first_throttle_field(const std::string& driver) {
  for (const char* before : {"565.57.01", "570.211.01"})
    if (driver == before) return 0;
  for (const char* of_cuda_12_9_and_13_0 : {"575.51.02", "580.65.06", "580.76.05"})
    if (driver == of_cuda_12_9_and_13_0) return 251;
  return 269;
}

unsigned long long reasons_of(const Gpu& gpu) {
  unsigned long long reasons = 0;
  if (gpu.load_percent == 0) reasons |= reason_idle;
  if (gpu.lock_mhz != 0 && !gpu.ignore_lock && !gpu.secret_lock) reasons |= reason_applications_clocks;
  if (operation(gpu).capped) reasons |= reason_power_cap;
  if (gpu.hot) reasons |= reason_hardware_slowdown | reason_hardware_thermal;
  if (gpu.brake) reasons |= reason_hardware_slowdown | reason_power_brake;
  return reasons;
}

}  // namespace

EXPORT int nvmlInit_v2() {
  return with_state([](const State& state) { return static_cast<int>(state.init_code); });
}
EXPORT int nvmlShutdown() { return success; }
EXPORT const char* nvmlErrorString(int code) {
  switch (code) {
    case not_supported:
      return "Not Supported";
    case no_permission:
      return "Insufficient Permissions";
    case driver_not_loaded:
      return "Driver Not Loaded";
    case gpu_is_lost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}
EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return with_state(
      [&](const State& state) { return state.driver.empty() ? not_supported : copy(state.driver, version, length); });
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  return with_state([&](const State& state) { return answer(count, addressable(state).size()); });
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* device) {
  return with_state([&](const State& state) {
    const std::vector<std::size_t> places = addressable(state);
    if (index >= places.size()) return invalid_argument;
    const std::size_t number = places[index];
    *device = handle_of(number + 1);
    return state.gpus[number].hidden ? no_permission : success;
  });
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, DeviceHandle* device) {
  return with_state([&](const State& state) {
    for (const std::size_t i : addressable(state)) {
      const bool whole = state.gpus[i].uuid == uuid;
      // Two instances: one of the GPU's own digits, one with others in front.
      const std::string digits = state.gpus[i].uuid.substr(3);
      const bool part = state.gpus[i].mig && ("MIG" + digits == uuid || "MIG-ffffffff" + digits.substr(9) == uuid);
      if (whole || part) return *device = handle_of(i + 1 + (part ? mig_offset : 0)), success;
    }
    return not_found;
  });
}
/// All in domain 0 and at device 0 of their buses.
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* id, DeviceHandle* device) {
  return with_state([&](const State& state) {
    unsigned domain = 0, bus = 0, place = 0;
    if (std::sscanf(id, "%x:%x:%x.0", &domain, &bus, &place) != 3) return invalid_argument;
    for (const std::size_t i : addressable(state)) {
      const Count own = state.gpus[i].pci_bus ? state.gpus[i].pci_bus : i + 1;
      if (domain == 0 && place == 0 && bus == own) return *device = handle_of(i + 1), success;
    }
    return not_found;
  });
}
EXPORT int nvmlDeviceGetUUID(DeviceHandle device, char* uuid, unsigned length) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return copy(gpu.uuid, uuid, length); });
}
EXPORT int nvmlDeviceGetName(DeviceHandle device, char* name, unsigned length) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return copy(gpu.name, name, length); });
}
EXPORT int nvmlDeviceGetPowerUsage(DeviceHandle device, unsigned* milliwatts) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    return gpu.no_power ? not_supported : answer(milliwatts, operation(gpu).power_mw);
  });
}
EXPORT int nvmlDeviceGetPowerManagementLimit(DeviceHandle device, unsigned* milliwatts) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return answer(milliwatts, gpu.limit_mw); });
}
EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(DeviceHandle device, unsigned* minimum, unsigned* maximum) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    answer(minimum, gpu.minimum_limit_mw);
    return answer(maximum, gpu.maximum_limit_mw);
  });
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(DeviceHandle device, unsigned* milliwatts) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    return answer(milliwatts, gpu.board_limit_mw ? std::min(gpu.board_limit_mw, gpu.limit_mw) : gpu.limit_mw);
  });
}
EXPORT int nvmlDeviceSetPowerManagementLimit(DeviceHandle device, unsigned milliwatts) {
  return change_gpu(
      device,
      [&](const Gpu& gpu) {
        return milliwatts < gpu.minimum_limit_mw || milliwatts > gpu.maximum_limit_mw ? invalid_argument : success;
      },
      [&](Gpu& gpu) { gpu.limit_mw = std::max<Count>(milliwatts, gpu.clamp_limit_mw); });
}
EXPORT int nvmlDeviceGetTemperature(DeviceHandle device, int, unsigned* celsius) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return answer(celsius, 30 + operation(gpu).power_mw / 10000); });
}
EXPORT int nvmlDeviceGetClockInfo(DeviceHandle device, int clock, unsigned* mhz) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    const Operation now = operation(gpu);
    return answer(mhz, clock == clock_memory ? now.memory_mhz : now.clock_mhz);
  });
}
EXPORT int nvmlDeviceGetMaxClockInfo(DeviceHandle device, int clock, unsigned* mhz) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    return answer(mhz, clock == clock_memory ? gpu.high_memory_mhz : gpu.maximum_mhz);
  });
}
EXPORT int nvmlDeviceGetSupportedMemoryClocks(DeviceHandle device, unsigned* count, unsigned* mhz) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    return list(count, mhz, gpu.low_memory_mhz, gpu.high_memory_mhz, gpu.high_memory_mhz - gpu.low_memory_mhz);
  });
}
EXPORT int nvmlDeviceGetSupportedGraphicsClocks(DeviceHandle device, unsigned memory, unsigned* count, unsigned* mhz) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    if (memory != gpu.low_memory_mhz && memory != gpu.high_memory_mhz) return not_found;
    return list(count, mhz, gpu.minimum_mhz, gpu.maximum_mhz, gpu.step_mhz);
  });
}
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle device, unsigned long long* reasons) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return answer(reasons, reasons_of(gpu)); });
}
EXPORT int nvmlDeviceGetUtilizationRates(DeviceHandle device, Utilization* rates) {
  return with_gpu(device, [&](const Gpu& gpu, Count) { return answer(&rates->gpu, gpu.load_percent); });
}
EXPORT int nvmlDeviceGetMemoryInfo(DeviceHandle device, Memory* memory) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    constexpr Count mib = 1 << 20;
    *memory = {gpu.memory_mib * mib, (gpu.memory_mib - gpu.memory_used_mib) * mib, gpu.memory_used_mib * mib};
    return success;
  });
}
EXPORT int nvmlDeviceGetViolationStatus(DeviceHandle device, int policy, ViolationTime* time) {
  return with_gpu(device, [&](const Gpu& gpu, Count now) {
    const Count capped = throttled_ns(gpu.capped_ns, operation(gpu).capped, gpu, now);
    const Count hot = throttled_ns(gpu.hot_ns, gpu.hot != 0, gpu, now);
    return answer(&time->violation_nanoseconds, gpu.old_base_ns + (policy == policy_power ? capped : hot));
  });
}
EXPORT int nvmlDeviceGetTotalEccErrors(DeviceHandle device, int type, int, unsigned long long* errors) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    if (gpu.no_ecc) return not_supported;
    return answer(errors, type == ecc_corrected ? gpu.ecc_corrected : gpu.ecc_uncorrected);
  });
}
EXPORT int nvmlEventSetCreate(EventSetHandle* set) { return *set = new EventSetObject, success; }
EXPORT int nvmlEventSetFree(EventSetHandle set) { return delete set, success; }
EXPORT int nvmlDeviceRegisterEvents(DeviceHandle device, unsigned long long types, EventSetHandle set) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    if ((types & event_xid) == 0) return not_supported;
    *set = {device, gpu.xid_count};  // what came before is not seen
    return success;
  });
}
EXPORT int nvmlEventSetWait_v2(EventSetHandle set, EventData* data, unsigned) {
  return with_gpu(set->device, [&](const Gpu& gpu, Count) {
    if (set->seen >= gpu.xid_count) return timeout;
    ++set->seen;
    *data = {set->device, event_xid, gpu.last_xid, ~0u, ~0u};
    return success;
  });
}

#ifndef TW_STANDIN_OLD
EXPORT int nvmlDeviceGetPciInfo_v3(DeviceHandle device, PciInfo* info) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    *info = {};
    return answer(&info->bus, gpu.pci_bus ? gpu.pci_bus : index_of(device) + 1);
  });
}
EXPORT int nvmlDeviceGetMigMode(DeviceHandle device, unsigned* current, unsigned* pending) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    answer(pending, gpu.mig);
    return answer(current, gpu.mig);
  });
}
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(DeviceHandle mig, DeviceHandle* device) {
  if (index_of(mig) < mig_offset) return invalid_argument;
  return *device = handle_of(index_of(mig) - mig_offset + 1), success;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(DeviceHandle device, unsigned long long* millijoules) {
  Count slow_ms = 0;
  with_gpu(device, [&](const Gpu& gpu, Count) { return slow_ms = gpu.slow_ms, success; });
  if (slow_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(slow_ms));
  return with_gpu(device, [&](const Gpu& gpu, Count now) {
    return gpu.no_energy ? not_supported : answer(millijoules, shown_energy_mj(gpu, now) - gpu.went_back_mj);
  });
}
EXPORT int nvmlDeviceGetFieldValues(DeviceHandle device, int count, FieldValue* values) {
  Count first_throttle = 0;
  with_state([&](const State& state) { return first_throttle = first_throttle_field(state.driver), success; });
  return with_gpu(device, [&](const Gpu& gpu, Count now) {
    const Operation works = operation(gpu);
    for (int i = 0; i < count; ++i) {
      FieldValue& field = values[i];
      field.status = gpu.no_fields ? not_supported : success;
      field.value_type = value_unsigned_long_long;
      const auto number = [&](Count value) {  // power
        field.value_type = value_unsigned;
        field.value.u = static_cast<unsigned>(value);
      };
      if (field.field_id == field_power_instant && !gpu.no_power)
        number(works.power_mw);
      else if (field.field_id == field_power_requested_limit)
        number(gpu.limit_mw);
      else if (field.field_id == 74)  // NVML_FI_DEV_PERF_POLICY_POWER
        field.value.ull = throttled_ns(gpu.capped_ns, works.capped, gpu, now);
      else if (first_throttle != 0 && field.field_id == first_throttle)  // …_SW_THERM_SLOWDOWN
        field.value.ull = 0;
      else if (first_throttle != 0 && field.field_id == first_throttle + 1)  // …_HW_THERM_SLOWDOWN
        field.value.ull = throttled_ns(gpu.hot_ns, gpu.hot != 0, gpu, now);
      else if (first_throttle != 0 && field.field_id == first_throttle + 2)  // …_HW_POWER_BRAKE_SLOWDOWN
        field.value.ull = throttled_ns(gpu.brake_ns, gpu.brake != 0, gpu, now);
      else if (field.field_id >= 251 && field.field_id <= (first_throttle == 0 ? 268u : 273u))
        number(field.field_id % 5);  // settings of power smoothing, which stand still
      else
        field.status = not_supported;
      if (field.field_id == gpu.no_field) field.status = not_supported;
    }
    return success;
  });
}
EXPORT int nvmlDeviceGetClock(DeviceHandle device, int clock, int, unsigned* mhz) {
  return nvmlDeviceGetMaxClockInfo(device, clock, mhz);
}
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(DeviceHandle device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
EXPORT int nvmlDeviceSetGpuLockedClocks(DeviceHandle device, unsigned minimum, unsigned maximum) {
  return change_gpu(
      device,
      [&](const Gpu& gpu) {
        const bool good = minimum == maximum && minimum >= gpu.minimum_mhz && maximum <= gpu.maximum_mhz;
        return good ? success : invalid_argument;
      },
      [&](Gpu& gpu) { gpu.lock_mhz = maximum; });
}
EXPORT int nvmlDeviceResetGpuLockedClocks(DeviceHandle device) {
  return change_gpu(
      device, [](const Gpu&) { return success; }, [](Gpu& gpu) { gpu.lock_mhz = 0, ++gpu.resets; });
}
EXPORT int nvmlDeviceSetMemoryLockedClocks(DeviceHandle device, unsigned minimum, unsigned maximum) {
  return change_gpu(
      device, [&](const Gpu&) { return minimum == maximum ? success : invalid_argument; },
      [&](Gpu& gpu) { gpu.memory_lock_mhz = maximum; });
}
EXPORT int nvmlDeviceResetMemoryLockedClocks(DeviceHandle device) {
  return change_gpu(
      device, [](const Gpu&) { return success; }, [](Gpu& gpu) { gpu.memory_lock_mhz = 0, ++gpu.resets; });
}
EXPORT int nvmlGpmQueryDeviceSupport(DeviceHandle device, GpmSupport* support) {
  return with_gpu(device, [&](const Gpu& gpu, Count) {
    return support->version == gpm_version ? answer(&support->supported, gpu.gpm) : invalid_argument;
  });
}
EXPORT int nvmlGpmSampleAlloc(GpmSampleHandle* sample) { return *sample = new GpmSampleObject, success; }
EXPORT int nvmlGpmSampleFree(GpmSampleHandle sample) { return delete sample, success; }
EXPORT int nvmlGpmSampleGet(DeviceHandle device, GpmSampleHandle sample) {
  return with_gpu(device, [&](const Gpu& gpu, Count now) {
    *sample = {device, now, gpu.load_percent};
    return success;
  });
}
EXPORT int nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (request->version != gpm_version || request->first->device != request->second->device) return invalid_argument;
  if (request->second->time_ns < request->first->time_ns + 100'000'000u) return invalid_argument;  // too soon
  for (unsigned i = 0; i < request->count; ++i) {
    const bool known = request->metrics[i].id == gpm_metric_sm_utilisation;
    request->metrics[i].status = known ? success : not_supported;
    request->metrics[i].value = static_cast<double>(request->second->load_percent);
  }
  return success;
}
#endif
