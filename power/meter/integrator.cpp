#include "power/meter/integrator.hpp"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "power/meter/number_text.hpp"

namespace tw::power {

using Clock = std::chrono::steady_clock;

namespace {
constexpr std::size_t most_gaps = 256;     // kept apart; what comes later widens the last one
constexpr std::size_t most_pauses = 1024;  // kept apart; the oldest two then become one
}  // namespace

PowerIntegrator::PowerIntegrator(std::string domain, std::function<double()> read_watts,
                                 const IntegratorOptions& options)
    : domain_(std::move(domain)), read_watts_(std::move(read_watts)), options_(options) {
  last_time_ = Clock::now();
  sample();
  if (failure_) std::rethrow_exception(failure_);
  joules_ = 0;  // the first sample only opens the first trapezoid
  if (!options_.sample_on_read) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void PowerIntegrator::sample() {
  const std::lock_guard sensor(sensor_mutex_);
  std::exception_ptr failure;
  double watts = 0;
  const Time before = Clock::now();
  try {
    watts = read_watts_();
    if (!std::isfinite(watts) || watts < 0)
      throw std::system_error(std::make_error_code(std::errc::io_error),
                              domain_ + ": shows " + number_text(watts) + " W");
  } catch (const std::system_error&) {
    failure = std::current_exception();
  }
  const Time after = Clock::now(), time = before + (after - before) / 2;

  const std::lock_guard lock(mutex_);
  const bool was_lost = failure_ != nullptr;
  failure_ = failure;
  if (failure_) return;
  const double seconds = seconds_between(last_time_, time);
  if (was_lost || seconds > options_.longest_gap_seconds) {
    if (gaps_.size() < most_gaps)
      gaps_.push_back({last_time_, time, was_lost});
    else
      gaps_.back().end = time;
  }
  if (seconds > 1.5 * options_.period_seconds) {
    pauses_.push_back({last_time_, time, seconds});
    if (pauses_.size() > most_pauses) {
      pauses_[1].begin = pauses_[0].begin;
      pauses_[1].seconds = std::max(pauses_[0].seconds, pauses_[1].seconds);
      pauses_.pop_front();
    }
  }
  joules_ += (last_watts_ + watts) / 2 * seconds;
  last_time_ = time;
  last_watts_ = watts;
}

EnergySample PowerIntegrator::read() {
  if (options_.sample_on_read) sample();
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (options_.sample_on_read) return {last_time_, joules_};
  const Time now = Clock::now();
  // What was held may turn out to be more than the trapezoid: the figure then waits, it never steps back.
  shown_joules_ = std::max(shown_joules_, joules_ + last_watts_ * std::max(0.0, seconds_between(last_time_, now)));
  return {now, shown_joules_};
}

double PowerIntegrator::joules_between(const EnergySample& from, const EnergySample& to) const {
  const std::lock_guard lock(mutex_);
  for (const Gap& gap : gaps_)
    if (gap.begin < to.time && from.time < gap.end)
      throw WindowUnknown(gap.lost ? "lost" : "gap",
                          domain_ + ": " + (gap.lost ? "did not answer" : "not sampled") + " for " +
                              number_text(seconds_between(gap.begin, gap.end)) + " s" +
                              (gap.lost ? "" : ": was the process stopped or the node overloaded?"));
  const double held_seconds = seconds_between(last_time_, to.time);
  if (held_seconds > options_.longest_gap_seconds)
    throw WindowUnknown("gap", domain_ + ": the last sample is " + number_text(held_seconds) + " s old");
  return to.joules - from.joules;
}

double PowerIntegrator::longest_period_seconds(const EnergySample& from, const EnergySample& to) const {
  const std::lock_guard lock(mutex_);
  double longest = options_.period_seconds;
  for (const Pause& pause : pauses_)
    if (pause.begin < to.time && from.time < pause.end) longest = std::max(longest, pause.seconds);
  return std::max(longest, seconds_between(last_time_, to.time));  // held, not sampled
}

void PowerIntegrator::run(const std::stop_token& stop) {
  const auto period = duration_of(options_.period_seconds);
  std::unique_lock lock(mutex_);
  // Deadlines are absolute, so that the time a reading takes does not add up; one that was missed is not made up for.
  for (auto deadline = Clock::now() + period;
       !wake_.wait_until(lock, stop, deadline, [&] { return stop.stop_requested(); });
       deadline = std::max(deadline + period, Clock::now())) {
    lock.unlock();
    sample();
    lock.lock();
  }
}

}  // namespace tw::power
