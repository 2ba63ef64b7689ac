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
const std::string code_begin =
    "\nFatbin elf code:\n================\narch = sm_90\ncode version = [1,8]\n\nResource usage:\n";

/// A clean report of all kernels; `changed` takes the place of its kernel's.
std::string report(const std::string& changed_kernel = "", const std::string& changed = "") {
  std::string text = code_begin + " Common:\n  GLOBAL:0\n";
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
  EXPECT_EQ(faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 64, 8))),
            "norm_backward_kernel<float, 4>: 8 bytes of local memory for each thread (spilled registers, or an array "
            "with a computed index)\n");
  EXPECT_NE(
      faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 64, 0, 1024, 16))).find("16 bytes"),
      std::string::npos);
}

TEST(Resources, FewerBlocksThanAssumedAreAFault) {
  EXPECT_EQ(faults_of(report("batch_norm_sums_kernel", reported("batch_norm_sums_kernel", 65, 0))),
            "batch_norm_sums_kernel<float, 4>: 3 blocks of 256 threads fit on an SM with 65 registers; its launch "
            "assumes 4\n");
  EXPECT_NE(faults_of(report("norm_backward_kernel", reported("norm_backward_kernel", 65, 0))).find("0 blocks of 1024"),
            std::string::npos);
  // 40 KiB of shared memory of its own beside 24 KiB of the launch, which asks for no more than the 48 KiB of both.
  const std::string large = reported("batch_norm_sums_kernel", 32, 0, 41 * 1024);
  EXPECT_NE(faults_of(report("batch_norm_sums_kernel", large)).find(": 0 blocks"), std::string::npos);
}

TEST(Resources, TableAndCodeHaveTheSameKernels) {
  EXPECT_EQ(faults_of(report() + reported("stray_kernel", 32, 0)),
            "stray_kernel<float, 4>: has no row in kernels/occupancy.def\n");
  EXPECT_EQ(faults_of(report("rotary_kernel", "")), "rotary_kernel: has a row, but no code\n");
}

TEST(Resources, OtherCodeIsNotHeld) {
  const std::string of_cub = " Function _ZN3cub6detail11EmptyKernelIvEEvv:\n  REG:255 STACK:99 SHARED:0 LOCAL:0\n";
  EXPECT_EQ(faults_of(report() + of_cub), "");
  EXPECT_EQ(faults_of(report() + "arch = sm_120\n" + reported("rotary_kernel", 255, 8)), "");
  EXPECT_EQ(faults_of("arch = sm_120\n" + reported("rotary_kernel", 32, 0)),
            "no kernel of tw::models::cuda for sm_90\n");
  EXPECT_EQ(faults_of(""), "no kernel of tw::models::cuda for sm_90\n");
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
  EXPECT_EQ(blocks_per_sm(64, 256, 1024, 0), 4);   // 2048 a warp: 8 warps a quarter
  EXPECT_EQ(blocks_per_sm(65, 256, 1024, 0), 3);   // 2304: 7
  EXPECT_EQ(blocks_per_sm(128, 128, 1024, 0), 4);  // 4096: 4
  EXPECT_EQ(blocks_per_sm(133, 128, 1024, 0), 3);  // 4352: 3
  EXPECT_EQ(blocks_per_sm(32, 1024, 1024, 0), 2);  // 2048 threads
  EXPECT_EQ(blocks_per_sm(64, 1024, 1024, 0), 1);
  EXPECT_EQ(blocks_per_sm(65, 1024, 1024, 0), 0);
  EXPECT_EQ(blocks_per_sm(16, 32, 0, 0), 32);          // blocks of an SM
  EXPECT_EQ(blocks_per_sm(16, 32, 0, 48 * 1024), 4);   // 49 KiB of 228
  EXPECT_EQ(blocks_per_sm(16, 32, 0, 64 * 1024), 3);   // 65 KiB, for which launch() asks
  EXPECT_EQ(blocks_per_sm(16, 32, 0, 228 * 1024), 0);  // one less is there
  EXPECT_EQ(blocks_per_sm(16, 32, 9 * 1024, 0), 25);   // 9 KiB of 228, the reserved one among them
}

// ---- the compiled kernels ----
std::string cuobjdump() {
  for (const char* path : {TW_CUOBJDUMP, TW_CUOBJDUMP_OF_BUILD})
    if (std::filesystem::exists(path)) return path;
  return {};
}

TEST(Resources, NoKernelSpillsAndAllBlocksFit) {
  const std::string program = cuobjdump();
  if (program.empty())
    GTEST_SKIP() << "no cuobjdump in the CUDA toolkit; tests/house/take_cuobjdump.sh BUILD downloads it from PyPI";
  const std::string command = "'" + program + "' --dump-resource-usage '" TW_CUDA_LIBRARY "' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr) << command;
  std::string text;
  std::array<char, 65536> part;
  for (std::size_t count; (count = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), count);
  ASSERT_EQ(pclose(pipe), 0) << command << "\n" << text.substr(0, 2000);

  const std::vector<KernelUsage> usages = read_usages(text);
  std::map<std::string, int> instances;
  for (const KernelUsage& usage : usages)
    if (!usage.kernel.empty()) ++instances[usage.architecture];
  for (const auto& [architecture, count] : instances)
    std::printf("%s: %d instances of our own kernels%s\n", architecture.c_str(), count,
                architecture == "sm_90" ? "" : ", not checked: the launches assume an H100 or H200");
  if (!instances.empty() && !instances.contains("sm_90")) GTEST_SKIP() << "no code for sm_90 in this build";
  for (const std::string& fault : resource_faults(usages)) ADD_FAILURE() << fault;
}

}  // namespace
}  // namespace tw
