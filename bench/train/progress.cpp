#include "bench/train/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tw {

using Clock = std::chrono::steady_clock;

Progress::Progress(bool enabled, int points, double expected_seconds)
    : enabled_(enabled), terminal_(enabled && isatty(STDERR_FILENO)), points_(points), expected_seconds_(expected_seconds),
      start_(Clock::now()), last_(start_ - std::chrono::hours(1)) {}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  if (!enabled_) return;
  clear();
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

void Progress::begin_point(int index, const std::string& id) {
  index_ = index;
  id_ = id;
  stage_ = "setting up";
  draw(true);
}

void Progress::stage(const std::string& text) {
  const bool changed = text != stage_;
  stage_ = text;
  draw(changed && terminal_);
}

void Progress::draw(bool force) {
  if (!enabled_) return;
  const auto now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000);
  if (!force && now - last_ < interval) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string text = fmt::format("[{}/{}] {}: {} · {:.0f} s", index_ + 1, points_, id_, stage_, elapsed);
  if (expected_seconds_ > 0 && elapsed < expected_seconds_) text += fmt::format(" · about {:.0f} s left", expected_seconds_ - elapsed);
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    drawn_ = true;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::fflush(stderr);
}

void Progress::end_point(const std::string& result) {
  line(fmt::format("[{}/{}] {}: {}", index_ + 1, points_, id_, result));
  last_ = Clock::now();
}

}  // namespace tw
