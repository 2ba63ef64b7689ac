// How counters are watched when they are opened.
#include "power/meter/watch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace tw {

using namespace power;

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST(Watch, ACounterThatIsUpdatedOnceASecondHasMoved) {
  const double phase = now_seconds() + 0.1;  // half a second shows no second change
  const Watched seen = watch({[&] { return static_cast<std::uint64_t>(std::floor(now_seconds() - phase + 100)); }})[0];
  EXPECT_TRUE(seen.moved());
  EXPECT_GT(seen.period_seconds, Patience().usual_seconds);
}

TEST(Watch, EndsEarlyWhereACounterIsFast) {
  std::uint64_t value = 0;
  const Watched seen = watch({[&] { return ++value; }})[0];
  EXPECT_EQ(seen.changes, Patience().enough_changes);
  EXPECT_EQ(seen.values.size(), Patience().enough_changes + 1);
}

TEST(Watch, ThePeriodIsTheLongestThatWasSeen) {
  std::uint64_t polls = 0, value = 0;
  const Watched seen = watch({[&] {
    ++polls;  // by number, as a busy machine may stop a poll for longer than any clock would hold the value
    return polls >= 10 && polls < 260 ? value : ++value;
  }})[0];
  EXPECT_GE(seen.period_seconds, 0.04);
}

TEST(Watch, DoesNotWaitForWhatMayStandStill) {
  std::uint64_t value = 0;
  const std::vector<Watched> seen = watch({[&] { return ++value; }}, {[] { return std::uint64_t{7}; }});
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_FALSE(seen[1].moved());
  EXPECT_EQ(seen[1].last, 7u);
  EXPECT_LE(seen[1].period_seconds, Patience().usual_seconds);
}

TEST(Watch, TimeInWhichTheWatcherStoodDoesNotCount) {
  Patience patience;
  patience.limit_seconds = 0.5;
  std::uint64_t polls = 0;
  const Watched seen = watch({[&] {
                               if (++polls == 2)
                                 std::this_thread::sleep_for(std::chrono::seconds(1));  // as a suspended machine does
                               return polls < 10 ? std::uint64_t{5} : polls;
                             }},
                             {}, patience)[0];
  EXPECT_TRUE(seen.moved());
}

TEST(Watch, ACounterThatStandsStillIsSaidSo) {
  Patience patience;
  patience.limit_seconds = 0.01;
  const Watched seen = watch({[] { return std::uint64_t{5}; }}, {}, patience)[0];
  EXPECT_FALSE(seen.moved());
  EXPECT_GE(seen.period_seconds, 0.01);
  EXPECT_EQ(stood_still("energy", seen).find("energy stayed at 5"), 0u);
  Watched long_seen = seen;
  long_seen.period_seconds = 2.0322;
  EXPECT_EQ(stood_still("energy", long_seen), "energy stayed at 5 for 2.03 s");
}

}  // namespace
}  // namespace tw
