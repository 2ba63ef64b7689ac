// Libraries of a GPU's maker, opened at run time, so that programs build and start without them.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tw::models {

/// The handle of `name`, from the loader's folders, else from `folder`, where NVIDIA's installer puts what the loader
/// may not be told of. Null where it is in neither; `why` then says where was looked, and what to do. It stays loaded:
/// threads of its own may outlive the last one who uses it.
inline void* open_vendor_library(const std::string& name, const std::string& product, std::string* why,
                                 const std::string& folder = "/usr/local/cuda/lib64") {
  std::string looked;
  for (const std::string& place : {name, folder + "/" + name}) {
    if (void* const handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return handle;
    const char* const text = dlerror();
    looked += (text != nullptr ? text : place) + std::string("; ");
  }
  *why = looked + "install " + product + ", or put its folder into LD_LIBRARY_PATH";
  return nullptr;
}

/// What the tables of such a library's functions have in common: the open file, which is closed with its owner.
class VendorLibrary {
 public:
  VendorLibrary(const VendorLibrary&) = delete;
  VendorLibrary& operator=(const VendorLibrary&) = delete;

 protected:
  VendorLibrary() = default;
  ~VendorLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  /// As open_vendor_library(); `needed` is appended to the name of a missing symbol: ": cuDNN 9 is needed".
  bool open_file(const std::string& name, const std::string& product, const std::string& needed, std::string* why) {
    name_ = name, needed_ = needed;
    handle_ = open_vendor_library(name, product, why);
    return handle_ != nullptr;
  }
  /// Null where the library lacks the symbol.
  template <class Function>
  bool find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    return function != nullptr;
  }
  /// False where the library lacks it; `why` then says so.
  template <class Function>
  bool need(Function& function, const char* symbol, std::string* why) const {
    if (find(function, symbol)) return true;
    *why = name_ + " has no symbol " + symbol + needed_;
    return false;
  }

 private:
  std::string name_, needed_;
  void* handle_ = nullptr;
};

}  // namespace tw::models
