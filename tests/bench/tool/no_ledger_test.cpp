// `trainwatt models NETWORK --on GPU` of a build without the operators of the networks.
#include <gtest/gtest.h>

#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;

TEST(Ledger, NeedsTheOperators) {
  const Outcome o = run({"models", "gpt2-tiny", "--on", "h200"});
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("error[unsupported]: --on"), std::string::npos) << o.err;
}

}  // namespace
