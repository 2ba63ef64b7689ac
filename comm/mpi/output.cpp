#include "comm/mpi/output.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

namespace tw::comm::mpi {

bool wait_until_read(int descriptor, std::chrono::milliseconds at_most) noexcept {
  struct stat about = {};
  if (fstat(descriptor, &about) != 0 || !S_ISFIFO(about.st_mode)) return true;
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (true) {
    int unread = 0;
    if (ioctl(descriptor, FIONREAD, &unread) != 0 || unread == 0) return true;
    pollfd writer = {descriptor, POLLOUT, 0};
    if (poll(&writer, 1, 0) == 1 && (writer.revents & POLLERR) != 0) return true;  // the reading end is closed
    if (std::chrono::steady_clock::now() >= end) return false;
    constexpr timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace tw::comm::mpi
