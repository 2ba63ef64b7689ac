#include "power/sources/ipmi/source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <system_error>

#include "power/meter/program.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/sources/hwmon/source.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* command_line = "ipmitool dcmi power reading";

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), std::string(command_line) + what);
}

/// What the tool says, and adds up the CPU time that it takes. Throws std::system_error if it is missing, fails or
/// takes too long.
std::string run_tool(double timeout_seconds, std::atomic<double>& cpu_seconds) {
  const auto limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(timeout_seconds));
  ProgramResult result;
  try {
    result = run_program({"ipmitool", "dcmi", "power", "reading"}, limit);
  } catch (const std::system_error& error) {
    fail(error.code().value(), "");
  }
  cpu_seconds += result.cpu_seconds;
  if (result.timed_out) fail(ETIMEDOUT, "");
  if (result.exit_code != 0)
    fail(EIO, " ended with " + std::to_string(result.exit_code) + ", saying \"" +
                  result.output.substr(0, result.output.find('\n')).substr(0, 120) + "\"");
  return result.output;
}

constexpr const char* dcmi_domain = "ipmi:dcmi";

/// Of the tool: the CPU time that it has taken, and the longest that it took to answer.
struct ToolTimes {
  std::atomic<double> cpu_seconds = 0, longest_seconds = 0;
};

class DcmiMeter : public IntegratedMeter {
 public:
  DcmiMeter(const ipmi::Options& options, const std::shared_ptr<ToolTimes>& times)
      : IntegratedMeter(
            SensorSpec{dcmi_domain, EnergyScope::node, options.period_seconds, {}},
            [limit = options.timeout_seconds, times] {
              const auto start = Clock::now();
              const double watts = ipmi::parse_reading(run_tool(limit, times->cpu_seconds));
              const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
              if (seconds > times->longest_seconds) times->longest_seconds = seconds;  // calls never overlap
              return watts;
            },
            // Starting a program at a window's edge would hold all ranks up: the last power is held instead.
            IntegratorOptions{options.period_seconds, 10 * options.period_seconds + options.timeout_seconds, false}),
        times_(times) {}
  double cpu_seconds() override { return IntegratedMeter::cpu_seconds() + times_->cpu_seconds; }
  /// How old a power may be that is held: from the middle of one call to the end of the next.
  double update_period_seconds() const override {
    const double call_seconds = times_->longest_seconds;
    return std::max(IntegratedMeter::update_period_seconds(), call_seconds) + call_seconds / 2;
  }

 private:
  std::shared_ptr<ToolTimes> times_;
};

}  // namespace

double ipmi::parse_reading(const std::string& output) {
  const auto value_of = [&](const std::string& name) {
    const std::size_t at = output.find(name);
    if (at == std::string::npos) return std::string();
    const std::size_t colon = output.find(':', at), end = std::min(output.find('\n', at), output.size());
    if (colon == std::string::npos || colon > end) return std::string();
    const std::size_t begin = output.find_first_not_of(" \t", colon + 1);
    return begin < end ? output.substr(begin, end - begin) : std::string();
  };
  const std::string reading = value_of("Instantaneous power reading"), state = value_of("Power reading state is");
  double watts = 0;
  const auto [end, error] = std::from_chars(reading.data(), reading.data() + reading.size(), watts);
  if (error != std::errc() || std::string(end, reading.data() + reading.size()).rfind(" Watts", 0) != 0)
    fail(EIO, " printed no power: \"" + output.substr(0, output.find('\n')).substr(0, 120) + "\"");
  if (state.starts_with("deactivated")) fail(EIO, ": the controller does not measure (state deactivated)");
  if (watts <= 0) fail(EIO, " shows 0 W");
  return watts;
}

std::vector<MeterFinding> ipmi::find_meters_in(const Options& options) {
  std::error_code none;
  const auto device = std::ranges::find_if(options.devices, [&](const fs::path& one) { return fs::exists(one, none); });
  if (device == options.devices.end())
    return MeterFinding::only({.domain = "ipmi",
                               .reason = "no_driver",
                               .detail = "no /dev/ipmi0: no management controller, or the modules ipmi_si and "
                                         "ipmi_devintf are not loaded",
                               .grant = "modprobe ipmi_si; modprobe ipmi_devintf"});
  if (hwmon::reads_node(options.hwmon))
    return MeterFinding::only({.domain = "ipmi",
                               .reason = "duplicate",
                               .detail = "the kernel shows the node's power in " + options.hwmon.string() +
                                         ", read without starting a program"});
  MeterFinding finding{.domain = dcmi_domain, .scope = EnergyScope::node};
  if (faccessat(AT_FDCWD, device->c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    finding.explain("permission", device->string() + ": " + std::generic_category().message(errno));
    finding.grant =
        "udev rule: KERNEL==\"ipmi0\", GROUP=\"GROUP\", MODE=\"0660\" (gives the group full control of the "
        "management controller)";
    return MeterFinding::only(std::move(finding));
  }
  try {
    finding.meter = std::make_unique<DcmiMeter>(options, std::make_shared<ToolTimes>());
    finding.counted = true;
  } catch (const std::system_error& error) {
    sysfs::explain(error, finding);
    if (error.code().value() == ENOENT) finding.grant = "the program ipmitool on PATH";
  }
  return MeterFinding::only(std::move(finding));
}

std::vector<MeterFinding> ipmi_find_meters(const MeterOptions&) { return ipmi::find_meters_in({}); }

}  // namespace tw::power
