#include "bench/inventory/choose_device.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "models/compute/error.hpp"
#include "power/meter/descriptor.hpp"

namespace tw::bench {
namespace fs = std::filesystem;
namespace {

/// Whether CUDA takes a first entry like this one for a GPU's name or number: it stops at the first that is neither.
bool names_any(std::string_view named) {
  named.remove_prefix(std::min(named.find_first_not_of(' '), named.size()));
  return named.starts_with("GPU-") || named.starts_with("MIG-") ||
         (!named.empty() && std::isdigit(static_cast<unsigned char>(named.front())));
}

/// "nvidia0", not "nvidiactl".
bool is_gpu_file(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view prefix = "nvidia";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         std::all_of(name.begin() + prefix.size(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// EPERM is a cgroup's answer, by which a scheduler says that the GPU is not this job's; any other failure is a GPU's
/// that does not work, or that the user may not open.
bool is_kept_away(const fs::path& file) {
  const power::Descriptor opened(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return opened.get() < 0 && (errno == EPERM || errno == ENOENT);
}

}  // namespace

std::string visible_gpu(const power::Sight& sight, const fs::path& root, const char* named) {
  if (named != nullptr && !names_any(named)) return {};
  constexpr std::string_view maker = "nvml:";
  for (const auto* domains : {&sight.visible, &sight.addressable}) {
    // Which of several its numbers name may not be known: one of them it is.
    if (domains == &sight.addressable && sight.unclear.empty()) break;
    for (const std::string& domain : *domains)
      if (domain.starts_with(maker)) return "NVML shows " + domain.substr(maker.size());
  }
  const bool nvml_answers =
      std::ranges::any_of(sight.addressable, [&](const std::string& domain) { return domain.starts_with(maker); });
  if (nvml_answers) return {};  // and the variable names none of them
  std::error_code ignored;
  std::string first;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "dev", ignored))
    if (is_gpu_file(entry.path()) && !is_kept_away(entry.path()) && (first.empty() || entry.path().string() < first))
      first = entry.path().string();
  return first.empty() ? "" : first + " is there";
}

std::string visible_gpu() { return visible_gpu(power::look(), "/", std::getenv("CUDA_VISIBLE_DEVICES")); }

DeviceChoice choose_device(const std::string& wanted, const std::vector<models::Backend>& backends,
                           const std::function<std::string()>& visible_gpu) {
  const auto named = [&](const std::string& name) { return std::ranges::find(backends, name, &models::Backend::name); };
  const auto cuda = named("cuda");
  const int gpus = cuda == backends.end() ? 0 : cuda->count();
  if (wanted == "auto") {
    if (gpus > 0) return {"cuda", "device auto: a GPU is visible, so cuda is used", gpus};
    if (const std::string gpu = visible_gpu(); !gpu.empty())
      throw models::Error(models::Failure::environment,
                          "--device auto: " + gpu + ", but it cannot be used: " +
                              (cuda == backends.end() ? "not compiled into this program" : cuda->why_none()) +
                              "; repair it, or run on the CPU with --device cpu");
    if (const auto cpu = named("cpu"); cpu != backends.end() && cpu->count() == 0)
      throw models::Error(
          models::Failure::environment,
          "--device auto: " + (cuda == backends.end() ? "" : "device cuda: " + cuda->why_none() + "; ") +
              "device cpu: " + cpu->why_none() +
              "; repair one of them, or check the program with --device reference, which is slow");
    return {"cpu", ""};
  }
  const auto mine = named(wanted);
  if (mine == backends.end()) return {wanted, ""};
  const bool is_beside = wanted == "cpu" && gpus > 0;
  return {wanted, is_beside ? "device cpu: a GPU is visible but not used, as requested" : "",
          std::max(1, mine->count())};
}

DeviceChoice choose_device(const std::string& wanted) {
  return choose_device(wanted, models::backends(), [] { return visible_gpu(); });
}

}  // namespace tw::bench
