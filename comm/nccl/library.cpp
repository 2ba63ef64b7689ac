#include "comm/nccl/library.hpp"

#include <dlfcn.h>

#include "models/compute/vendor_library.hpp"

namespace tw::comm::nccl {

std::shared_ptr<const Library> Library::open(std::string* why, const char* name) {
  std::shared_ptr<Library> library(new Library);
  library->handle_ = models::open_vendor_library(name, "NCCL", why);
  if (!library->handle_) return nullptr;
  const std::string oldest = "2.10";  // the first that has bf16
#define TW_NCCL(symbol, parameters)                                                                \
  library->symbol = reinterpret_cast<decltype(library->symbol)>(dlsym(library->handle_, #symbol)); \
  if (!library->symbol) {                                                                          \
    *why = std::string(name) + " has no symbol " #symbol ": NCCL " + oldest + " or later is needed";          \
    return nullptr;                                                                                \
  }
#include "comm/nccl/functions.def"
#undef TW_NCCL
  if (int code = 0; library->ncclGetVersion(&code) == success && code < 21000) {
    *why = std::string(name) + " is NCCL " + library->version() + ": " + oldest + " or later is needed";
    return nullptr;
  }
  library->error_string_ =
      reinterpret_cast<decltype(library->error_string_)>(dlsym(library->handle_, "ncclGetErrorString"));
  library->last_error_ = reinterpret_cast<decltype(library->last_error_)>(dlsym(library->handle_, "ncclGetLastError"));
  return library;
}

Library::~Library() {
  if (handle_) dlclose(handle_);
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
