// Which points have ended the job that measured them, as the launch after reads it.
#include "bench/train/sweep/in_flight.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "bench/train/job/interruption.hpp"

namespace tw {

using namespace bench;

namespace {

namespace fs = std::filesystem;

class InFlightTest : public testing::Test {
 protected:
  InFlightTest() {
    fs::create_directories(folder_);
    install_signal_handlers();
  }
  ~InFlightTest() override {
    set_interruption(false);
    fs::remove_all(folder_);
  }
  /// A launch that begins the point, and what then happens to it before the process is gone.
  template <class What>
  void launch(const std::string& id, What&& what) {
    InFlight account(folder_);
    account.begin(id);
    what(account);
  }
  std::string why_not(const std::string& id) const { return InFlight(folder_).why_not(id); }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("trainwatt-in-flight-" + std::to_string(getpid()));
};

TEST_F(InFlightTest, APointThatEndedTwoJobsIsNotBegunAgain) {
  launch("a", [](InFlight&) {});
  EXPECT_EQ(why_not("a"), "") << "once may be a lost node's fault";
  launch("a", [](InFlight&) {});
  EXPECT_EQ(why_not("a").rfind("ended the job twice: no rank reported a cause", 0), 0u) << why_not("a");
  EXPECT_EQ(why_not("b"), "");
}

TEST_F(InFlightTest, ItSaysWhatARankSaidLast) {
  for (const char* words : {"rank 1 on n2: out of memory", "rank 0 on n1: \"illegal\"\naddress \xff"})
    launch("a", [&](InFlight&) { InFlight::tell(folder_, "a", words); });
  std::ofstream(folder_ / in_flight_file, std::ios::app) << "{\"failed\":\"a\",\"wh";  // as a kill leaves it
  EXPECT_EQ(why_not("a").rfind("ended the job twice: rank 0 on n1: \"illegal\"\naddress ", 0), 0u) << why_not("a");
  InFlight::tell(folder_ / "not there", "a", "nobody hears this");
}

TEST_F(InFlightTest, WhoLeavesTogetherOrByASignalHasNotEndedAJob) {
  for (int i = 0; i < 3; ++i) {
    launch("a", [](InFlight& account) { account.leave(); });
    launch("a", [](InFlight&) {
      raise(SIGUSR1);  // and then a launcher kills
      raise(SIGTERM);
      set_interruption(false);
    });
  }
  launch("a", [](InFlight&) {});
  EXPECT_EQ(why_not("a"), "");
  launch("a", [](InFlight&) {});
  EXPECT_NE(why_not("a"), "");
}

TEST_F(InFlightTest, ALauncherThatEndsTheOthersOfALostRankIsNoUsersSignal) {
  for (int i = 0; i < 2; ++i) {
    launch("a", [](InFlight&) { raise(SIGTERM); });
    set_interruption(false);
  }
  EXPECT_NE(why_not("a"), "");
}

TEST_F(InFlightTest, AFinishedPointLeavesNothing) {
  launch("a", [](InFlight&) {});
  launch("a", [](InFlight& account) { account.end(); });
  EXPECT_TRUE(fs::is_empty(folder_));
  raise(SIGUSR1);
  EXPECT_TRUE(fs::is_empty(folder_)) << "no point is in flight";
  launch("a", [](InFlight&) {});
  EXPECT_EQ(why_not("a"), "");
}

TEST_F(InFlightTest, AFolderThatCannotBeWrittenIsAnError) {
  InFlight account(folder_ / "not there");
  EXPECT_THROW(account.begin("a"), std::system_error);
}

}  // namespace
}  // namespace tw
