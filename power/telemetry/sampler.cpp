#include "power/telemetry/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "power/meter/cpu_time.hpp"

namespace tw::power {
namespace {

constexpr double periods_per_power = 10;

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

void merge(SeriesPoint& into, const SeriesPoint& next) {
  const int samples = into.samples + next.samples;
  into.mean = (into.mean * into.samples + next.mean * next.samples) / samples;
  into.minimum = std::min(into.minimum, next.minimum);
  into.maximum = std::max(into.maximum, next.maximum);
  into.samples = samples;
}

/// A counter that only rises has its first reading as the least and its last as the greatest. One that began anew (its
/// driver was loaded again) has not: its total rise is not known.
bool has_fallen(const std::vector<SeriesPoint>& points, double first, double last) {
  return std::ranges::any_of(points,
                             [&](const SeriesPoint& point) { return point.minimum < first || point.maximum > last; });
}

}  // namespace

Sampler::Sampler(std::vector<TelemetryFinding> findings, EnergyReader* reader, double period_seconds,
                 std::size_t most_points)
    : findings_(std::move(findings)),
      reader_(reader),
      period_seconds_(period_seconds),
      most_points_(std::max<std::size_t>(2, most_points)) {
  for (const TelemetryFinding& finding : findings_) {
    first_track_.push_back(tracks_.size());
    if (!finding.telemetry) continue;
    for (const Channel& channel : finding.telemetry->channels()) tracks_.push_back({{channel, {}, {}}, 0, {}, {}});
    values_.resize(std::max(values_.size(), finding.telemetry->channels().size()));
  }
  if (reader_ == nullptr) return;
  for (std::size_t i = 0; i < reader_->findings().size(); ++i) {
    const EnergyMeter* meter = reader_->findings()[i].meter.get();
    if (meter == nullptr) continue;
    reads_meters_ = true;
    const bool shown = std::ranges::any_of(tracks_, [&](const Track& track) {
      return track.series.channel.domain == meter->domain() && track.series.channel.quantity == "power_w";
    });
    if (shown) continue;
    meters_.push_back({i, tracks_.size(), periods_per_power * meter->update_period_seconds(), {}});
    tracks_.push_back({{Channel{meter->domain(), "power_w", false}, {}, {}}, 0, {}, {}});
  }
}

Sampler::~Sampler() {
  if (thread_.joinable()) end();
}

void Sampler::begin() {
  if (thread_.joinable()) end();
  for (Track& track : tracks_) {
    track.series.points.clear();
    track.series.points.reserve(most_points_);
    track.series.change.reset();
    track.bucket_seconds = period_seconds_;
    track.first.reset(), track.last.reset();
  }
  for (Meter& meter : meters_) meter.from.reset();
  start_ = Clock::now();
  sample();
  thread_seconds_ = 0;
  if (reader_) reader_seconds_ = reader_->cpu_seconds();
  if (reads_meters_) reader_->expect_snapshots(period_seconds_);
  if (!tracks_.empty() || beside_) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Sampled Sampler::end() {
  Sampled sampled;
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
    sample();
  }
  sampled.cpu_seconds = sampled.thread_seconds = thread_seconds_;
  if (reader_) sampled.cpu_seconds += reader_->cpu_seconds() - reader_seconds_;
  if (reads_meters_) reader_->expect_snapshots(std::numeric_limits<double>::infinity());
  sampled.window_seconds = seconds(Clock::now() - start_);
  for (Track& track : tracks_) {
    if (track.first && track.last && !has_fallen(track.series.points, *track.first, *track.last))
      track.series.change = *track.last - *track.first;
    sampled.series.push_back(track.series);
  }
  return sampled;
}

void Sampler::sample() {
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    if (!findings_[i].telemetry) continue;
    const std::span<double> values(values_.data(), findings_[i].telemetry->channels().size());
    std::ranges::fill(values, std::nan(""));
    findings_[i].telemetry->read(values);
    const double now = seconds(Clock::now() - start_);
    for (std::size_t c = 0; c < values.size(); ++c) add(tracks_[first_track_[i] + c], now, values[c]);
  }
  if (!reads_meters_) return;
  reader_->snapshot(snapshot_);
  for (Meter& meter : meters_) {
    const MeterReading& reading = snapshot_.readings[meter.finding];
    const std::optional<EnergySample>& now = reading.sample;
    if (!now) continue;
    if (!meter.from || meter.breaks != reading.breaks) {
      meter.from = now, meter.breaks = reading.breaks;
      continue;
    }
    const double elapsed = seconds(now->time - meter.from->time);
    if (elapsed <= 0 || elapsed < meter.least_seconds) continue;
    add(tracks_[meter.track], seconds(meter.from->time - start_), (now->joules - meter.from->joules) / elapsed);
    meter.from = now;
  }
}

void Sampler::add(Track& track, double time_seconds, double value) const {
  if (!std::isfinite(value)) return;
  if (track.series.channel.cumulative) {
    if (!track.first) track.first = value;
    track.last = value;
  }
  std::vector<SeriesPoint>& points = track.series.points;
  const SeriesPoint one{std::max(0.0, time_seconds), value, value, value, 1};
  // The half period lets a sample that came a little late open a bucket of its own.
  if (!points.empty() && one.time_seconds < points.back().time_seconds + track.bucket_seconds - period_seconds_ / 2) {
    merge(points.back(), one);
    return;
  }
  if (points.size() == most_points_) {
    for (std::size_t i = 0; i < points.size() / 2; ++i) {
      points[i] = points[2 * i];
      merge(points[i], points[2 * i + 1]);
    }
    const bool odd = points.size() % 2 == 1;
    if (odd) points[points.size() / 2] = points.back();
    points.resize(points.size() / 2 + odd);
    track.bucket_seconds *= 2;
  }
  points.push_back(one);
}

void Sampler::run(const std::stop_token& stop) {
  const double cpu_before = thread_cpu_seconds();
  const auto period = duration_of(period_seconds_);
  Clock::time_point deadline = start_ + period;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_until(lock, stop, deadline, [&] { return stop.stop_requested(); })) {
    lock.unlock();
    sample();
    if (beside_) beside_();
    lock.lock();
    const Clock::time_point now = Clock::now();
    while (deadline <= now) deadline += period;
  }
  thread_seconds_ = thread_cpu_seconds() - cpu_before;
}

}  // namespace tw::power
