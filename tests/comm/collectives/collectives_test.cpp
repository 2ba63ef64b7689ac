// Each algorithm of collectives.def on each communicator, with integers whose sums are known exactly; and the Exchange.
#include <gtest/gtest.h>

#include "comm/bucketer.hpp"
#include "comm/mpi/pieces.hpp"
#include "models/compute/error.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace comm;
using namespace models;

namespace {

float element(int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 1009); }

void fill_all(Guarded<float>& values, int rank) {
  for (std::int64_t i = 0; i < values.count(); ++i) values[i] = element(rank, i);
}
void expect_sums(Guarded<float>& values, int ranks, const char* of) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < values.count(); ++i) {
    float expected = 0;
    for (int r = 0; r < ranks; ++r) expected += element(r, i);
    wrong += values[i] != expected;
  }
  EXPECT_EQ(wrong, 0) << of << " of " << values.count();
  EXPECT_TRUE(values.intact()) << of << " of " << values.count();
}

TEST(Algorithms, AllLeaveTheSumOnEveryRank) {
  const auto comm = tested_communicator();
  HostStream stream;
  for (const CollectiveKind& kind : collectives()) {
    const auto collective = create_collective(kind.name, *comm, tested_device());
    // Fewer elements than ranks, none, with a rest and without one, rising and falling.
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{0}, std::int64_t{12}, std::int64_t{1021},
                                     2 * all_reduce_piece + 5, std::int64_t{7}}) {
      Guarded<float> values(count, -1);
      fill_all(values, comm->rank());
      collective->sum(stream, values.tensor());
      expect_sums(values, comm->size(), kind.name);
    }
  }
}

TEST(Algorithms, AllSumInBf16) {
  const auto comm = tested_communicator();
  HostStream stream;
  for (const CollectiveKind& kind : collectives()) {
    const auto collective = in_bf16(create_collective(kind.name, *comm, tested_device()), tested_device(), 40 * 4);
    for (const std::int64_t count : {std::int64_t{7}, std::int64_t{0}, std::int64_t{1021}, std::int64_t{12}}) {
      Guarded<float> values(count, -1);
      for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + comm->rank() * 13) % 31);
      collective->sum(stream, values.tensor());
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        float expected = 0;  // at most 4 × 30, which bf16 holds exactly
        for (int r = 0; r < comm->size(); ++r) expected += static_cast<float>((i * 7 + r * 13) % 31);
        wrong += values[i] != expected;
      }
      EXPECT_EQ(wrong, 0) << kind.name << " of " << count;
      EXPECT_TRUE(values.intact()) << kind.name << " of " << count;
    }
  }
}

TEST(Algorithms, TheBucketerSumsByTheNamedOne) {
  const auto comm = tested_communicator();
  HostStream stream;
  for (const CollectiveKind& kind : collectives()) {
    Guarded<float> values(1000, -1);
    fill_all(values, comm->rank());
    Bucketer bucketer(*comm, tested_device(), 300 * 4, Bucketer::Start::at_finish, kind.name);
    bucketer.finish(stream, values.tensor());
    expect_sums(values, comm->size(), kind.name);
  }
}

/// Counts which operations it is asked for.
struct Counter : Communicator {
  int reductions = 0, scatters = 0, gathers = 0;
  int rank() const override { return 0; }
  int size() const override { return 3; }
  std::string name() const override { return "counter"; }
  std::string route() const override { return "nowhere"; }
  void all_reduce(Stream&, Tensor, Reduction) override { ++reductions; }
  void reduce_scatter(Stream&, Tensor, Tensor, Reduction) override { ++scatters; }
  void all_gather(Stream&, Tensor, Tensor) override { ++gathers; }
  void broadcast(Stream&, Tensor, int) override {}
  void all_to_all(Stream&, Tensor, Tensor) override {}
  void send(Stream&, Tensor, int) override {}
  void receive(Stream&, Tensor, int) override {}
  void barrier(Stream&) override {}
};

TEST(Algorithms, EachGoesItsOwnWay) {
  HostStream stream;
  Guarded<float> values(10, 0);
  Counter counter;
  create_collective("allreduce", counter, host_device())->sum(stream, values.tensor());
  EXPECT_EQ(counter.reductions, 1);
  EXPECT_EQ(counter.scatters + counter.gathers, 0);
  counter = {};
  Bucketer bucketer(counter, host_device(), 40, Bucketer::Start::at_finish, "reduce_scatter_all_gather");
  bucketer.finish(stream, values.tensor());
  EXPECT_EQ(counter.scatters, 1);
  EXPECT_EQ(counter.gathers, 1);
  EXPECT_EQ(counter.reductions, 1) << "of the element that is left";
}

TEST(Algorithms, AnUnknownOneIsRefusedWithThoseKnown) {
  const auto comm = tested_communicator();
  try {
    create_collective("quantum", *comm, host_device());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
    for (const CollectiveKind& kind : collectives())
      EXPECT_NE(std::string(error.what()).find(kind.name), std::string::npos) << error.what();
  }
}

TEST(Exchange, SumsAndSendsByTheCommunicator) {
  const auto comm = tested_communicator();
  Exchange* const exchange = comm.get();
  HostStream stream;
  const int rank = exchange->rank(), size = exchange->size();
  EXPECT_EQ(rank, test_job().rank());
  EXPECT_EQ(size, test_job().size());
  Guarded<float> values(1021, -1);
  fill_all(values, rank);
  exchange->all_reduce_sum(stream, values.tensor());
  expect_sums(values, size, "all_reduce_sum");
  if (size == 1) return;  // nobody to send to
  fill_all(values, rank);
  if (rank == size - 1) exchange->send(stream, values.tensor(), 0);
  if (rank != 0) return;
  exchange->receive(stream, values.tensor(), size - 1);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < values.count(); ++i) wrong += values[i] != element(size - 1, i);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(values.intact());
}

}  // namespace
}  // namespace tw
