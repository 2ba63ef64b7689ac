// What a fuzzer starts from: good files of every kind.
#pragma once

#include <string>
#include <vector>

namespace tw::fuzz {

/// Inputs of LLVMFuzzerTestOneInput. `files`: reports, good ones.
std::vector<std::string> seeds(const std::vector<std::string>& files);

}  // namespace tw::fuzz
