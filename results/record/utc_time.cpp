#include "results/record/utc_time.hpp"

#include <charconv>

namespace tw::results {

std::optional<std::chrono::sys_seconds> utc_time(const std::string& text) {
  bool good = text.size() >= std::size("2026-01-31T23:59:59");
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = 0;
    if (!good) return value;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + size, value);
    good = error == std::errc() && end == text.data() + at + size && value >= 0;
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)), std::chrono::month(number(5, 2)),
                                        std::chrono::day(number(8, 2))};
  const int hours = number(11, 2), minutes = number(14, 2), seconds = number(17, 2);
  if (!good || !day.ok() || hours >= 24 || minutes >= 60 || seconds > 60) return std::nullopt;  // 60: a leap second
  return std::chrono::sys_days(day) + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds);
}

}  // namespace tw::results
