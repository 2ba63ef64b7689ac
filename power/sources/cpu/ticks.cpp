#include "power/sources/cpu/ticks.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "power/meter/sysfs.hpp"

namespace tw::power::cpu {
namespace {

/// The numbers behind a line's name: user nice system idle iowait irq softirq …; guests are in user.
std::optional<Ticks> parse(std::string_view numbers) {
  std::array<std::uint64_t, 7> value{};
  const char *at = numbers.data(), *end = at + numbers.size();
  for (std::uint64_t& one : value) {
    while (at != end && *at == ' ') ++at;
    const auto parsed = std::from_chars(at, end, one);
    if (parsed.ec != std::errc()) return std::nullopt;
    at = parsed.ptr;
  }
  const auto [user, nice, system, idle, iowait, irq, softirq] = value;
  const std::uint64_t busy = user + nice + system + irq + softirq;
  return Ticks{busy, busy + idle + iowait};
}

}  // namespace

AllTicks read_ticks(const std::filesystem::path& stat) {
  const std::string text = sysfs::read_text(stat);
  AllTicks ticks;
  bool has_sum = false;
  for (std::string_view rest = text; rest.starts_with("cpu");) {
    const std::string_view line = rest.substr(3, rest.find('\n') - 3);
    rest.remove_prefix(std::min(rest.size(), line.size() + 4));
    int number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    const std::optional<Ticks> one = parse(line.substr(static_cast<std::size_t>(end - line.data())));
    if (!one) break;
    if (error == std::errc())
      ticks.of_cpu[number] = *one;
    else
      ticks.sum = *one, has_sum = true;
  }
  if (!has_sum) throw std::system_error(EINVAL, std::generic_category(), stat.string() + ": no line of all CPUs");
  return ticks;
}

}  // namespace tw::power::cpu
