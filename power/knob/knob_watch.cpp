#include "power/knob/knob_watch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace tw::power {
namespace {

/// Between two looks at a knob, in times of what one takes.
constexpr int rest_factor = 2000;

void append(std::string& text, const std::string& key, const std::string& value) {
  text += (text.empty() ? "" : ", ") + key + " = " + value;
}

}  // namespace

void KnobWatch::watch(std::vector<Watched> knobs) {
  const std::lock_guard lock(mutex_);
  knobs_.clear();
  for (Watched& one : knobs) {
    const bool runs_program = !one.knob->programs().empty();
    // Of what is as found, a program would have to be run for the sake of the look alone.
    if (runs_program && !one.is_set) continue;
    Entry& entry = knobs_.emplace_back();
    entry.watched = std::move(one);
    entry.runs_program = runs_program;
  }
}

bool KnobWatch::read(Entry& entry) {
  KnobState now;
  try {
    now = entry.watched.knob->save();
  } catch (const std::exception&) {  // of any kind: a look must end neither a window nor its thread
    return false;
  }
  if (!entry.watched.expected) {
    entry.watched.expected = std::move(now);
    return true;
  }
  if (entry.change) return true;
  std::string expected, found;
  for (const auto& [key, value] : *entry.watched.expected) {
    const auto other = now.find(key);
    // A place that is gone, as that of a CPU that was taken offline, holds no other value.
    if (other == now.end() || other->second == value) continue;
    append(expected, key, value), append(found, key, other->second);
  }
  if (found.empty()) return true;
  const Knob& knob = *entry.watched.knob;
  entry.change = {knob.kind(),          knob.domain(),
                  entry.watched.is_set, std::chrono::duration<double>(Clock::now() - start_).count(),
                  std::move(expected),  std::move(found)};
  return true;
}

void KnobWatch::begin() {
  const std::lock_guard lock(mutex_);
  start_ = Clock::now();
  for (Entry& entry : knobs_) {
    entry.change.reset();
    entry.next_look = start_;
    if (!entry.runs_program) read(entry);
  }
}

bool KnobWatch::look() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : knobs_) {
    const Clock::time_point before = Clock::now();
    if (entry.runs_program || entry.change || before < entry.next_look) continue;
    read(entry);
    const Clock::time_point after = Clock::now();
    entry.next_look = after + rest_factor * (after - before);
  }
  return std::ranges::any_of(knobs_, [](const Entry& entry) { return entry.change.has_value(); });
}

std::vector<KnobChange> KnobWatch::end() {
  const std::lock_guard lock(mutex_);
  std::vector<KnobChange> changes;
  for (Entry& entry : knobs_) {
    if (!read(entry) && entry.watched.is_set && !entry.change)
      entry.change = {entry.watched.knob->kind(),
                      entry.watched.knob->domain(),
                      true,
                      std::chrono::duration<double>(Clock::now() - start_).count(),
                      "",
                      std::nullopt};
    if (entry.change) changes.push_back(*entry.change);
  }
  return changes;
}

}  // namespace tw::power
