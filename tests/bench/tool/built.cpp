#include "tests/bench/tool/built.hpp"

namespace tw::built {

const char* const trainwatt = TRAINWATT_TOOL;
const char* const nvml_folder = TRAINWATT_NVML;

}  // namespace tw::built
