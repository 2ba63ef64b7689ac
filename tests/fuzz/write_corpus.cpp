// Writes what a fuzzing engine starts from, one file for each input.
//
//   write_fuzz_corpus FOLDER REPORT…
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/seeds.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: %s FOLDER REPORT…\n", argv[0]), 2;
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const std::string& input : tw::fuzz::seeds({argv + 2, argv + argc}))
    std::ofstream(folder / std::to_string(number++), std::ios::binary) << input;
  std::printf("%zu inputs\n", number);
  return number == 0;
}
