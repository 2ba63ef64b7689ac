#include "tests/compute_cuda/resources.hpp"

#include <cuda_occupancy.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include "models/compute/cuda/kernels/occupancy.hpp"

namespace tw {
namespace {

constexpr std::string_view checked = "sm_90";
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

/// Limits of compute capability 9.0: CUDA C++ Programming Guide, "Compute Capabilities", table "Technical
/// Specifications per Compute Capability". The blocks of an SM and the granularities of registers and shared memory are
/// in NVIDIA's cuda_occupancy.h.
cudaOccDeviceProp hopper() {
  cudaOccDeviceProp limits;
  limits.computeMajor = 9;
  limits.computeMinor = 0;
  limits.maxThreadsPerBlock = 1024;
  limits.maxThreadsPerMultiprocessor = 2048;
  limits.regsPerBlock = limits.regsPerMultiprocessor = 65536;
  limits.warpSize = 32;
  limits.sharedMemPerBlock = models::cuda::occupancy::unasked_shared_bytes;
  limits.sharedMemPerBlockOptin = 227 * 1024;
  limits.sharedMemPerMultiprocessor = 228 * 1024;
  limits.reservedSharedMemPerBlock = reserved_bytes;
  limits.numSms = models::cuda::occupancy::sms;
  return limits;
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

int blocks_per_sm(int registers, int threads, std::size_t static_bytes, std::size_t dynamic_bytes) {
  const cudaOccDeviceProp limits = hopper();
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
                             std::to_string(registers) + " registers each");
  return result.activeBlocksPerMultiprocessor;
}

std::vector<std::string> resource_faults(const std::vector<KernelUsage>& usages) {
  namespace occupancy = models::cuda::occupancy;
  std::vector<std::string> faults;
  std::set<std::string_view> seen;
  for (const KernelUsage& usage : usages) {
    if (usage.architecture != checked || usage.kernel.empty()) continue;
    seen.insert(usage.kernel);
    const auto fault = [&](const std::string& what) { faults.push_back(usage.instance + ": " + what); };
    if (usage.stack_bytes + usage.local_bytes > 0)
      fault(std::to_string(usage.stack_bytes + usage.local_bytes) +
            " bytes of local memory for each thread (spilled registers, or an array with a computed index)");
    const occupancy::Row* row = occupancy::find(usage.kernel);
    if (row == nullptr) {
      fault("has no row in kernels/occupancy.def");
      continue;
    }
    const auto& [threads, assumed, shared_bytes] = row->block;
    const int blocks = blocks_per_sm(usage.registers, threads, usage.static_bytes, shared_bytes);
    if (blocks < assumed)
      fault(std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads fit on an SM with " +
            std::to_string(usage.registers) + " registers; its launch assumes " + std::to_string(assumed));
  }
  if (seen.empty()) return {"no kernel of tw::models::cuda for " + std::string(checked)};
  for (const occupancy::Row& row : occupancy::rows)
    if (!seen.contains(row.kernel)) faults.push_back(std::string(row.kernel) + ": has a row, but no code");
  return faults;
}

}  // namespace tw
