#include "bench/train/point/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"

namespace tw::bench {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t least_of_id = 12;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Where the table's lines may be in colour: Open MPI gives ranks a terminal of its own, and what it copies goes to a
/// log.
bool is_colourful(const comm::Job& job) {
  const char* no_color = std::getenv("NO_COLOR");
  return job.launcher() == "none" && isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

double most_foreign_share(const results::Record& record) {
  double most = 0;
  for (const results::Trial& trial : record.trials) most = std::max(most, trial.foreign_share.value_or(0));
  return most;
}

}  // namespace

results::TableStyle style_of(const comm::Job& job) {
  results::TableStyle style;
  style.color = is_colourful(job);
  style.width = terminal_width(STDOUT_FILENO).value_or(style.width);
  style.order.by_axes = true;
  return style;
}

void Pace::finish(double seconds, bool was_measured) {
  --left_;
  if (!was_measured) return;
  measured_seconds_ += seconds;
  ++measured_;
}

std::optional<double> Pace::left_seconds(double seconds) const {
  const double each = measured_ > 0 ? measured_seconds_ / measured_ : expected_seconds_;
  if (!(each > 0) || left_ <= 0) return std::nullopt;
  return std::max(each - seconds, 0.0) + each * (left_ - 1);
}

Progress::Progress(bool enabled, int points, double expected_point_seconds, int finished)
    : enabled_(enabled),
      terminal_(enabled && isatty(STDERR_FILENO)),
      points_(points),
      number_(finished),
      pace_(expected_point_seconds, points - finished),
      start_(Clock::now()),
      point_start_(start_),
      last_(start_ - std::chrono::hours(1)) {}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::line(const std::string& words) {
  if (!enabled_) return;
  clear();
  const std::optional<int> width = terminal_ ? terminal_width(STDERR_FILENO) : std::nullopt;
  std::fprintf(stderr, "%s\n",
               (width ? results::text::wrap(words, static_cast<std::size_t>(*width), 4) : words).c_str());
  std::fflush(stderr);
}

void Progress::warn(std::string_view code, const std::string& text) {
  line(warning_line("trainwatt-train", with_code(code, text)));
}

void Progress::begin_point(const std::string& id) {
  ++number_;
  id_ = id;
  stage_ = "setting up";
  point_start_ = Clock::now();
  draw(true);
}

void Progress::stage(const std::string& text) {
  const bool changed = text != stage_;
  const auto kind = [](const std::string& stage) { return stage.substr(0, stage.find_first_of("0123456789")); };
  if (kind(text) != kind(stage_)) shown_ = false;
  stage_ = text;
  draw(changed && terminal_);
}

void Progress::draw(bool force) {
  if (!enabled_) return;
  const auto now = Clock::now();
  const auto interval = std::chrono::milliseconds(terminal_ ? 200 : shown_ ? 10000 : 1000);
  if (!force && now - last_ < interval) return;
  last_ = now;
  shown_ = true;
  std::string shown = fmt::format(": {} · {:.0f} s", stage_, seconds_since(start_));
  if (const auto left = pace_.left_seconds(seconds_since(point_start_)); left && *left > 0)
    shown +=
        fmt::format(" · about {} left", *left < 120 ? fmt::format("{:.0f} s", *left) : results::text::duration(*left));
  const std::string number = fmt::format("[{}/{}] ", number_, std::max(number_, points_));
  if (terminal_) {
    // On one line, since only one line is redrawn.
    const auto width = static_cast<std::size_t>(terminal_width(STDERR_FILENO).value_or(80)) - 1;
    const std::size_t taken = results::text::columns(number) + results::text::columns(shown);
    const std::size_t left = std::max(width - std::min(taken, width), least_of_id);
    shown = without_middle(number + without_middle(id_, left) + shown, width);
    std::fprintf(stderr, "\r\033[K%s", shown.c_str());
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s\n", (number + id_ + shown).c_str());
  }
  std::fflush(stderr);
}

void Progress::end_point(const std::string& result, bool was_measured) {
  pace_.finish(seconds_since(point_start_), was_measured);
  line(fmt::format("[{}/{}] {}: {}", number_, std::max(number_, points_), id_, result));
  last_ = Clock::now();
}

std::string short_result(const results::Record& record) {
  if (record.verdict.status == results::Status::unsupported || record.verdict.status == results::Status::failed)
    return results::to_string(record.verdict.status) + std::string(": ") +
           (record.verdict.reasons.empty() ? "" : record.verdict.reasons.front());
  const results::Summary& s = record.summary;
  std::string text = results::to_string(record.verdict.status);
  if (s.to_target && s.to_target->time_s)
    text +=
        fmt::format(" · target after {:.4g} steps, {:.4g} s", s.to_target->steps->value, s.to_target->time_s->value);
  else if (s.to_target)
    text += " · " + s.to_target->reason;
  const auto& rate = s.tokens_per_s ? s.tokens_per_s : s.samples_per_s;
  if (rate) text += " · " + results::text::si(rate->value, s.tokens_per_s ? "tokens/s" : "samples/s");
  if (results::has_flag(record, results::Flag::busy_host))
    text += fmt::format(" · busy_host: other programs used {:.0f} % of the CPU", 100 * most_foreign_share(record));
  if (const auto share = results::credible_of_ceiling(s)) text += fmt::format(" · {:.2f} of ceiling", *share);
  if (results::has_flag(record, results::Flag::above_ceiling)) text += " · above_ceiling";
  if (s.loss_first && s.loss_last) text += fmt::format(" · loss {:.3f} → {:.3f}", *s.loss_first, *s.loss_last);
  return text;
}

}  // namespace tw::bench
