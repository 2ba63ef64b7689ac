#include "comm/bucketer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "comm/registry.hpp"
#include "models/compute/error.hpp"
#include "models/compute/reference/reference.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace comm;
using namespace models;

namespace {

/// Notes what it is asked to reduce, and doubles it.
class Recorder : public Communicator {
 public:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // begin, count
  float* base = nullptr;
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string name() const override { return "recorder"; }
  std::string route() const override { return "nowhere"; }
  void all_reduce(Stream&, Tensor values, Reduction reduction) override {
    EXPECT_EQ(reduction, Reduction::sum);
    ranges.emplace_back(values.as<float>() - base, values.count());
    for (std::int64_t i = 0; i < values.count(); ++i) values.as<float>()[i] *= 2;
  }
  void reduce_scatter(Stream&, Tensor, Tensor, Reduction) override {}
  void all_gather(Stream&, Tensor, Tensor) override {}
  void broadcast(Stream&, Tensor, int) override {}
  void all_to_all(Stream&, Tensor, Tensor) override {}
  void send(Stream&, Tensor, int) override {}
  void receive(Stream&, Tensor, int) override {}
  void barrier(Stream&) override {}
};
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

class BucketerTest : public testing::Test {
 protected:
  static constexpr std::int64_t count = 1000;
  BucketerTest() : values(count, 0) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    recorder.base = values.data();
  }
  void expect_doubled() {
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) wrong += values[i] != static_cast<float>(2 * i);
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(values.intact());
  }
  Guarded<float> values;
  Recorder recorder;
  HostStream stream;
};

TEST_F(BucketerTest, ReducesEverythingOnceAtFinish) {
  Bucketer bucketer(recorder, host_device(), 300 * 4);
  for (std::int64_t begin = 0; begin < count; begin += 100) bucketer.ready(stream, values.tensor(), begin, begin + 100);
  EXPECT_TRUE(recorder.ranges.empty());
  bucketer.finish(stream, values.tensor());
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 300}, {300, 300}, {600, 300}, {900, 100}}));
  expect_doubled();
}

TEST_F(BucketerTest, StartsFullBucketsDuringBackward) {
  Bucketer bucketer(recorder, host_device(), 250 * 4, Bucketer::Start::when_full);
  bucketer.ready(stream, values.tensor(), 0, 249);
  EXPECT_TRUE(recorder.ranges.empty());
  bucketer.ready(stream, values.tensor(), 249, 260);
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 260}}));
  bucketer.ready(stream, values.tensor(), 260, 800);
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 260}, {260, 540}}));
  bucketer.ready(stream, values.tensor(), 800, 1000);
  bucketer.finish(stream, values.tensor());
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 260}, {260, 540}, {800, 200}}));
  expect_doubled();
}

TEST_F(BucketerTest, ReducesATailThatWasNeverAnnounced) {
  Bucketer bucketer(recorder, host_device(), 40 * 4, Bucketer::Start::when_full);
  bucketer.ready(stream, values.tensor(), 0, 70);
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 70}}));
  bucketer.finish(stream, values.tensor());
  expect_doubled();
}

TEST_F(BucketerTest, RefusesRangesThatSkipOrOverlap) {
  Bucketer bucketer(recorder, host_device());
  const Tensor flat = values.tensor();
  EXPECT_THROW(bucketer.ready(stream, flat, 32, 64), Error);  // does not begin at the beginning
  bucketer.ready(stream, flat, 0, 32);
  EXPECT_THROW(bucketer.ready(stream, flat, 31, 64), Error);         // overlaps
  EXPECT_THROW(bucketer.ready(stream, flat, 0, 32), Error);          // twice
  EXPECT_THROW(bucketer.ready(stream, flat, 33, 64), Error);         // skips
  EXPECT_THROW(bucketer.ready(stream, flat, 32, 31), Error);         // backwards
  EXPECT_THROW(bucketer.ready(stream, flat, 32, count + 1), Error);  // past the end
  EXPECT_THROW(bucketer.ready(stream, Tensor{flat.as<float>() + 1, DType::float32, {999}}, 32, 33), Error);
  EXPECT_THROW(bucketer.ready(stream, Tensor{flat.data, DType::bf16, {1000}}, 32, 33), Error);
  EXPECT_NO_THROW(bucketer.ready(stream, flat, 32, 33));
  EXPECT_THROW(Bucketer(recorder, host_device(), 3), Error);
}

TEST_F(BucketerTest, BeginsAnewAfterFinish) {
  Bucketer bucketer(recorder, host_device());
  for (int step = 0; step < 3; ++step) {
    bucketer.ready(stream, values.tensor(), 0, 1000);
    bucketer.finish(stream, values.tensor());
  }
  EXPECT_EQ(recorder.ranges, (Ranges{{0, 1000}, {0, 1000}, {0, 1000}}));
}

/// A communicator with a stream of its own, and its device; streams and events write down in which order they are used.
struct SideRecorder : Recorder, reference::ReferenceDevice {
  SideRecorder() : ReferenceDevice(1) {}
  struct Named : Stream {
    Named(SideRecorder& owner, std::string what) : recorder(owner), name(std::move(what)) {}
    void synchronize() override { recorder.log.push_back("the host waits for " + name); }
    void wait(Event& event) override { recorder.log.push_back(name + " waits for " + static_cast<Mark&>(event).name); }
    SideRecorder& recorder;
    std::string name;
  };
  struct Mark : Event {
    Mark(SideRecorder& owner, std::string what) : recorder(owner), name(std::move(what)) {}
    void record(Stream& stream) override {
      recorder.log.push_back(static_cast<Named&>(stream).name + " marks " + name);
    }
    void synchronize() override {}
    bool is_done() override { return true; }
    double seconds_since(Event&) override { return 0; }
    SideRecorder& recorder;
    std::string name;
  };
  Stream* side_stream() override { return &side; }
  std::unique_ptr<Event> create_event() override {
    return std::make_unique<Mark>(*this, events++ == 0 ? "ready" : "done");
  }
  void all_reduce(Stream& stream, Tensor values, Reduction reduction) override {
    Recorder::all_reduce(stream, values, reduction);
    log.push_back(static_cast<Named&>(stream).name + " reduces " + std::to_string(ranges.back().second));
  }
  std::vector<std::string> take() { return std::exchange(log, {}); }
  std::vector<std::string> log;
  Named side{*this, "side"}, compute{*this, "compute"};
  int events = 0;
};

TEST(BucketerBeside, OrdersTheStreamsAndNeverMakesTheHostWait) {
  using Log = std::vector<std::string>;
  constexpr std::int64_t count = 500;
  Guarded<float> values(count, 1);
  SideRecorder recorder;
  recorder.base = values.data();
  Bucketer bucketer(recorder, recorder, 300 * 4);
  for (int step = 0; step < 2; ++step) {
    bucketer.ready(recorder.compute, values.tensor(), 0, 200);
    EXPECT_EQ(recorder.take(), Log{});
    bucketer.ready(recorder.compute, values.tensor(), 200, 400);
    EXPECT_EQ(recorder.take(),
              (Log{"compute marks ready", "side waits for ready", "side reduces 400", "side marks done"}))
        << "a full bucket starts during backward";
    bucketer.ready(recorder.compute, values.tensor(), 400, 500);
    bucketer.finish(recorder.compute, values.tensor());
    EXPECT_EQ(recorder.take(), (Log{"compute marks ready", "side waits for ready", "side reduces 100",
                                    "side marks done", "compute waits for done"}));
  }
  EXPECT_EQ(recorder.events, 2) << "each bucket marks the same two";
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) wrong += values[i] != 4;
  EXPECT_EQ(wrong, 0) << "each element is summed once a step";
}

TEST(Bucketer, PiecesAreBucketsWhereTheseStartDuringBackward) {
  SideRecorder beside;
  EXPECT_EQ(Bucketer(beside, beside, 400).piece_bytes(), 400);
  Recorder blocking;
  EXPECT_GT(Bucketer(blocking, host_device(), 400).piece_bytes(), std::int64_t{1} << 60) << "all leaves at the end";
  EXPECT_EQ(Bucketer(blocking, host_device(), 400, Bucketer::Start::when_full).piece_bytes(), 400);
}

TEST(Bucketer, OneRankWaitsForNobody) {
  if (test_job().size() > 1) return;
  const auto self = create_communicator("self", test_job(), host_device());
  Guarded<float> values(100, 1);
  HostStream stream;
  Bucketer bucketer(*self, host_device(), 40);
  bucketer.ready(stream, values.tensor(), 0, 100);
  bucketer.finish(stream, values.tensor());
  EXPECT_EQ(stream.waits, 0);
}

TEST(BucketerOverRanks, LeavesTheSumOnEveryRank) {
  const auto comm = create_communicator("", test_job(), host_device());
  HostStream stream;
  for (const auto start : {Bucketer::Start::at_finish, Bucketer::Start::when_full}) {
    const std::int64_t count = 3 << 20;  // 12 MiB, several buckets, several pieces
    Guarded<float> values(count, -1);
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1009 + comm->rank());
    Bucketer bucketer(*comm, host_device(), 5 << 20, start);
    for (std::int64_t begin = 0; begin < count; begin += 1 << 18)
      bucketer.ready(stream, values.tensor(), begin, begin + (1 << 18));
    bucketer.finish(stream, values.tensor());
    const std::int64_t n = comm->size();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) wrong += values[i] != static_cast<float>(n * (i % 1009) + n * (n - 1) / 2);
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(values.intact());
  }
}

/// Normally distributed, of one rank.
std::vector<float> normals(std::int64_t count, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Each value is rounded to bf16 before it is summed, and the sum once more: u = 2⁻⁸ of each.
TEST(BucketerOverRanks, SumsInBf16WithinItsRounding) {
  const auto comm = create_communicator("", test_job(), host_device());
  HostStream stream;
  const std::int64_t count = (1 << 20) + 12345;  // several pieces and buckets, with a rest
  std::vector<std::vector<float>> of_rank;
  for (int rank = 0; rank < comm->size(); ++rank) of_rank.push_back(normals(count, rank));
  Guarded<float> values(count, -1);
  std::copy_n(of_rank[static_cast<std::size_t>(comm->rank())].data(), count, values.data());
  Bucketer bucketer(*comm, host_device(), 1 << 20, Bucketer::Start::by_communicator, {}, DType::bf16);
  bucketer.finish(stream, values.tensor());
  std::int64_t wrong = 0, rounded = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0, magnitudes = 0;
    for (const std::vector<float>& its : of_rank) {
      sum += static_cast<double>(its[static_cast<std::size_t>(i)]);
      magnitudes += std::fabs(static_cast<double>(its[static_cast<std::size_t>(i)]));
    }
    const double u = unit_roundoff(DType::bf16), error = std::fabs(static_cast<double>(values[i]) - sum);
    wrong += error > (2 * u + u * u) * magnitudes;
    rounded += to_float(to_bf16(values[i])) == values[i];
  }
  EXPECT_EQ(wrong, 0);
  if (comm->size() > 1) {
    EXPECT_EQ(rounded, count) << "every sum is a bf16";
  } else {
    EXPECT_LT(rounded, count / 100) << "one rank sums nothing, and rounds nothing";
  }
  EXPECT_TRUE(values.intact());
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          static_cast<std::size_t>(count) * sizeof(float));
  for (const std::string& other : test_job().gather(bytes)) EXPECT_TRUE(other == bytes) << "the ranks' bits differ";
}

TEST(Bucketer, SumsInFloat32AndBf16Alone) {
  Recorder recorder;
  const auto made = [&](DType reduce) {
    return Bucketer(recorder, host_device(), 400, Bucketer::Start::at_finish, {}, reduce);
  };
  EXPECT_NO_THROW(made(DType::bf16));
  for (const DType reduce : {DType::fp16, DType::int32}) EXPECT_THROW(made(reduce), Error);
}

}  // namespace
}  // namespace tw
