#include "power/sources/nvml/power_sensor.hpp"

#include <utility>

namespace tw::power::nvml {

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

}  // namespace tw::power::nvml
