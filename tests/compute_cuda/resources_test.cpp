// No kernel of our own spills, and as many blocks of each fit on an SM as its launch assumes: read from the compiled
// code, without a GPU.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "models/compute/cuda/kernels/occupancy.hpp"
#include "tests/compute_cuda/resources.hpp"

namespace tw {
namespace {

// ---- the reader and the rules, on made-up kernels ----
std::string mangled(const std::string& kernel) {
  const std::string nameless = "_GLOBAL__N__55d222cf_13_batch_norm_cu_98bdc315";
  return "_ZN2tw6models4cuda" + std::to_string(nameless.size()) + nameless + std::to_string(kernel.size()) + kernel +
         "IfLi4EEEvPKT_";
}
std::string reported(const std::string& kernel, int registers, int stack, int shared = 1024, int local = 0) {
  return " Function " + mangled(kernel) + ":\n  REG:" + std::to_string(registers) + " STACK:" + std::to_string(stack) +
         " SHARED:" + std::to_string(shared) + " LOCAL:" + std::to_string(local) +
         " CONSTANT[0]:664 TEXTURE:0 SURFACE:0 SAMPLER:0\n";
}
/// A clean report of all kernels; `changed` takes the place of its kernel's.
std::string report(const std::string& changed_kernel = "", const std::string& changed = "",
                   const std::string& architecture = "sm_90") {
  std::string text = "\nFatbin elf code:\n================\narch = " + architecture +
                     "\ncode version = [1,8]\n\nResource usage:\n Common:\n  GLOBAL:0\n";
  for (const auto& row : models::cuda::occupancy::rows) {
    const std::string kernel(row.kernel);
    text += kernel == changed_kernel ? changed : reported(kernel, 32, 0);
  }
  return text;
}
std::string faults_of(const std::string& text) {
  std::string all;
  for (const std::string& fault : resource_faults(read_usages(text))) all += fault + "\n";
  return all;
}

TEST(Resources, CleanKernelsHaveNoFault) {
  EXPECT_EQ(faults_of(report()), "");
  EXPECT_EQ(faults_of(report("batch_norm_sums_kernel", reported("batch_norm_sums_kernel", 64, 0))), "");
}

TEST(Resources, LocalMemoryIsAFault) {
  EXPECT_EQ(
      faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 64, 8))),
      "sm_90: norm_backward_kernel<float, 4>: 8 bytes of local memory for each thread (spilled registers, or an array "
      "with a computed index)\n");
  EXPECT_NE(
      faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 64, 0, 1024, 16))).find("16 bytes"),
      std::string::npos);
}

TEST(Resources, FewerBlocksThanAssumedAreAFault) {
  EXPECT_EQ(
      faults_of(report("batch_norm_sums_kernel", reported("batch_norm_sums_kernel", 65, 0))),
      "sm_90: batch_norm_sums_kernel<float, 4>: 3 blocks of 256 threads fit on an SM with 65 registers; its launch "
      "assumes 4\n");
  EXPECT_NE(faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 65, 0))).find("0 blocks of 1024"),
            std::string::npos);
  // 40 KiB of shared memory of its own beside 24 KiB of the launch, which asks for no more than the 48 KiB of both.
  const std::string large = reported("batch_norm_sums_kernel", 32, 0, 41 * 1024);
  EXPECT_NE(faults_of(report("batch_norm_sums_kernel", large)).find(": 0 blocks"), std::string::npos);
}

TEST(Resources, TableAndCodeHaveTheSameKernels) {
  EXPECT_EQ(faults_of(report() + reported("stray_kernel", 32, 0)),
            "sm_90: stray_kernel<float, 4>: has no row in kernels/occupancy.def\n");
  EXPECT_EQ(faults_of(report("rotary_kernel", "")), "sm_90: rotary_kernel: has a row, but no code\n");
}

TEST(Resources, OtherCodeIsNotHeld) {
  const std::string of_cub = " Function _ZN3cub6detail11EmptyKernelIvEEvv:\n  REG:255 STACK:99 SHARED:0 LOCAL:0\n";
  EXPECT_EQ(faults_of(report() + of_cub), "");
  EXPECT_EQ(faults_of(of_cub), "no kernel of tw::models::cuda\n");
  EXPECT_EQ(faults_of(""), "no kernel of tw::models::cuda\n");
}

TEST(Resources, EveryArchitectureIsHeld) {
  for (const std::string architecture : {"sm_80", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_120"}) {
    EXPECT_EQ(faults_of(report("", "", architecture)), "");
    const std::string spilled = report("rotary_kernel", reported("rotary_kernel", 32, 8), architecture),
                      fault = architecture + ": rotary_kernel<float, 4>: 8 bytes of local memory";
    EXPECT_EQ(faults_of(spilled).substr(0, fault.size()), fault);
    EXPECT_EQ(faults_of(report() + spilled).substr(0, fault.size()), fault) << "behind clean code for sm_90";
    EXPECT_EQ(faults_of(report("rotary_kernel", "", architecture)),
              architecture + ": rotary_kernel: has a row, but no code\n");
  }
  EXPECT_EQ(faults_of(report() + report("", "", "sm_70")),
            "sm_70: its limits are not in tests/compute_cuda/resources.cpp\n");
  // Its row: two blocks with 64 KiB each, but one where an SM has 100 KiB.
  const std::string kernel = "norm_forward_rounded_kernel";
  EXPECT_EQ(faults_of(report(kernel, reported(kernel, 255, 0), "sm_120")), "");
  EXPECT_EQ(faults_of(report(kernel, reported(kernel, 255, 0), "sm_80")), "");
  EXPECT_EQ(
      faults_of(report(kernel, reported(kernel, 32, 0, 40 * 1024), "sm_120")),
      "sm_120: norm_forward_rounded_kernel<float, 4>: 0 blocks of 128 threads fit on an SM with 32 registers; its "
      "launch assumes 1\n");
  EXPECT_EQ(faults_of(report(kernel, reported(kernel, 32, 0, 40 * 1024), "sm_80")),
            "sm_80: norm_forward_rounded_kernel<float, 4>: 1 blocks of 128 threads fit on an SM with 32 registers; its "
            "launch assumes 2\n");
}

TEST(Resources, OutputOfAnotherFormIsRefused) {
  const std::string function = " Function " + mangled("rotary_kernel") + ":\n";
  for (const std::string& text : {function, function + function, std::string("  REG:1 STACK:0 SHARED:0 LOCAL:0\n"),
                                  function + "  REG:1 SHARED:0 LOCAL:0\n", function + "  REG:x STACK:0\n"})
    EXPECT_THROW(read_usages(text), std::runtime_error) << text;
}

// By hand: a warp gets registers in units of 256, each quarter of an SM has 16,384 of them; a block gets 1 KiB of
// shared memory beside its own, of 228 KiB.
TEST(Resources, BlocksThatFitAreCounted) {
  EXPECT_EQ(blocks_per_sm("sm_90", 64, 256, 1024, 0), 4);   // 2048 a warp: 8 warps a quarter
  EXPECT_EQ(blocks_per_sm("sm_90", 65, 256, 1024, 0), 3);   // 2304: 7
  EXPECT_EQ(blocks_per_sm("sm_90", 128, 128, 1024, 0), 4);  // 4096: 4
  EXPECT_EQ(blocks_per_sm("sm_90", 133, 128, 1024, 0), 3);  // 4352: 3
  EXPECT_EQ(blocks_per_sm("sm_90", 32, 1024, 1024, 0), 2);  // 2048 threads
  EXPECT_EQ(blocks_per_sm("sm_90", 64, 1024, 1024, 0), 1);
  EXPECT_EQ(blocks_per_sm("sm_90", 65, 1024, 1024, 0), 0);
  EXPECT_EQ(blocks_per_sm("sm_90", 16, 32, 0, 0), 32);          // blocks of an SM
  EXPECT_EQ(blocks_per_sm("sm_90", 16, 32, 0, 48 * 1024), 4);   // 49 KiB of 228
  EXPECT_EQ(blocks_per_sm("sm_90", 16, 32, 0, 64 * 1024), 3);   // 65 KiB, for which launch() asks
  EXPECT_EQ(blocks_per_sm("sm_90", 16, 32, 0, 228 * 1024), 0);  // one less is there
  EXPECT_EQ(blocks_per_sm("sm_90", 16, 32, 9 * 1024, 0), 25);   // 9 KiB of 228, the reserved one among them
}

TEST(Resources, BlocksThatFitAreThoseOfTheArchitecture) {
  struct Case {
    std::string architecture;
    int blocks, of_1024_threads, with_32_kib, with_90_kib;
  };
  // Blocks and threads of an SM, then 33 and 91 KiB of its shared memory: CUDA Programming Guide, "Compute
  // Capabilities".
  for (const Case& one :
       {Case{"sm_80", 32, 2, 4, 1}, Case{"sm_86", 16, 1, 3, 1}, Case{"sm_87", 16, 1, 4, 1}, Case{"sm_89", 24, 1, 3, 1},
        Case{"sm_90", 32, 2, 6, 2}, Case{"sm_100", 32, 2, 6, 2}, Case{"sm_103", 32, 2, 6, 2},
        Case{"sm_110", 24, 1, 6, 2}, Case{"sm_120", 24, 1, 3, 1}, Case{"sm_121", 24, 1, 3, 1}}) {
    EXPECT_EQ(blocks_per_sm(one.architecture, 16, 32, 0, 0), one.blocks) << one.architecture;
    EXPECT_EQ(blocks_per_sm(one.architecture, 32, 1024, 0, 0), one.of_1024_threads) << one.architecture;
    EXPECT_EQ(blocks_per_sm(one.architecture, 32, 128, 0, 32 * 1024), one.with_32_kib) << one.architecture;
    EXPECT_EQ(blocks_per_sm(one.architecture, 32, 128, 0, 90 * 1024), one.with_90_kib) << one.architecture;
  }
  EXPECT_THROW(blocks_per_sm("sm_70", 32, 128, 0, 0), std::invalid_argument);
}

// ---- the compiled kernels ----
std::string cuobjdump() {
  for (const char* path : {TW_CUOBJDUMP, TW_CUOBJDUMP_OF_BUILD})
    if (std::filesystem::exists(path)) return path;
  return {};
}

/// What cuobjdump says of the libraries that were built.
std::string usage_of(const std::string& program, const std::string& library) {
  const std::string command = "'" + program + "' --dump-resource-usage '" + library + "' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 65536> part;
  for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), count);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed:\n" + text.substr(0, 2000));
  return text;
}

TEST(Resources, NoKernelSpillsAndAllBlocksFit) {
  const std::string program = cuobjdump();
  if (program.empty())
    GTEST_SKIP() << "no cuobjdump in the CUDA toolkit; tests/house/take_cuobjdump.sh BUILD downloads it from PyPI";
  for (const std::string library : {TW_CUDA_LIBRARY, TW_CHECKED_KERNELS}) {
    if (library.empty()) continue;  // no further architectures: TRAINWATT_CHECKED_ARCHITECTURES
    const std::vector<KernelUsage> usages = read_usages(usage_of(program, library));
    std::map<std::string, int> instances;
    for (const KernelUsage& usage : usages)
      if (!usage.kernel.empty()) ++instances[usage.architecture];
    for (const auto& [architecture, count] : instances)
      std::printf("%s: %d instances of our own kernels\n", architecture.c_str(), count);
    for (const std::string& fault : resource_faults(usages)) ADD_FAILURE() << fault;
  }
}

}  // namespace
}  // namespace tw
