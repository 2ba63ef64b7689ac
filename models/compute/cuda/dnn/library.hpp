// libcudnn.so.9, opened where it is there, so that programs build and start without it. Private to models/compute/cuda.
#pragma once

#include <memory>
#include <string>

#include "models/compute/cuda/dnn/abi.hpp"
#include "models/compute/vendor_library.hpp"

namespace tw::models::cuda::dnn {

/// The statuses that mean "not by this engine".
constexpr bool is_refusal(int status) {
  return (status >= status_not_supported && status < status_not_supported + 1000) || status == status_not_compiled;
}

/// Such as the number of an engine or a setting that another version of the library has.
constexpr bool is_bad_parameter(int status) { return status >= 2000 && status < 3000; }

/// The open library; closed with the last one who holds it. All functions are there.
class Library : VendorLibrary {
 public:
  static constexpr const char* default_name = "libcudnn.so.9";
  /// Null where the library is not there or lacks a function; `why` then says so.
  static std::shared_ptr<const Library> open(std::string* why, const char* name = default_name);

#define TW_DNN_FUNCTION(name, parameters) int(*name) parameters = nullptr;
#include "models/compute/cuda/dnn/functions.def"

  /// 91900 is 9.19.0.
  std::size_t version() const { return get_version_(); }
  std::string version_text() const;
  /// What the status means, and the library's last words on it.
  std::string text(int status) const;
  /// Throws where status is not success: Refused where another engine may do it, else ApiError.
  void check(int status, const char* expression, const char* file, int line) const;
  /// Its twin for destructors: one line on stderr, never throws.
  void warn(int status, const char* expression, const char* file, int line) const noexcept;

 private:
  Library() = default;
  std::size_t (*get_version_)() = nullptr;
  const char* (*get_error_string_)(int) = nullptr;
  void (*get_last_error_string_)(char*, std::size_t) = nullptr;
};

}  // namespace tw::models::cuda::dnn

/// `library` is a pointer to the Library; throws ApiError.
#define TW_DNN(library, call) (library)->check((library)->call, #call, __FILE__, __LINE__)
#define TW_DNN_NOTHROW(library, call) (library)->warn((library)->call, #call, __FILE__, __LINE__)
