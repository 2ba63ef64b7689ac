// Where this build has put what the tests of the tool run.
#pragma once

namespace tw::built {

/// The program `trainwatt`.
extern const char* const trainwatt;
/// The folder of the stand-in driver (tests/support/nvml); empty where it is not built.
extern const char* const nvml_folder;

}  // namespace tw::built
