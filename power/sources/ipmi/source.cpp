#include "power/sources/ipmi/source.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <system_error>

#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/sources/hwmon/source.hpp"

extern char** environ;

namespace tw {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* command_line = "ipmitool dcmi power reading";

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), std::string(command_line) + what);
}

/// Reads until the end, the limit or `most_bytes`; false where the limit came first.
bool read_all(int descriptor, Clock::time_point limit, std::string& text) {
  constexpr std::size_t most_bytes = 65536;
  char buffer[4096];
  while (text.size() < most_bytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = left > 0 ? poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t bytes = ::read(descriptor, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(bytes));
  }
  return false;
}

/// Runs the tool without a shell, and adds up the CPU time that it takes. Throws std::system_error where it is missing,
/// fails or takes too long.
std::string run_tool(double timeout_seconds, std::atomic<double>& cpu_seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno, ": pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  // Signals that a launcher or we have blocked or ignored must not make the tool unstoppable.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGTERM);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string words[] = {"ipmitool", "dcmi", "power", "reading"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, "ipmitool", &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    fail(error, "");
  }
  std::string text;
  const auto limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds));
  const bool ended = read_all(ends[0], limit, text);
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0)
    if (errno != EINTR) fail(errno, ": wait4");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  cpu_seconds += seconds(used.ru_utime) + seconds(used.ru_stime);
  if (!ended) fail(ETIMEDOUT, "");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(EIO, " ended with " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) +
                  ", saying \"" + text.substr(0, text.find('\n')).substr(0, 120) + "\"");
  return text;
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
  if (state.rfind("deactivated", 0) == 0) fail(EIO, ": the controller does not measure (state deactivated)");
  if (watts <= 0) fail(EIO, " shows 0 W");
  return watts;
}

std::vector<MeterFinding> ipmi::find_meters_in(const Options& options) {
  std::vector<MeterFinding> findings(1);
  MeterFinding& finding = findings[0];
  finding.domain = "ipmi";
  std::error_code none;
  const auto device = std::find_if(options.devices.begin(), options.devices.end(),
                                   [&](const fs::path& one) { return fs::exists(one, none); });
  if (device == options.devices.end()) {
    finding.reason = "no_driver";
    finding.detail = "no /dev/ipmi0: no management controller, or the modules ipmi_si and ipmi_devintf are not loaded";
    finding.grant = "modprobe ipmi_si; modprobe ipmi_devintf";
  } else if (hwmon::reads_node(options.hwmon)) {
    finding.reason = "duplicate";
    finding.detail =
        "the kernel shows the node's power in " + options.hwmon.string() + ", read without starting a program";
  } else if (faccessat(AT_FDCWD, device->c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
    finding.domain = dcmi_domain;
    finding.scope = EnergyScope::node;
    finding.reason = "permission";
    finding.detail = device->string() + ": " + std::generic_category().message(errno);
    finding.grant =
        "udev rule: KERNEL==\"ipmi0\", GROUP=\"GROUP\", MODE=\"0660\" (gives the group full control of the "
        "management controller)";
  } else {
    finding.domain = dcmi_domain;
    finding.scope = EnergyScope::node;
    try {
      finding.meter = std::make_unique<DcmiMeter>(options, std::make_shared<ToolTimes>());
      finding.counted = true;
    } catch (const std::system_error& error) {
      sysfs::explain(error, finding);
      if (error.code().value() == ENOENT) finding.grant = "the program ipmitool on PATH";
    }
  }
  return findings;
}

std::vector<MeterFinding> ipmi_find_meters(const MeterOptions&) { return ipmi::find_meters_in({}); }

}  // namespace tw
