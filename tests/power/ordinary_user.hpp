// What an ordinary user sees, in a test that root runs.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace tw {

/// Runs the enclosed part of a test as the user nobody, where the test runs as root (who may read everything).
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (geteuid() != 0) return;
    if (seteuid(65534) != 0) throw std::runtime_error("seteuid(nobody) failed");
    changed_ = true;
  }
  ~AsOrdinaryUser() {
    if (changed_ && seteuid(0) != 0) std::abort();
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace tw
