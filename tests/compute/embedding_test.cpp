// Embedding: a gather, and a scatter-add that must not race.
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Embedding);

struct Sizes {
  std::int64_t batch, seq, width, vocabulary, max_seq;
};
// Small vocabularies: every token occurs many times.
const std::vector<Sizes> all_sizes = {
    {1, 1, 1, 1, 1}, {2, 3, 17, 5, 3}, {3, 17, 33, 7, 31}, {2, 64, 127, 1000, 64}, {4, 33, 64, 3, 40}};

TEST_P(Embedding, Forward) {
  TW_NEEDS(Op::embedding_forward);
  for (const Sizes& s : all_sizes) {
    for (const bool positions : {true, false}) {
      for (const bool exact : {true, false}) {
        const Case run = [&](Lab& lab) {
          const auto table = [&](std::int64_t rows, std::uint64_t seed) {
            const Dims dims{rows, s.width};
            return lab.in(dtype(), dims, exact ? integers(dims.count(), seed, 1, 50) : normal(dims.count(), seed));
          };
          EmbeddingForward args;
          args.tokens = lab.in({s.batch, s.seq}, indices(s.batch * s.seq, 1, static_cast<int>(s.vocabulary)));
          args.token_table = table(s.vocabulary, 2);
          if (positions) args.position_table = table(s.max_seq, 3);
          args.y = lab.out("y", dtype(), {s.batch, s.seq, s.width});
          lab.device.embedding_forward(*lab.stream, args);
        };
        compare(device(), Op::embedding_forward, dtype(), run, exact ? Exactness::exact : Exactness::tolerance);
      }
    }
  }
}

TEST_P(Embedding, Backward) {
  TW_NEEDS(Op::embedding_backward);
  for (const Sizes& s : all_sizes) {
    for (const bool positions : {true, false}) {
      for (const bool accumulate : {true, false}) {
        for (const bool exact : {true, false}) {
          const Case run = [&](Lab& lab) {
            const Dims y{s.batch, s.seq, s.width}, tokens{s.vocabulary, s.width}, position{s.max_seq, s.width};
            EmbeddingBackward args;
            args.tokens = lab.in({s.batch, s.seq}, indices(s.batch * s.seq, 1, static_cast<int>(s.vocabulary)));
            args.dy = lab.in(dtype(), y, exact ? integers(y.count(), 4, 1, 9) : normal(y.count(), 4));
            args.d_token_table =
                lab.in_out("d_token_table", DType::float32, tokens, integers(tokens.count(), 5, -9, 9));
            if (positions) {
              args.d_position_table = accumulate ? lab.in_out("d_position_table", DType::float32, position,
                                                              integers(position.count(), 6, -9, 9))
                                                 : lab.out("d_position_table", DType::float32, position);
            }
            args.accumulate_position = accumulate;
            lab.device.embedding_backward(*lab.stream, args);
          };
          compare(device(), Op::embedding_backward, dtype(), run, exact ? Exactness::exact : Exactness::tolerance);
        }
      }
    }
  }
}

TEST_P(Embedding, BackwardOfTokensThatOccurOften) {
  TW_NEEDS(Op::embedding_backward);
  for (const std::vector<int>& counts : frequent_counts()) {
    const Ints tokens = occurrences(counts, 1);
    const auto places = static_cast<std::int64_t>(tokens.size());
    for (const std::int64_t width : {3, 16, 1030}) {
      if (width > 16 && places > 400) continue;
      for (const bool exact : {true, false}) {
        SCOPED_TRACE(Dims({places, static_cast<std::int64_t>(counts.size()), width, exact}).str());
        const Dims y{1, places, width}, table{static_cast<std::int64_t>(counts.size()), width};
        const Floats dy = exact ? integers(y.count(), 2, -8, 9) : normal(y.count(), 2);
        compare(
            device(), Op::embedding_backward, dtype(),
            [&](Lab& lab) {
              lab.device.embedding_backward(
                  *lab.stream,
                  {.tokens = lab.in({1, places}, tokens),
                   .dy = lab.in(dtype(), y, dy),
                   .d_token_table = lab.in_out("d_token_table", DType::float32, table,
                                               exact ? integers(table.count(), 3, -9, 9)
                                                     : Floats(static_cast<std::size_t>(table.count()), 0.0f))});
            },
            exact ? Exactness::exact : Exactness::tolerance);
      }
    }
  }
}

TEST_P(Embedding, PositionsBeyondTheSequenceHaveNoGradient) {
  TW_NEEDS(Op::embedding_backward);
  Lab lab(device());
  const Tensor d_position = lab.out("d_position", DType::float32, {4, 2}),
               d_token = lab.in_out("d_token", DType::float32, {3, 2}, Floats(6, 1.0f));
  device().embedding_backward(*lab.stream, {.tokens = lab.in({2, 2}, Ints{2, 0, 2, 2}),
                                            .dy = lab.in(dtype(), {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                            .d_token_table = d_token,
                                            .d_position_table = d_position});
  EXPECT_EQ(lab.read(d_position), (Floats{6, 8, 10, 12, 0, 0, 0, 0}));
  EXPECT_EQ(lab.read(d_token), (Floats{4, 5, 1, 1, 14, 17}));
}

}  // namespace
}  // namespace tw::test
