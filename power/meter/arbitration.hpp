// Which of all the meters that were found are added to which scope.
#pragma once

#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power {

/// Sets `counted` and `reason` so that no joule stands twice in a scope (power/README.md), whatever sources there are.
/// Sources have told their own sensors apart already; what they left with a reason stays as it is.
///
/// Of each scope one source is counted, as a whole: two sources name the same silicon differently, so that a mixture
/// could count it twice. Exception: GPUs have names of their own (NVML's UUID, an AMD card's PCI address, the same to
/// AMD SMI and to the kernel's sensor) and are one source, of which each GPU's best meter counts. Order of trust: a
/// source none of whose sensors is missing; then counters before integrated power; then as in the table of
/// arbitration.cpp. The others stay open as a cross-check, not counted, "duplicate". A sensor that is unavailable but
/// whose joules are counted elsewhere loses its scope: nothing is missing from the total. An estimate is never counted:
/// "duplicate" beside a counted meter of its scope, else "estimate". What is "not_visible" is nobody's to miss.
void arbitrate(std::vector<MeterFinding>& findings);

}  // namespace tw::power
