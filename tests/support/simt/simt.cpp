#include "tests/support/simt/simt.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>

#include "models/compute/cuda/kernels/occupancy.hpp"
#include "tests/support/simt/memory.hpp"
#include "tests/support/simt/order.hpp"
#include "tests/support/simt/runtime.hpp"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace tw::simt {
namespace {

constexpr int warp_size = 32;
constexpr std::size_t stack_bytes = 32 * 1024;
// Of a block on every GPU with fp8 (CUDA C++ Programming Guide, "Compute Capabilities": 8.9 and 12.0 have the least).
constexpr std::size_t most_shared_bytes = 99 * 1024;

constexpr std::array schedules = {Schedule::ascending, Schedule::descending, Schedule::seeded};
const char* to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::ascending:
      return "ascending";
    case Schedule::descending:
      return "descending";
    case Schedule::seeded:
      return "seeded";
  }
  return "?";
}

std::string to_string(const Place& place) {
  const std::string_view file = place.file;
  const std::size_t slash = file.rfind('/');
  return std::string(place.function) + " at " + std::string(slash == file.npos ? file : file.substr(slash + 1)) + ":" +
         std::to_string(place.line);
}

std::string to_string(const uint3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

/// "tw::models::cuda::fill_kernel<float>" from "… [with auto* kernel =
/// tw::models::cuda::{anonymous}::fill_kernel<float>; …]".
std::string kernel_name(std::string_view signature) {
  const std::string_view before = "kernel = ", nameless = "{anonymous}::";
  const std::size_t begin = signature.find(before) + before.size();
  std::size_t end = signature.find("; ", begin);
  if (end == signature.npos) end = signature.rfind(']');
  std::string name(signature.substr(begin, end - begin));
  for (std::size_t at = name.find(nameless); at != name.npos; at = name.find(nameless)) name.erase(at, nameless.size());
  return name;
}

/// Holds a launch of one of our own kernels to its row of occupancy.def.
void check_row(std::string_view name, std::uint64_t threads, std::size_t shared_bytes) {
  const std::string_view own = "tw::models::cuda::";
  if (!name.starts_with(own)) return;
  const std::string_view kernel = name.substr(own.size(), name.find('<') - own.size());
  const models::cuda::occupancy::Row* row = models::cuda::occupancy::find(kernel);
  if (row == nullptr) throw KernelError(std::string(name) + ": has no row in kernels/occupancy.def");
  const auto refuse = [&](const std::string& what, std::uint64_t most) {
    throw KernelError(std::string(name) + ": " + what + "; its row in kernels/occupancy.def has " +
                      std::to_string(most));
  };
  const auto& block = row->block;
  if (threads > static_cast<std::uint64_t>(block.threads))
    refuse("a block of " + std::to_string(threads) + " threads", static_cast<std::uint64_t>(block.threads));
  if (shared_bytes > block.shared_bytes)
    refuse(std::to_string(shared_bytes) + " bytes of shared memory", block.shared_bytes);
}

constinit KernelEntry* first_entry = nullptr;

Touched touched;
bool counts = false, is_first_run = false;

// ---- threads ----
/// Lanes of one warp that meet in one call of a warp function.
struct Meeting {
  unsigned mask, arrived, left;  // left: lanes that have gone on
  Place place;
  std::array<std::uint64_t, warp_size> values;
};

/// A stack on which threads run one after the other, until one of them waits on it.
struct Runner {
  boost::context::fiber fiber;
};

struct Lane {
  enum class State { ready, at_barrier, in_warp, left };
  Thread thread;
  int index = 0;  // in the block
  State state = State::left;
  Place place{};
  unsigned mask = 0;
  Meeting* meeting = nullptr;  // whose values the lane may still read
  Runner* runner = nullptr;    // from its start to its end
  std::size_t read = 0;        // bytes counted
};

class Block {
 public:
  /// Runs all threads of one block. Throws KernelError.
  void run(dim3 extent, dim3 grid, uint3 index, const std::function<void()>& body, Schedule schedule,
           std::uint64_t seed);
  void prepare_shared(std::size_t bytes);
  std::string shared_damage() const;
  void* shared() { return shared_; }
  Lane& lane() { return *lane_; }
  bool inside() const { return lane_ != nullptr; }

  void barrier(Place place);
  const std::uint64_t* exchange(Place place, unsigned mask, std::uint64_t value);

 private:
  Runner* idle_runner();
  void run_threads(Runner& runner);
  bool take_next();
  void leave(boost::context::fiber& stack);
  void wait(Lane::State state, Place place) {
    Lane& lane = *lane_;
    lane.state = state;
    lane.place = place;
    take_next();
    leave(lane.runner->fiber);
  }
  void make_ready(Lane& lane) {
    lane.state = Lane::State::ready;
    order_.put(lane.index);
  }
  void leave_meeting(Lane& lane);
  [[noreturn]] void stuck() const;
  std::string waiting(Lane::State state) const;

  Order order_;
  std::deque<Lane> lanes_;      // grows to the largest block seen
  std::deque<Runner> runners_;  // grows to the most threads that waited at once
  std::vector<Runner*> idle_;
  boost::context::fiber launcher_;  // the stack of run()
  int count_ = 0, at_barrier_ = 0, left_ = 0;
  Lane *lane_ = nullptr, *first_at_barrier_ = nullptr;  // lane_: whose thread runs; none outside of run()
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr error_;
  std::array<std::vector<std::unique_ptr<Meeting>>, most_threads / warp_size> meetings_;
  std::vector<std::unique_ptr<Meeting>> spare_meetings_;
  alignas(256) unsigned char shared_[most_shared_bytes + guard_bytes];
  std::size_t shared_bytes_ = 0;
};

Block& block() {
  static Block one;
  return one;
}

Runner* Block::idle_runner() {
  if (idle_.empty()) {
    Runner& runner = runners_.emplace_back();
    runner.fiber = boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(stack_bytes),
                                         [this, &runner](boost::context::fiber&& none) {
                                           for (;;) run_threads(runner);
                                           return std::move(none);
                                         });
    return &runner;
  }
  Runner* const runner = idle_.back();
  idle_.pop_back();
  return runner;
}

/// The thread that is to go on, if any can, is lane_'s.
bool Block::take_next() {
  const int next = error_ ? -1 : order_.take();
  lane_ = next < 0 ? nullptr : &lanes_[static_cast<std::size_t>(next)];
  return lane_ != nullptr;
}

/// Goes on with lane_'s thread, or with run() where there is none. `stack`: where the caller will go on.
void Block::leave(boost::context::fiber& stack) {
  if (lane_ != nullptr && lane_->runner == nullptr) lane_->runner = idle_runner();
  boost::context::fiber& to = lane_ != nullptr ? lane_->runner->fiber : launcher_;
  std::move(to).resume_with([&stack](boost::context::fiber&& left) {
    stack = std::move(left);
    return boost::context::fiber();
  });
}

/// Runs lane_'s thread and those after it, up to the first that has already waited, on another stack: to change stacks
/// takes longer than many a thread.
void Block::run_threads(Runner& runner) {
  do {
    Lane& lane = *lane_;
    lane.runner = &runner;
    try {
      (*body_)();
    } catch (const std::exception&) {  // not Boost's own, which ends the fiber
      error_ = std::current_exception();
    }
    leave_meeting(lane);
    lane.state = Lane::State::left;
    lane.runner = nullptr;
    ++left_;
  } while (take_next() && lane_->runner == nullptr);
  idle_.push_back(&runner);
  leave(runner.fiber);
}

void Block::run(dim3 extent, dim3 grid, uint3 index, const std::function<void()>& body, Schedule schedule,
                std::uint64_t seed) {
  count_ = static_cast<int>(extent.x * extent.y * extent.z);
  at_barrier_ = left_ = 0;
  body_ = &body;
  error_ = nullptr;
  while (static_cast<int>(lanes_.size()) < count_) lanes_.emplace_back();
  order_.start(count_, schedule, seed);
  for (int i = 0; i < count_; ++i) {
    Lane& lane = lanes_[static_cast<std::size_t>(i)];
    const unsigned at = static_cast<unsigned>(i);
    lane.thread = {uint3{at % extent.x, at / extent.x % extent.y, at / extent.x / extent.y}, index, extent, grid};
    lane.index = i;
    lane.meeting = nullptr;
    lane.state = Lane::State::ready;
    lane.read = 0;
  }
  if (take_next()) leave(launcher_);
  if (left_ == count_ && !error_) return;
  try {
    if (error_) std::rethrow_exception(error_);
    stuck();
  } catch (...) {
    runners_.clear();  // unwinds the threads that are in the middle of the kernel
    idle_.clear();
    for (Lane& lane : lanes_) lane.runner = nullptr;
    for (auto& meetings : meetings_) meetings.clear();
    throw;
  }
}

void Block::barrier(Place place) {
  if (at_barrier_ == 0) {
    first_at_barrier_ = lane_;
  } else if (const Place& other = first_at_barrier_->place; other.line != place.line || other.file != place.file) {
    fail(place, "but thread " + std::to_string(first_at_barrier_->index) + " waits in " + to_string(other) +
                    ": a barrier that not all threads reach");
  }
  if (++at_barrier_ < count_) {
    wait(Lane::State::at_barrier, place);
    return;
  }
  at_barrier_ = 0;
  for (int i = 0; i < count_; ++i) {
    Lane& other = lanes_[static_cast<std::size_t>(i)];
    if (&other != lane_) make_ready(other);
  }
}

void Block::leave_meeting(Lane& lane) {
  Meeting* meeting = lane.meeting;
  if (meeting == nullptr) return;
  lane.meeting = nullptr;
  meeting->left |= 1u << (lane.index % warp_size);
  if (meeting->left != meeting->mask) return;
  auto& meetings = meetings_[static_cast<std::size_t>(lane.index / warp_size)];
  const auto found = std::find_if(meetings.begin(), meetings.end(), [=](const auto& m) { return m.get() == meeting; });
  spare_meetings_.push_back(std::move(*found));
  meetings.erase(found);
}

const std::uint64_t* Block::exchange(Place place, unsigned mask, std::uint64_t value) {
  Lane& lane = *lane_;
  leave_meeting(lane);
  const unsigned me = 1u << (lane.index % warp_size);
  if ((mask & me) == 0) fail(place, "is not in its own mask " + std::to_string(mask));
  auto& meetings = meetings_[static_cast<std::size_t>(lane.index / warp_size)];
  const auto open = [&](const auto& m) { return m->mask == mask && m->arrived != mask; };
  auto found = std::find_if(meetings.begin(), meetings.end(), open);
  if (found == meetings.end()) {
    if (spare_meetings_.empty()) spare_meetings_.push_back(std::make_unique<Meeting>());
    meetings.push_back(std::move(spare_meetings_.back()));
    spare_meetings_.pop_back();
    found = std::prev(meetings.end());
    **found = Meeting{mask, 0, 0, place, {}};
  }
  Meeting& meeting = **found;
  if (meeting.place.line != place.line || meeting.place.file != place.file) {
    fail(place, "but other lanes of its warp wait in " + to_string(meeting.place) + " with the same mask");
  }
  meeting.values[static_cast<std::size_t>(lane.index % warp_size)] = value;
  meeting.arrived |= me;
  lane.meeting = &meeting;
  if (meeting.arrived != mask) {
    lane.mask = mask;
    wait(Lane::State::in_warp, place);
  } else {
    const int first = lane.index / warp_size * warp_size;
    for (int i = 0; i < warp_size; ++i) {
      if (mask >> i & 1u && first + i != lane.index) make_ready(lanes_[static_cast<std::size_t>(first + i)]);
    }
  }
  return meeting.values.data();
}

std::string Block::waiting(Lane::State state) const {
  std::string text;
  for (int i = 0; i < count_; ++i) {
    const Lane& lane = lanes_[static_cast<std::size_t>(i)];
    if (lane.state != state) continue;
    if (!text.empty()) {
      int more = 1;
      while (++i < count_) more += lanes_[static_cast<std::size_t>(i)].state == state ? 1 : 0;
      return text + " (and " + std::to_string(more) + " more)";
    }
    text = "thread " + std::to_string(i);
    if (state == Lane::State::left) {
      text += " has left the kernel";
    } else {
      text += " waits in " + to_string(lane.place);
      if (state == Lane::State::in_warp) text += " for the mask " + std::to_string(lane.mask);
    }
  }
  return text;
}

void Block::stuck() const {
  std::string text = "no thread can go on";
  for (const Lane::State state : {Lane::State::at_barrier, Lane::State::in_warp, Lane::State::left}) {
    const std::string part = waiting(state);
    if (!part.empty()) text += "; " + part;
  }
  throw KernelError(text);
}

void Block::prepare_shared(std::size_t bytes) {
  shared_bytes_ = bytes;
  std::memset(shared_, nothing, bytes);
  std::memset(shared_ + bytes, sentinel, guard_bytes);
}

std::string Block::shared_damage() const {
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (shared_[shared_bytes_ + i] != sentinel) {
      return std::to_string(i + 1) + " bytes after its " + std::to_string(shared_bytes_) + " bytes of shared memory";
    }
  }
  return {};
}

/// One run of the whole grid; KernelError names what went wrong without the kernel.
void run_once(dim3 grid, dim3 extent, std::size_t shared_bytes, const std::function<void()>& body, Schedule schedule) {
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  // The seeded order of blocks: a step coprime to their number visits each once.
  std::uint64_t step = blocks * 5 / 8 + 1;
  while (std::gcd(step, blocks) != 1) ++step;
  for (std::uint64_t k = 0; k < blocks; ++k) {
    const std::uint64_t b = schedule == Schedule::ascending    ? k
                            : schedule == Schedule::descending ? blocks - 1 - k
                                                               : (k * step + blocks / 3) % blocks;
    const uint3 index{static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                      static_cast<unsigned>(b / grid.x / grid.y)};
    const auto where = [&] { return "block " + to_string(index) + ": "; };
    block().prepare_shared(shared_bytes);
    try {
      block().run(extent, grid, index, body, schedule, b);
    } catch (const KernelError& error) {
      throw KernelError(where() + error.what());
    }
    if (const std::string text = block().shared_damage(); !text.empty()) throw KernelError(where() + "wrote " + text);
    if (const std::string text = memory().damage(); !text.empty()) throw KernelError(where() + "wrote " + text);
  }
}

}  // namespace

namespace {

/// Where the test that compares runs with sources (tests/compute_cuda/simt/check_kernels.sh) finds what ran.
class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() {
    const char* folder = std::getenv("TRAINWATT_SIMT_RECORD");
    if (folder == nullptr) return;
    std::ofstream file(std::string(folder) + "/" + std::to_string(getpid()));
    for (const KernelRun& kernel : kernels()) file << (kernel.launched ? "ran " : "idle ") << kernel.name << "\n";
  }
};

}  // namespace

KernelEntry::KernelEntry(std::string_view text) : signature(text), next(first_entry) { first_entry = this; }

std::vector<KernelRun> kernels() {
  std::vector<KernelRun> all;
  for (const KernelEntry* entry = first_entry; entry != nullptr; entry = entry->next) {
    all.push_back({kernel_name(entry->signature), entry->launched});
  }
  return all;
}

void run_grid(KernelEntry& kernel, dim3 grid, dim3 extent, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  const std::string name = kernel_name(kernel.signature);
  const std::uint64_t threads = std::uint64_t{extent.x} * extent.y * extent.z;
  if (block().inside()) throw std::logic_error(name + ": launched inside a kernel");
  if (threads == 0 || threads > most_threads || threads % warp_size != 0) {
    throw KernelError(name + ": a block of " + std::to_string(threads) +
                      " threads; a multiple of 32 up to 1024 is wanted");
  }
  if (grid.x == 0 || grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535) {
    throw KernelError(name + ": a grid of " + to_string(uint3{grid.x, grid.y, grid.z}) + " blocks");
  }
  if (shared_bytes > most_shared_bytes) {
    throw KernelError(name + ": " + std::to_string(shared_bytes) +
                      " bytes of shared memory; no GPU need have more than 99 KiB");
  }
  check_row(name, threads, shared_bytes);
  static const Recorder at_the_end;
  kernel.launched = true;
  const auto run_in = [&](Schedule schedule) {
    is_first_run = gpu().only || schedule == schedules.front();
    try {
      run_once(grid, extent, shared_bytes, thread, schedule);
    } catch (const KernelError& error) {
      throw KernelError(name + ", " + to_string(schedule) + ", " + error.what());
    }
  };
  if (gpu().only) return run_in(*gpu().only);
  const Bytes before = memory().save();
  Bytes first;
  for (const Schedule schedule : schedules) {
    if (schedule != schedules.front()) memory().restore(before);
    run_in(schedule);
    if (schedule == schedules.front()) {
      first = memory().save();
    } else if (const std::string where = memory().difference(first); !where.empty()) {
      throw KernelError(name + ": the ascending and the " + to_string(schedule) + " schedule differ at " + where);
    }
  }
}

void count_touched() { touched = {}, counts = true; }
Touched take_touched() {
  counts = false;
  return touched;
}
void touches(const void* data, std::size_t bytes, bool is_store) {
  if (!counts || !is_first_run || !memory().holds(data)) return;
  (is_store ? touched.written : touched.read) += bytes;
  if (is_store) return;
  Lane& lane = block().lane();
  lane.read += bytes;
  touched.most_read = std::max(touched.most_read, lane.read);
}

const Thread& current() { return block().lane().thread; }
void* shared_memory() { return block().shared(); }
int lane() { return block().lane().index % warp_size; }
void barrier(Place place) { block().barrier(place); }
const std::uint64_t* exchange(Place place, unsigned mask, std::uint64_t value) {
  return block().exchange(place, mask, value);
}
void fail(Place place, const std::string& what) {
  throw KernelError("thread " + std::to_string(block().lane().index) + " in " + to_string(place) + " " + what);
}

unsigned ballot(Place place, unsigned mask, bool vote) {
  const std::uint64_t* votes = exchange(place, mask, vote ? 1 : 0);
  unsigned all = 0;
  for (int i = 0; i < warp_size; ++i) {
    if (mask >> i & 1u && votes[i] != 0) all |= 1u << i;
  }
  return all;
}

}  // namespace tw::simt
