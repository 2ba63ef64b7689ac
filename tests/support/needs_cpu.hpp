// Tests that compute on the cpu device skip in builds without it (-DTRAINWATT_CPU=OFF, or no oneDNN), first of all.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "models/compute/registry.hpp"

namespace tw::test {

/// Empty where there is a cpu device.
inline std::string why_no_cpu() {
  return models::count_cpu_devices() > 0 ? "" : "no cpu device: " + models::why_no_cpu_device();
}

}  // namespace tw::test

#define TW_NEEDS_CPU() \
  if (const std::string why = ::tw::test::why_no_cpu(); !why.empty()) GTEST_SKIP() << why
