// libnccl.so.2, opened where it is there, so that programs start without it.
#pragma once

#include <memory>
#include <string>

#include "models/compute/vendor_library.hpp"

namespace tw::comm::nccl {

struct Comm;
using Handle = Comm*;      ///< ncclComm_t
using CudaStream = void*;  ///< cudaStream_t
struct UniqueId {
  char internal[128];
};
enum Result : int { success = 0, system_error = 2, remote_error = 6, in_progress = 7 };
enum Type : int { float32 = 7, bfloat16 = 9 };
enum Operation : int { sum = 0, maximum = 2 };

/// The open library; closed with the last one who holds it. All functions are there.
class Library : models::VendorLibrary {
 public:
  static constexpr const char* default_name = "libnccl.so.2";
  /// Null if the library is not there or lacks a function; `why` then says so.
  static std::shared_ptr<const Library> open(std::string* why, const char* name = default_name);

#define TW_NCCL(name, parameters) int(*name) parameters = nullptr;
#include "comm/nccl/functions.def"

  std::string version() const;         ///< "2.28.9"
  std::string text(int result) const;  ///< what the error means, and the library's last words on it

 private:
  Library() = default;
  const char* (*error_string_)(int) = nullptr;
  const char* (*last_error_)(Handle) = nullptr;  // since 2.13
};

}  // namespace tw::comm::nccl
