// Samples made by a device: the same bits everywhere, whatever of a batch a thread makes.
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(SyntheticSamples);

TEST_P(SyntheticSamples, TokensAreTheReferences) {
  if (device().info().kind == DeviceKind::cpu) return;  // its host makes them
  TW_NEEDS(Op::generate_tokens);
  struct Sizes {
    std::int64_t batch, seq, vocabulary;
  };
  for (const Sizes& s : {Sizes{1, 1, 4}, Sizes{3, 7, 19}, Sizes{33, 64, 50257}, Sizes{70, 31, 5}}) {
    const Case run = [&](Lab& lab) {
      GenerateTokens args;
      Ints table = indices(s.vocabulary, 1, static_cast<int>(s.vocabulary));
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = 4 * table[i] + static_cast<std::int32_t>(i % 4);
      args.table = lab.in({s.vocabulary}, table);
      const std::int32_t offset[4] = {3, 0, 2, 1};
      std::copy(offset, offset + 4, args.offset);
      args.seed = 0x123456789abcdefu;
      args.purpose = 77;
      args.first_sample = (std::uint64_t{1} << 40) + 5;
      args.inputs = lab.out("inputs", DType::int32, {s.batch, s.seq});
      args.targets = lab.out("targets", DType::int32, {s.batch * s.seq});
      lab.device.generate_tokens(*lab.stream, args);
    };
    compare(device(), Op::generate_tokens, dtype(), run, Exactness::exact);
  }
}

TEST_P(SyntheticSamples, ImagesAreTheReferences) {
  if (device().info().kind == DeviceKind::cpu) return;
  TW_NEEDS(Op::generate_images);
  struct Sizes {
    std::int64_t batch, size, channels, classes;
  };
  // 7·7·3: the last Philox block is not full; from 57·57·3 on: several pieces of an image.
  for (const Sizes& s : {Sizes{33, 7, 3, 9}, Sizes{3, 16, 1, 5}, Sizes{2, 48, 3, 31}, Sizes{2, 5, 16, 4},
                         Sizes{2, 57, 3, 6}, Sizes{2, 64, 3, 31}}) {
    const Case run = [&](Lab& lab) {
      GenerateImages args;
      args.frequencies = lab.in({s.classes, 2}, indices(2 * s.classes, 1, static_cast<int>(s.size)));
      args.seed = 3;
      args.purpose = 78;
      args.first_sample = 1000;
      args.sigma = 0.7f;
      args.amplitude = 1.3f;
      args.label_noise = 0.3f;
      args.inputs = lab.out("inputs", dtype(), {s.batch, s.size, s.size, s.channels});
      args.targets = lab.out("targets", DType::int32, {s.batch});
      lab.device.generate_images(*lab.stream, args);
    };
    compare(device(), Op::generate_images, dtype(), run, Exactness::exact);
  }
}

}  // namespace
}  // namespace tw::test
