// How threads of libgomp wait for each other.
#pragma once

namespace tw {

/// Starts this program again with GOMP_SPINCOUNT, and returns where that is not to be done: where the user has said how threads
/// wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), or where it cannot be (this program's file is gone). Of main, before all else.
///
/// At the end of each parallel region a thread spins until the others are there: by libgomp's default milliseconds, as if
/// they were running. On a machine that other programs use one of them mostly is not, and what it waits for is the very
/// CPU that is spun on. libgomp reads its environment when it is loaded, which is before main.
void restart_with_short_spins(char** argv);

}  // namespace tw
