#include "models/export/safetensors.hpp"

#include <bit>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "models/compute/error.hpp"

namespace tw::models {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// A file under a temporary name, renamed by commit(), removed otherwise.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path) : path_(path), temporary_(path + ".partial") {
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail("create");
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!committed_) std::remove(temporary_.c_str());
  }
  void write(const void* data, std::size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
  }
  void commit() {
    std::FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) fail("write");
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename to");
    committed_ = true;
  }

 private:
  [[noreturn]] void fail(const char* what) {
    throw Error(Failure::environment, "cannot " + std::string(what) + " " + path_ + ": " +
                                          std::generic_category().message(errno) +
                                          "; choose a folder that exists, is writable and has room");
  }
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  bool committed_ = false;
};

struct Format {
  const char* name;
  std::uint64_t bytes;
};
Format format_of(SafeTensor::Type type) {
  switch (type) {
    case SafeTensor::Type::float32:
      return {"F32", 4};
    case SafeTensor::Type::int64:
      return {"I64", 8};
    case SafeTensor::Type::uint8:
      return {"U8", 1};
  }
  throw Error(Failure::internal, "a tensor of an unknown type");
}

std::uint64_t bytes_of(const SafeTensor& tensor) {
  std::uint64_t bytes = format_of(tensor.type).bytes;
  for (const std::int64_t extent : tensor.dims) bytes *= static_cast<std::uint64_t>(extent);
  return bytes;
}

std::string header_of(const std::vector<SafeTensor>& tensors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const SafeTensor& tensor : tensors) {
    const std::uint64_t begin = offset;
    offset += bytes_of(tensor);
    json[tensor.name] = {{"dtype", format_of(tensor.type).name},
                         {"shape", tensor.dims},
                         {"data_offsets", std::vector<std::uint64_t>{begin, offset}}};
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data start aligned
  return header;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors) {
  AtomicFile file(path);
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (const SafeTensor& tensor : tensors) {
    const std::vector<char> data = tensor.load();
    if (data.size() != bytes_of(tensor)) {
      throw Error(Failure::internal, "tensor " + tensor.name + " has " + std::to_string(data.size()) + " bytes, not " +
                                         std::to_string(bytes_of(tensor)));
    }
    file.write(data.data(), data.size());
  }
  file.commit();
}

void write_text(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace tw::models
