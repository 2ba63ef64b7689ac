// How many threads a rank may be given, and what keeps them fast beside other programs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "bench/terminal/error_line.hpp"
#include "bench/train/node/busy_nodes.hpp"
#include "bench/train/node/device_choice.hpp"

namespace tw {

using namespace bench;

namespace {

/// OMP_NUM_THREADS has this value, until the end of a test.
class NumThreads {
 public:
  explicit NumThreads(const std::string& value) {
    if (const char* text = std::getenv(name)) before_ = text;
    setenv(name, value.c_str(), 1);
  }
  ~NumThreads() {
    if (before_)
      setenv(name, before_->c_str(), 1);
    else
      unsetenv(name);
  }

 private:
  static constexpr const char* name = "OMP_NUM_THREADS";
  std::optional<std::string> before_;
};

TEST(Threads, TheVariableHasTheBoundsOfTheOption) {
  for (const std::string& good : {std::string("1"), std::to_string(most_threads()), std::string("3,2")}) {
    const NumThreads variable(good);
    EXPECT_EQ(threads_requested(Options{}), std::atoi(good.c_str()));
  }
  for (const std::string& bad : {std::string("0"), std::string("-1"), std::string("many"),
                                 std::to_string(most_threads() + 1), std::string("99999999999")}) {
    const NumThreads variable(bad);
    try {
      threads_requested(Options{});
      ADD_FAILURE() << bad << " is accepted";
    } catch (const UsageError& error) {
      EXPECT_EQ(code_of(error.what()), "threads-out-of-range");
      EXPECT_NE(std::string(error.what()).find("OMP_NUM_THREADS=" + bad), std::string::npos);
    }
  }
  const NumThreads variable("1000000");
  Options options;
  options.threads = 2;
  EXPECT_EQ(threads_requested(options), 2) << "the option counts alone";
}

TEST(Threads, TheRemedyBesideOtherProgramsIsACommand) {
  EXPECT_NE(remedy_beside_others("none", 1, 2, "").find("OMP_WAIT_POLICY=passive trainwatt-train"), std::string::npos);
  EXPECT_NE(
      remedy_beside_others("mpirun", 4, 2, "active").find("mpirun -np 4 env OMP_WAIT_POLICY=passive trainwatt-train"),
      std::string::npos);
  EXPECT_NE(remedy_beside_others("srun", 4, 2, "").find("OMP_WAIT_POLICY=passive srun trainwatt-train"),
            std::string::npos);
  EXPECT_EQ(remedy_beside_others("none", 1, 2, "PASSIVE"), "");
  EXPECT_EQ(remedy_beside_others("mpirun", 2, 1, ""), "") << "a thread alone waits for no other";
}

}  // namespace
}  // namespace tw
