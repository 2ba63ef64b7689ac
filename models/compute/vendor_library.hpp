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

}  // namespace tw::models
