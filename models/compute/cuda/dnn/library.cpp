#include "models/compute/cuda/dnn/library.hpp"

#include <dlfcn.h>

#include <cstdio>

#include "models/compute/error.hpp"
#include "models/compute/vendor_library.hpp"

namespace tw::models::cuda::dnn {

std::shared_ptr<const Library> Library::open(std::string* why, const char* name) {
  std::shared_ptr<Library> library(new Library);
  library->handle_ = open_vendor_library(name, "cuDNN 9", why);
  if (!library->handle_) return nullptr;
  const auto find = [&](const char* symbol) {
    void* address = dlsym(library->handle_, symbol);
    if (!address) *why = std::string(name) + " has no symbol " + symbol + ": cuDNN 9 is needed";
    return address;
  };
#define TW_DNN_FUNCTION(symbol, parameters)                                     \
  library->symbol = reinterpret_cast<decltype(library->symbol)>(find(#symbol)); \
  if (!library->symbol) return nullptr;
#include "models/compute/cuda/dnn/functions.def"
#undef TW_DNN_FUNCTION
#define TW_DNN_TEXT(member, symbol)                                             \
  library->member = reinterpret_cast<decltype(library->member)>(find(#symbol)); \
  if (!library->member) return nullptr;
  TW_DNN_TEXT(get_version_, cudnnGetVersion)
  TW_DNN_TEXT(get_error_string_, cudnnGetErrorString)
  TW_DNN_TEXT(get_last_error_string_, cudnnGetLastErrorString)
#undef TW_DNN_TEXT
  return library;
}

Library::~Library() {
  if (handle_) dlclose(handle_);
}

std::string Library::version_text() const {
  const std::size_t code = version();
  return std::to_string(code / 10000) + "." + std::to_string(code % 10000 / 100) + "." + std::to_string(code % 100);
}

std::string Library::text(int status) const {
  const char* words = get_error_string_(status);
  std::string text = words ? words : "error";
  char last[1024] = "";
  get_last_error_string_(last, sizeof last);
  if (last[0]) text += std::string(": ") + last;
  return text;
}

void Library::check(int status, const char* expression, const char* file, int line) const {
  if (status == status_success) return;
  const bool no_memory = status == status_no_host_memory || status == status_no_device_memory;
  throw ApiError("cuDNN", status, text(status), expression, file, line,
                 no_memory ? Failure::environment : Failure::internal);
}

void Library::warn(int status, const char* expression, const char* file, int line) const noexcept {
  if (status == status_success) return;
  std::fprintf(stderr, "cuDNN: %s in %s at %s:%d\n", get_error_string_(status), expression, file, line);
}

}  // namespace tw::models::cuda::dnn
