// Libraries of GPU vendors, opened at run time: programs build and start without them.
#pragma once

#include <dlfcn.h>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tw::power {

/// Why something is unavailable: `reason` as in MeterFinding, `detail` for people.
struct Unavailable {
  std::string reason, detail;
};

/// An open library, or none; closes itself.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary() {
    if (handle_) dlclose(handle_);
  }
  /// The first of the names that is there; false if none is: `why` then has the loader's words on the first.
  bool open(const std::vector<std::string>& names, std::string* why) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return true;
      const char* text = dlerror();
      if (why->empty()) *why = text ? text : name;
    }
    return false;
  }
  /// Null if the library lacks it.
  template <class Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

 private:
  void* handle_ = nullptr;
};

/// The numbers of a library's errors: "NVML error 4".
class ErrorNumbers : public std::error_category {
 public:
  ErrorNumbers(const char* name, std::string words) : name_(name), words_(std::move(words)) {}
  const char* name() const noexcept override { return name_; }
  std::string message(int code) const override { return words_ + " error " + std::to_string(code); }

 private:
  const char* name_;
  std::string words_;
};

}  // namespace tw::power
