#include "comm/nccl/library.hpp"

namespace tw::comm::nccl {

std::shared_ptr<const Library> Library::open(std::string* why, const char* name) {
  std::shared_ptr<Library> library(new Library);
  const std::string needed = "2.10 or later is needed";  // the first that has bf16
  if (!library->open_file(name, "NCCL", ": NCCL " + needed, why)) return nullptr;
#define TW_NCCL(symbol, parameters) \
  if (!library->need(library->symbol, #symbol, why)) return nullptr;
#include "comm/nccl/functions.def"
  if (int code = 0; library->ncclGetVersion(&code) == success && code < 21000) {
    *why = std::string(name) + " is NCCL " + library->version() + ": " + needed;
    return nullptr;
  }
  library->find(library->error_string_, "ncclGetErrorString");
  library->find(library->last_error_, "ncclGetLastError");
  return library;
}

std::string Library::version() const {
  int code = 0;
  if (ncclGetVersion(&code) != success) return "?";
  // 2.28.9 is 22809; before 2.9 it was 2708 for 2.7.8.
  const int major = code >= 10000 ? code / 10000 : code / 1000, rest = code >= 10000 ? code % 10000 : code % 1000;
  return std::to_string(major) + "." + std::to_string(rest / 100) + "." + std::to_string(rest % 100);
}

std::string Library::text(int result) const {
  const char* words = error_string_ ? error_string_(result) : nullptr;
  std::string text = words ? words : "error";
  const char* last = last_error_ ? last_error_(nullptr) : nullptr;
  if (last && *last) text += std::string(": ") + last;
  return text;
}

}  // namespace tw::comm::nccl
