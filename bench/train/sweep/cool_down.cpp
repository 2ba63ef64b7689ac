#include "bench/train/sweep/cool_down.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "bench/train/job/interruption.hpp"

namespace tw::bench {

std::optional<results::StartTemperature> CoolDown::before(const Point& point) {
  // What an earlier launch has begun at holds for the first point of this one, too.
  const bool changes = setting_ ? *setting_ != point.setting : reference_c_.has_value();
  setting_ = point.setting;
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  results::StartTemperature found;
  while (true) {
    const std::optional<double> hottest = energy_.hottest_c();
    if (!hottest) return std::nullopt;
    if (!reference_c_) reference_c_ = *hottest;
    found.temperature_c = *hottest;
    const auto now = job_.maximum({waited(), interruption_requested() ? 1.0 : 0.0});
    if (!changes || found.temperature_c <= *reference_c_ + band_c || now[0] >= most_seconds_ || now[1] > 0) break;
    found.waited_s = now[0];
    progress_.stage(fmt::format("cooling down: {:.0f} °C, to {:.0f} °C", found.temperature_c, *reference_c_ + band_c));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(250));  // as idle as can be: a rank in a collective would spin
  }
  if (found.waited_s > 0) found.waited_s = job_.maximum({waited()}).front();
  return found;
}

}  // namespace tw::bench
