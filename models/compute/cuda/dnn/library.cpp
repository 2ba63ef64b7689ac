#include "models/compute/cuda/dnn/library.hpp"

#include <cstdio>

#include "models/compute/error.hpp"

namespace tw::models::cuda::dnn {

std::shared_ptr<const Library> Library::open(std::string* why, const char* name) {
  std::shared_ptr<Library> library(new Library);
  if (!library->open_file(name, "cuDNN 9", ": cuDNN 9 is needed", why)) return nullptr;
#define TW_DNN_FUNCTION(symbol, parameters) \
  if (!library->need(library->symbol, #symbol, why)) return nullptr;
#include "models/compute/cuda/dnn/functions.def"
  if (!library->need(library->get_version_, "cudnnGetVersion", why) ||
      !library->need(library->get_error_string_, "cudnnGetErrorString", why) ||
      !library->need(library->get_last_error_string_, "cudnnGetLastErrorString", why))
    return nullptr;
  return library;
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
  if (is_refusal(status)) throw Refused("cuDNN", status, text(status), expression, file, line);
  const bool no_memory = status == status_no_host_memory || status == status_no_device_memory;
  throw ApiError("cuDNN", status, text(status), expression, file, line,
                 no_memory ? Failure::environment : Failure::internal);
}

void Library::warn(int status, const char* expression, const char* file, int line) const noexcept {
  if (status == status_success) return;
  std::fprintf(stderr, "cuDNN: %s in %s at %s:%d\n", get_error_string_(status), expression, file, line);
}

}  // namespace tw::models::cuda::dnn
