// What metering itself costs.
#pragma once

#include <pthread.h>
#include <time.h>

#include <thread>

namespace tw::power {

/// CPU time of one clock of clock_gettime; 0 if it cannot be read.
inline double clock_seconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU time that the calling thread has used.
inline double thread_cpu_seconds() { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

/// CPU time that a running thread has used; 0 if there is none.
inline double cpu_seconds_of(std::jthread& thread) {
  clockid_t clock{};
  return thread.joinable() && pthread_getcpuclockid(thread.native_handle(), &clock) == 0 ? clock_seconds(clock) : 0;
}

}  // namespace tw::power
