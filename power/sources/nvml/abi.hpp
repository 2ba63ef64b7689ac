// The binary interface of libnvidia-ml.so.1 as far as it is used, written from NVIDIA's NVML API reference: no NVIDIA
// header is needed to build, and none to test. Structures have the library's layout; constants its values.
#pragma once

namespace tw::power::nvml {

struct DeviceObject;
struct EventSetObject;
struct GpmSampleObject;
using DeviceHandle = DeviceObject*;
using EventSetHandle = EventSetObject*;
using GpmSampleHandle = GpmSampleObject*;

/// nvmlReturn_t. `function_not_found` also means a symbol that the library lacks.
enum Code : int {
  success = 0,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  timeout = 10,
  library_not_found = 12,
  function_not_found = 13,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  library_version_mismatch = 18
};

/// nvmlClockType_t, nvmlClockId_t, nvmlTemperatureSensors_t, nvmlPerfPolicyType_t, nvmlMemoryErrorType_t, …
inline constexpr int clock_sm = 1, clock_memory = 2;
inline constexpr int clock_id_application_default = 2;
inline constexpr int temperature_gpu = 0;
inline constexpr int policy_power = 0, policy_thermal = 1;
inline constexpr int ecc_corrected = 0, ecc_uncorrected = 1, ecc_volatile = 0;
inline constexpr unsigned long long event_xid = 0x8;

/// nvmlClocksEventReasons
inline constexpr unsigned long long reason_idle = 0x1, reason_applications_clocks = 0x2, reason_power_cap = 0x4,
                                    reason_hardware_slowdown = 0x8, reason_software_thermal = 0x20,
                                    reason_hardware_thermal = 0x40, reason_power_brake = 0x80;

/// Field ids, of power in mW. Those of throttle times differ between drivers: throttle_fields.hpp.
inline constexpr unsigned field_power_instant = 186, field_power_requested_limit = 192;

/// nvmlValueType_t, nvmlValue_t, nvmlFieldValue_t
enum ValueType : int {
  value_double = 0,
  value_unsigned = 1,
  value_unsigned_long = 2,
  value_unsigned_long_long = 3,
  value_long_long = 4,
  value_int = 5,
  value_unsigned_short = 6
};
union Value {
  double d;
  int i;
  unsigned u;
  unsigned long ul;
  unsigned long long ull;
  long long ll;
  unsigned short us;
};
struct FieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency_microseconds;
  int value_type;
  int status;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Utilization {
  unsigned gpu, memory;  // per cent
};
/// nvmlMemory_t of nvmlDeviceGetMemoryInfo; `used_bytes` has the driver's own part in it.
struct Memory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};
struct ViolationTime {
  unsigned long long reference_microseconds, violation_nanoseconds;
};
struct EventData {
  DeviceHandle device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);

/// nvmlGpmMetric_t, nvmlGpmMetricsGet_t, nvmlGpmSupport_t. Later versions of the library lengthened the array of
/// metrics at the end; as many as `count` are touched.
inline constexpr unsigned gpm_version = 1, gpm_metric_sm_utilisation = 2;
struct GpmMetric {
  unsigned id;
  int status;
  double value;
  struct {
    char *short_name, *long_name, *unit;
  } info;
};
struct GpmMetricsGet {
  unsigned version, count;
  GpmSampleHandle first, second;
  GpmMetric metrics[512];
};
struct GpmSupport {
  unsigned version, supported;
};

}  // namespace tw::power::nvml
