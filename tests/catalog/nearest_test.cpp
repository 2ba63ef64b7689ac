#include "models/catalog/nearest.hpp"

#include <gtest/gtest.h>

namespace tw {

using namespace models;

namespace {

const std::vector<std::string> keys = {"micro_batch", "accumulate", "seq_len", "precision", "ranks"};

TEST(Nearest, FindsOneSlip) {
  EXPECT_EQ(nearest("micro_batch", keys), "micro_batch");
  EXPECT_EQ(nearest("micro_bach", keys), "micro_batch");       // left out
  EXPECT_EQ(nearest("micro_bbatch", keys), "micro_batch");     // doubled
  EXPECT_EQ(nearest("mirco_batch", keys), "micro_batch");      // swapped
  EXPECT_EQ(nearest("micro-batch", keys), "micro_batch");      // other character
  EXPECT_EQ(nearest("SEQ_LEN", keys), "seq_len");
  EXPECT_EQ(nearest("rnaks", keys), "ranks");
}

TEST(Nearest, TakesTheCloserOfTwo) {
  EXPECT_EQ(nearest("abcdefgx", {"abcdefxx", "abcdefgh"}), "abcdefxx");  // 1 edit each: the first of equals
  EXPECT_EQ(nearest("abcdefgh", {"abcdefxx", "abcdefgx"}), "abcdefgx");
}

TEST(Nearest, CompletesABeginning) {
  EXPECT_EQ(nearest("acc", keys), "accumulate");
  EXPECT_EQ(nearest("ac", keys), "");
}

TEST(Nearest, SaysNothingWhereNothingIsClose) {
  EXPECT_EQ(nearest("zebra", keys), "");
  EXPECT_EQ(nearest("", keys), "");
  EXPECT_EQ(nearest("a", {"b"}), "");
  EXPECT_EQ(nearest("precision", {}), "");
}

}  // namespace
}  // namespace tw
