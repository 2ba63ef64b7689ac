// Writer of safetensors files: 8 bytes of little-endian header length, a JSON header {"name": {"dtype", "shape",
// "data_offsets"}}, then the data (https://huggingface.co/docs/safetensors).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::models {

/// One tensor of the file: float32, int64 or uint8, row-major. `load` yields its values when their turn to be written
/// comes, so that only one tensor at a time is in host memory.
struct SafeTensor {
  enum class Type { float32, int64, uint8 } type = Type::float32;
  std::string name;
  std::vector<std::int64_t> dims;
  std::function<std::vector<char>()> load;
};

/// Writes beside `path` and renames, so that a reader sees all of it or nothing. Throws Error{environment} with the
/// path and the system's reason; nothing is left behind then.
void write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors);
/// The same manners for a text file.
void write_text(const std::string& path, std::string_view text);

}  // namespace tw::models
