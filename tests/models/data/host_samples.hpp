// That a device makes the samples that the host makes. Of the tests on a GPU, on stand-ins, and on the reference.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "models/data/batch_loader.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

struct ClickCase {
  models::NetworkDescription network;
  models::DataShare share;
};
/// Networks with what tables of clicks may differ in: short and long ones, odd ones, those of one octave, nearly 2^31
/// rows; bags of one index and of several; the tables on 1 to 8 ranks, most of which have empty slots.
inline std::vector<ClickCase> click_cases() {
  std::vector<ClickCase> cases;
  for (const int hot : {1, 3}) {
    models::NetworkDescription network = micro_dlrm();
    models::DlrmDescription sizes = network.as<models::DlrmDescription>();
    sizes.dense_features = hot == 1 ? 13 : 4;
    sizes.table_rows = {100, 7, 2, 3000, INT32_MAX, 3};
    sizes.hot = hot;
    network.shape = models::family::dlrm::shape(sizes);
    for (const int ranks : {1, 2, 4, 8})
      for (int rank = 0; rank < ranks; ++rank) cases.push_back({network, {rank, ranks}});
  }
  return cases;
}

/// Micro-batches that `device` makes by `op` are those of the host, bit by bit.
inline void expect_host_samples(models::Device& device, models::Op op, const models::NetworkDescription& network,
                                models::DType precision, std::int64_t micro_batch, models::DataShare share = {}) {
  SCOPED_TRACE(network.name + ", " + std::to_string(micro_batch) + " samples, rank " + std::to_string(share.rank) +
               " of " + std::to_string(share.ranks));
  models::SyntheticData host(network, precision, micro_batch, network.default_seq_len, 3, 1, share);
  models::BatchLoader loader(device, network, precision, micro_batch, network.default_seq_len, 3, share);
  const auto stream = device.create_stream();
  const auto expect_equal_bytes = [&](const models::Tensor& got, const models::Tensor& want) {
    std::vector<unsigned char> bytes(got.bytes());
    device.copy_to_host(*stream, bytes.data(), got.data, bytes.size());
    stream->synchronize();
    ASSERT_EQ(got.bytes(), want.bytes());
    EXPECT_EQ(std::memcmp(bytes.data(), want.data, bytes.size()), 0);
  };
  device.reset_profile();
  device.set_profiling(true);
  for (const models::Split split : {models::Split::training, models::Split::held_out}) {
    for (const std::uint64_t step : {0u, 1000003u}) {
      const std::uint64_t first = step + static_cast<std::uint64_t>(share.rank * micro_batch);
      loader.load(*stream, split, first);
      host.generate(split, first);
      expect_equal_bytes(loader.inputs(), host.inputs());
      expect_equal_bytes(loader.targets(), host.targets());
    }
  }
  device.set_profiling(false);
  EXPECT_EQ(device.profile().calls[static_cast<std::size_t>(op)], 4) << "the device made them";
}

}  // namespace tw::test
