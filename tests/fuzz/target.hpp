// The target function of the fuzzers, and what its first byte may be.
#pragma once

#include <cstddef>
#include <string>

namespace tw::fuzz {

enum Kind : char {
  report = 'r',     ///< report.json, shown, exported, and held against another
  validated = 'v',  ///< report.json, validated
  lines = 'l',      ///< records.jsonl
  start = 's',      ///< run.json
  plan = 'k',       ///< a config or a kit
  node = 'n',       ///< what `probe --json` writes
  prices = 'p',     ///< a file of --prices
  rules = 'e',      ///< a file of --baseline
  weights = 'w',    ///< a file of --weights
  bundled = 'b',    ///< a report inside a bundle, its neighbours too
  packed = 'z',     ///< an archive
  tar = 't',        ///< the same before it is compressed
};

void read_one(char kind, const std::string& text);

}  // namespace tw::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);
