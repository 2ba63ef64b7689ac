// Whether a test that finds no GPU fails or is skipped.
#pragma once

#include <cstdlib>
#include <cstring>

namespace tw::test {

/// TRAINWATT_REQUIRE_GPU=1 turns an absent GPU into a failure.
inline bool gpu_is_required() {
  const char* said = std::getenv("TRAINWATT_REQUIRE_GPU");
  return said != nullptr && std::strcmp(said, "1") == 0;
}

}  // namespace tw::test

/// In SetUp(): ends the test, as a failure where a GPU is required.
#define TW_SKIP_WITHOUT_GPU(why)                                                            \
  do {                                                                                      \
    const std::string text = (why);                                                         \
    ASSERT_FALSE(::tw::test::gpu_is_required()) << "TRAINWATT_REQUIRE_GPU=1, but " << text; \
    GTEST_SKIP() << text;                                                                   \
  } while (false)
