// Crashes that end: a library's handler of SIGSEGV may wait forever, and the run's settings with it.
#pragma once

namespace tw::bench {

/// Bounds the handlers of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT that MPI's libraries and UCX have installed so
/// far: each still runs, but 10 s later the signal ends the process as if there were none. To be called after MPI_Init.
/// Other handlers are left alone, and all where UCX_HANDLE_ERRORS asks to wait for a debugger (freeze, debug).
///
/// Reason: UCX (ucs_debug_init; UCX_HANDLE_ERRORS) and Open MPI (opal_signal) print a backtrace, which allocates memory
/// and takes locks. Where the fault came while the process held one of them, the handler never returns; the guardian,
/// which restores the settings once the process has ended, would wait as long.
void bound_crash_handlers();

}  // namespace tw::bench
