#include "bench/train/node/device_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/inventory/inventory.hpp"
#include "bench/train/job/outcome.hpp"
#include "power/visible_gpus.hpp"

namespace tw::bench {

int gpu_index(const std::vector<std::string>& shown, int rank, int visible) {
  if (visible <= 1) return 0;
  const auto mine = shown.begin() + rank;
  return static_cast<int>(std::count(shown.begin(), mine, *mine)) % visible;
}

int gpu_index(comm::Job& job, int visible) {
  // In the order of CUDA's numbers, which CUDA_VISIBLE_DEVICES gives; a cgroup may hide devices without it.
  const char* order = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string mine =
      visible > 1 ? fmt::format("{} {}", order ? order : "all", fmt::join(power::look().visible, " ")) : "";
  return gpu_index(job.gather(fmt::format("{}: {}", job.node(), mine)), job.rank(), visible);
}

int threads_requested(const Options& options) {
  if (options.threads > 0) return options.threads;
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const std::optional<int> threads = number_in<int>(std::string_view(text, std::strcspn(text, ",")));
  if (!(threads >= 1 && threads <= most_threads()))
    throw UsageError("threads-out-of-range",
                     fmt::format("OMP_NUM_THREADS={}: must be from 1 to {}: set it to the number of cores per rank, or "
                                 "unset it",
                                 text, most_threads()));
  return *threads;
}

int choose_threads(int requested, comm::Job& job) {
  const std::vector<int> affinity = affinity_list();
  const std::vector<std::string> masks = job.gather(fmt::format("{}:{}", job.node(), fmt::join(affinity, ",")));
  if (requested > 0) return requested;
  const auto sharers = std::count(masks.begin(), masks.end(), masks[static_cast<std::size_t>(job.rank())]);
  return std::max<int>(1, static_cast<int>(affinity.size()) / static_cast<int>(std::max<std::ptrdiff_t>(1, sharers)));
}

}  // namespace tw::bench
