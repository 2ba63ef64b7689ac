#include "tests/compute_cuda/resources.hpp"

#include <cuda_occupancy.h>
#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "models/compute/cuda/kernels/occupancy.hpp"

namespace tw {
namespace {

constexpr std::size_t reserved_bytes = 1024;  // of shared memory, by the driver for each block

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part)) text.erase(at, part.size());
}

/// Name and template arguments from "void tw::models::cuda::(anonymous namespace)::some_kernel<float>(float*)".
void name_kernel(std::string signature, KernelUsage& usage) {
  erase_all(signature, "(anonymous namespace)::");
  if (signature.starts_with("void ")) signature.erase(0, 5);
  const std::string_view own = "tw::models::cuda::";
  int depth = 0;
  std::size_t end = 0;  // of the name and its template arguments
  for (; end < signature.size() && (depth > 0 || signature[end] != '('); ++end)
    depth += signature[end] == '<' ? 1 : signature[end] == '>' ? -1 : 0;
  usage.instance = signature.substr(0, end);
  if (!usage.instance.starts_with(own)) return;
  erase_all(usage.instance, own);
  usage.kernel = usage.instance.substr(0, usage.instance.find('<'));
}

/// The number behind `name` in "REG:32 STACK:0 …".
std::size_t number(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(name + ":");
  std::size_t value = 0;
  if (at == line.npos || !(std::istringstream(line.substr(at + name.size() + 1)) >> value))
    throw std::runtime_error("cuobjdump: no number for " + name + " in '" + line + "'");
  return value;
}

/// CUDA Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability"; its other
/// limits are the same everywhere. The blocks of an SM and the granularities of registers and shared memory are in
/// NVIDIA's cuda_occupancy.h.
struct Capability {
  int major, minor, sm_threads;
  std::size_t sm_shared_kib;  // a block may ask for all but the reserved one
};
constexpr Capability capabilities[] = {{8, 0, 2048, 164},  {8, 6, 1536, 100},  {8, 7, 1536, 164},  {8, 9, 1536, 100},
                                       {9, 0, 2048, 228},  {10, 0, 2048, 228}, {10, 3, 2048, 228}, {11, 0, 1536, 228},
                                       {12, 0, 1536, 100}, {12, 1, 1536, 100}};

/// Null for an architecture that the table lacks. "sm_90a" and "sm_100f" have the limits of "sm_90" and "sm_100".
const Capability* capability_of(const std::string& architecture) {
  for (const Capability& one : capabilities) {
    const std::string name = "sm_" + std::to_string(10 * one.major + one.minor);
    if (architecture == name || architecture == name + "a" || architecture == name + "f") return &one;
  }
  return nullptr;
}

cudaOccDeviceProp properties(const Capability& capability) {
  cudaOccDeviceProp limits;
  limits.computeMajor = capability.major;
  limits.computeMinor = capability.minor;
  limits.maxThreadsPerBlock = 1024;
  limits.maxThreadsPerMultiprocessor = capability.sm_threads;
  limits.regsPerBlock = limits.regsPerMultiprocessor = 65536;
  limits.warpSize = 32;
  limits.sharedMemPerBlock = models::cuda::occupancy::unasked_shared_bytes;
  limits.sharedMemPerMultiprocessor = capability.sm_shared_kib * 1024;
  limits.sharedMemPerBlockOptin = limits.sharedMemPerMultiprocessor - reserved_bytes;
  limits.reservedSharedMemPerBlock = reserved_bytes;
  limits.numSms = models::cuda::occupancy::sms;  // does not matter for one SM
  return limits;
}

/// Faults of the code for one architecture.
void find_faults(const std::string& architecture, const std::vector<const KernelUsage*>& usages,
                 std::vector<std::string>& faults) {
  namespace occupancy = models::cuda::occupancy;
  const Capability* const capability = capability_of(architecture);
  if (capability == nullptr) {
    faults.push_back(architecture + ": its limits are not in tests/compute_cuda/resources.cpp");
    return;
  }
  std::set<std::string_view> seen;
  for (const KernelUsage* usage : usages) {
    seen.insert(usage->kernel);
    const auto fault = [&](const std::string& what) {
      faults.push_back(architecture + ": " + usage->instance + ": " + what);
    };
    if (usage->stack_bytes + usage->local_bytes > 0)
      fault(std::to_string(usage->stack_bytes + usage->local_bytes) +
            " bytes of local memory for each thread (spilled registers, or an array with a computed index)");
    const occupancy::Row* row = occupancy::find(usage->kernel);
    if (row == nullptr) {
      fault("has no row in kernels/occupancy.def");
      continue;
    }
    const auto& [threads, _, shared_bytes] = row->block;
    const int assumed = occupancy::blocks_on(*row, capability->sm_shared_kib * 1024);
    const int blocks = blocks_per_sm(architecture, usage->registers, threads, usage->static_bytes, shared_bytes);
    if (blocks < assumed)
      fault(std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads fit on an SM with " +
            std::to_string(usage->registers) + " registers; its launch assumes " + std::to_string(assumed));
  }
  for (const occupancy::Row& row : occupancy::rows)
    if (!seen.contains(row.kernel))
      faults.push_back(architecture + ": " + std::string(row.kernel) + ": has a row, but no code");
}

}  // namespace

std::vector<KernelUsage> read_usages(std::string_view cuobjdump_output) {
  std::vector<KernelUsage> usages;
  std::istringstream lines{std::string(cuobjdump_output)};
  std::string architecture;
  bool named = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos) continue;
    line.erase(0, begin);
    if (line.starts_with("arch = ")) {
      architecture = line.substr(7);
    } else if (line.starts_with("Function ") && line.ends_with(':')) {
      if (named) throw std::runtime_error("cuobjdump: no figures for " + usages.back().instance);
      usages.emplace_back().architecture = architecture;
      name_kernel(demangled(line.substr(9, line.size() - 10)), usages.back());
      named = true;
    } else if (line.starts_with("REG:")) {
      if (!named) throw std::runtime_error("cuobjdump: figures of no function: '" + line + "'");
      KernelUsage& usage = usages.back();
      usage.registers = static_cast<int>(number(line, "REG"));
      usage.stack_bytes = number(line, "STACK");
      usage.local_bytes = number(line, "LOCAL");
      usage.static_bytes = number(line, "SHARED");
      named = false;
    }
  }
  if (named) throw std::runtime_error("cuobjdump: no figures for " + usages.back().instance);
  return usages;
}

int blocks_per_sm(const std::string& architecture, int registers, int threads, std::size_t static_bytes,
                  std::size_t dynamic_bytes) {
  const Capability* const capability = capability_of(architecture);
  if (capability == nullptr) throw std::invalid_argument("no limits of " + architecture);
  const cudaOccDeviceProp limits = properties(*capability);
  const cudaOccDeviceState state;
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = threads;
  kernel.numRegs = registers;
  // cuobjdump counts the reserved bytes in, or reports 0; NVIDIA's calculator adds them itself.
  kernel.sharedSizeBytes = static_bytes > reserved_bytes ? static_bytes - reserved_bytes : 0;
  kernel.maxDynamicSharedSizeBytes = dynamic_bytes;
  if (dynamic_bytes > models::cuda::occupancy::unasked_shared_bytes)  // launch() asks
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.numBlockBarriers = 1;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &limits, &kernel, &state, threads, dynamic_bytes) !=
      CUDA_OCC_SUCCESS)
    throw std::runtime_error("cuda_occupancy.h refuses a block of " + std::to_string(threads) + " threads with " +
                             std::to_string(registers) + " registers each on " + architecture);
  return result.activeBlocksPerMultiprocessor;
}

std::vector<std::string> resource_faults(const std::vector<KernelUsage>& usages) {
  std::map<std::string, std::vector<const KernelUsage*>> own;
  for (const KernelUsage& usage : usages)
    if (!usage.kernel.empty()) own[usage.architecture].push_back(&usage);
  if (own.empty()) return {"no kernel of tw::models::cuda"};
  std::vector<std::string> faults;
  for (const auto& [architecture, kernels] : own) find_faults(architecture, kernels, faults);
  return faults;
}

}  // namespace tw
