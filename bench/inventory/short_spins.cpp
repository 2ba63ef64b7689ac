#include "bench/inventory/short_spins.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

namespace tw {
namespace {

// Some tens of microseconds: longer than most waits are where nobody disturbs (without spins, and with 100, a step of small operators takes
// twice as long there), and a moment beside a time slice of another program.
constexpr const char* spins = "1000";

}  // namespace

void restart_with_short_spins(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  // By its name, which is what other programs then call this one; /proc/self/exe would be "exe".
  std::array<char, PATH_MAX> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) <= 0) return;
  if (setenv("GOMP_SPINCOUNT", spins, 1) != 0) return;
  execv(path.data(), argv);
  unsetenv("GOMP_SPINCOUNT");  // the record has what is in force
}

}  // namespace tw
