// libamd_smi.so, opened where it is there: its functions, its GPUs, what its errors mean.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "power/sources/amdsmi/abi.hpp"
#include "power/sources/shared_library.hpp"

namespace tw::power::amdsmi {

/// The open library, initialised for GPUs; closed with the last one who holds it. A function that this version of the
/// library lacks is null.
class Library {
 public:
  /// Null if the library or its driver is not there; `why` then says why. Tries the names in their order.
  static std::shared_ptr<const Library> open(Unavailable* why, const std::vector<std::string>& names = {
                                                                   "libamd_smi.so", "/opt/rocm/lib/libamd_smi.so"});
  ~Library();

#define TW_AMDSMI(name, parameters) int(*name) parameters = nullptr;
#include "power/sources/amdsmi/functions.def"

  /// What an error of `function` means for a finding.
  Unavailable explain(int code, const char* function) const;
  /// Throws std::system_error if something that once answered fails.
  [[noreturn]] void fail(int code, const char* function, const std::string& domain) const;

 private:
  Library() = default;
  std::string text(int code) const;
  SharedLibrary file_;
  bool initialised_ = false;
};

/// Calls a function of the table; symbol_missing where this library lacks it.
template <typename Function, typename... Arguments>
int call(Function* function, Arguments... arguments) {
  return function ? function(arguments...) : static_cast<int>(symbol_missing);
}

/// One GPU as the library lists it: a card, or a partition of one.
struct Device {
  Handle handle = nullptr;
  Address address;
  std::string uuid;   ///< may be empty
  Unavailable error;  ///< where it cannot be asked
  /// Of the card, whatever function or partition of it this is: "0000:c1:00.0", as in /sys/bus/pci/devices.
  std::string card() const;
  bool is_partition() const { return address.function != 0 || address.partition != 0; }
  std::string domain() const;  ///< "amdsmi:0000:c1:00.0"; of a partition with its number behind
};

/// All GPUs in the driver's order. An error of the list is a single entry without a handle.
std::vector<Device> find_devices(const Library& library);

}  // namespace tw::power::amdsmi
