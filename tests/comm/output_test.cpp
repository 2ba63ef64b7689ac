#include "comm/mpi/output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

namespace tw::comm::mpi {
namespace {

using namespace std::chrono_literals;

class Output : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  void TearDown() override {
    close_reader();
    close(ends_[1]);
  }
  void close_reader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  void write_text(const std::string& text) {
    ASSERT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

TEST_F(Output, WaitsForTheReader) {
  const std::string text(5000, 'x');
  write_text(text);
  std::thread slow([this, &text] {
    std::this_thread::sleep_for(50ms);
    std::array<char, 1000> part = {};
    for (std::size_t taken = 0; taken < text.size(); std::this_thread::sleep_for(10ms)) {
      const ssize_t got = read(reader(), part.data(), part.size());
      if (got <= 0) break;
      taken += static_cast<std::size_t>(got);
    }
  });
  EXPECT_TRUE(wait_until_read(writer(), 1min));
  ASSERT_EQ(fcntl(reader(), F_SETFL, O_NONBLOCK), 0);
  char left = 0;
  EXPECT_EQ(read(reader(), &left, 1), -1) << "bytes are left in the pipe";
  slow.join();
}

TEST_F(Output, GivesUpOnAReaderThatStandsStill) {
  write_text("never read");
  EXPECT_FALSE(wait_until_read(writer(), 20ms));
}

TEST_F(Output, WaitsForNobody) {
  EXPECT_TRUE(wait_until_read(writer(), 1min)) << "nothing was written";
  write_text("lost");
  close_reader();
  EXPECT_TRUE(wait_until_read(writer(), 1min)) << "nobody reads";
  EXPECT_TRUE(wait_until_read(-1, 1min)) << "closed";
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(null, 0);
  EXPECT_TRUE(wait_until_read(null, 1min)) << "not a pipe";
  close(null);
}

}  // namespace
}  // namespace tw::comm::mpi
