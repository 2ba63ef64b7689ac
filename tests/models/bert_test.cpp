// What only BERT has: masked tokens and next sentences, two heads whose losses are added, biases that are one vector
// here and several in the public definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "models/compute/error.hpp"
#include "models/data/masked_source.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/export/step_export.hpp"
#include "models/network/parameters.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

struct Batch {
  MaskedLayout layout;
  std::vector<std::int32_t> inputs, targets;
  std::int32_t token(std::int64_t b, std::int64_t t) const {
    return inputs[static_cast<std::size_t>(b * layout.seq + t)];
  }
  std::int32_t segment(std::int64_t b, std::int64_t t) const {
    return inputs[static_cast<std::size_t>((layout.batch + b) * layout.seq + t)];
  }
  std::int32_t row(std::int64_t i) const { return inputs[static_cast<std::size_t>(2 * layout.batch * layout.seq + i)]; }
  std::int32_t target(std::int64_t i) const { return targets[static_cast<std::size_t>(i)]; }
};

Batch made(const MaskedSource& source, const MaskedLayout& layout, std::uint64_t first = 0,
           Split split = Split::training) {
  Batch batch{layout, std::vector<std::int32_t>(static_cast<std::size_t>(layout.inputs()), -7),
              std::vector<std::int32_t>(static_cast<std::size_t>(layout.gathered()), -7)};
  source.fill(split, first, layout, batch.inputs.data(), batch.targets.data());
  return batch;
}

TEST(MaskedSource, SequencesAreTwoSegmentsBetweenSpecialTokens) {
  for (const std::int64_t vocabulary : {16, 128, 30522}) {
    const MaskedSource source(vocabulary, 5);
    for (const std::int64_t seq : {8, 9, 64, 512}) {
      const Batch batch = made(source, {6, seq});
      const std::int64_t masked = masked_positions(seq);
      std::set<std::int32_t> rows;
      for (std::int64_t b = 0; b < 6; ++b) {
        EXPECT_EQ(batch.token(b, 0), MaskedSource::cls);
        EXPECT_EQ(batch.token(b, seq - 1), MaskedSource::sep);
        std::int64_t separators = 0;
        for (std::int64_t t = 0; t < seq; ++t) {
          EXPECT_EQ(batch.segment(b, t), separators == 0 ? 0 : 1);
          if (batch.token(b, t) == MaskedSource::sep) ++separators;
          EXPECT_TRUE(batch.token(b, t) >= MaskedSource::cls && batch.token(b, t) < vocabulary);
        }
        EXPECT_EQ(separators, 2);
        for (std::int64_t i = 0; i < masked; ++i) {
          const std::int32_t row = batch.row(b * masked + i), place = row - static_cast<std::int32_t>(b * seq);
          EXPECT_TRUE(place > 0 && place < seq - 1) << "special tokens are not predicted";
          EXPECT_NE(batch.token(b, place), MaskedSource::sep);
          EXPECT_TRUE(i == 0 || row > batch.row(b * masked + i - 1)) << "ascending";
          EXPECT_TRUE(rows.insert(row).second);
          EXPECT_TRUE(batch.target(b * masked + i) >= MaskedSource::first_ordinary);
        }
        EXPECT_EQ(batch.row(6 * masked + b), b * seq);
        EXPECT_TRUE(rows.insert(batch.row(6 * masked + b)).second) << "scatter_rows wants each row once";
        EXPECT_TRUE(batch.target(6 * masked + b) == 0 || batch.target(6 * masked + b) == 1);
      }
    }
  }
}

TEST(MaskedSource, EightyTenTen) {
  const MaskedSource source(30522, 1);
  const MaskedLayout layout{200, 512};
  const Batch batch = made(source, layout);
  double masked = 0, kept = 0, other = 0, is_random = 0;
  for (std::int64_t i = 0; i < layout.predicted(); ++i) {
    const std::int32_t seen = batch.inputs[static_cast<std::size_t>(batch.row(i))];
    (seen == MaskedSource::mask ? masked : seen == batch.target(i) ? kept : other) += 1;
  }
  for (std::int64_t b = 0; b < layout.batch; ++b) is_random += batch.target(layout.predicted() + b);
  const auto count = static_cast<double>(layout.predicted());  // 15,200: one deviation is 0.3 %
  EXPECT_NEAR(masked / count, 0.8, 0.015);
  EXPECT_NEAR(kept / count, 0.1, 0.012);
  EXPECT_NEAR(other / count, 0.1, 0.012);
  EXPECT_NEAR(is_random / 200, 0.5, 0.15);
  std::int64_t masks = 0;
  for (std::int64_t i = 0; i < layout.batch * layout.seq; ++i)
    masks += batch.inputs[static_cast<std::size_t>(i)] == MaskedSource::mask ? 1 : 0;
  EXPECT_EQ(static_cast<double>(masks), masked) << "nothing else is masked";
}

TEST(MaskedSource, SegmentsTellTheirTopicAndTheLabel) {
  // The commonest ordinary token of each topic has rank 0, drawn with 1 / levels.
  const MaskedSource source(128, 9);
  const MaskedLayout layout{60, 128};
  const Batch batch = made(source, layout);
  std::set<std::int32_t> commonest;
  for (int topic = 0; topic < MaskedSource::topics; ++topic) commonest.insert(source.token(topic, 0));
  ASSERT_EQ(commonest.size(), static_cast<std::size_t>(MaskedSource::topics));
  int right = 0;
  for (std::int64_t b = 0; b < layout.batch; ++b) {
    int topics[2] = {0, 0};
    for (const int segment : {0, 1}) {
      int most = -1;
      for (int topic = 0; topic < MaskedSource::topics; ++topic) {
        int count = 0;
        for (std::int64_t t = 0; t < layout.seq; ++t)
          count += batch.segment(b, t) == segment && batch.token(b, t) == source.token(topic, 0) ? 1 : 0;
        if (count > most) most = count, topics[segment] = topic;
      }
    }
    right += (topics[0] == topics[1] ? 0 : 1) == batch.target(layout.predicted() + b) ? 1 : 0;
  }
  EXPECT_GE(right, 51) << "counting alone finds most labels of " << layout.batch;
}

TEST(MaskedSource, SamplesDifferBySplitIndexAndSeedOnly) {
  const auto tokens = [](std::uint64_t seed, Split split, std::uint64_t first, std::int64_t batch) {
    const MaskedLayout layout{batch, 32};
    const Batch made_batch = made(MaskedSource(64, seed), layout, first, split);
    return std::vector<std::int32_t>(made_batch.inputs.begin(), made_batch.inputs.begin() + batch * 32);
  };
  const std::vector<std::int32_t> four = tokens(1, Split::training, 8, 4), two = tokens(1, Split::training, 10, 2);
  EXPECT_EQ(four, tokens(1, Split::training, 8, 4));
  EXPECT_TRUE(std::equal(two.begin(), two.end(), four.end() - static_cast<std::ptrdiff_t>(two.size())));
  EXPECT_NE(four, tokens(1, Split::held_out, 8, 4));
  EXPECT_NE(four, tokens(2, Split::training, 8, 4));
  EXPECT_NE(four, tokens(1, Split::training, 12, 4));
}

TEST(MaskedSource, RefusesWhatDoesNotFit) {
  EXPECT_THROW(MaskedSource(15, 1), Error);
  std::int32_t none = 0;
  EXPECT_THROW(MaskedSource(64, 1).fill(Split::training, 0, {1, 7}, &none, &none), Error);
}

TEST(Bert, RefusesHeadsAndSequencesThatDoNotFit) {
  const auto refusal = [](BertDescription d, std::int64_t seq_len) {
    NetworkDescription network = micro_bert();
    network.shape = family::bert::shape(d);
    try {
      build_blocks(network, Precision::float32, 1, seq_len);
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  BertDescription d = micro_bert().as<BertDescription>();
  EXPECT_EQ(refusal(d, 17), "");
  EXPECT_EQ(refusal(d, 8), "");
  EXPECT_NE(refusal(d, 18).find("sequence length 18"), std::string::npos);
  EXPECT_NE(refusal(d, 7).find("sequence length 7"), std::string::npos);
  d.heads = 3;
  EXPECT_NE(refusal(d, 9).find("3 heads"), std::string::npos);
}

TEST(Bert, LossStartsAtUniformGuessesOfBothHeads) {
  // Logits of fresh weights are small: ln V of each masked token and ln 2 of each sequence.
  const auto device = reference_device();
  TrainerConfig config = micro_config(micro_bert());
  config.micro_batch = 16;
  Trainer trainer(*device, config);
  EXPECT_NEAR(trainer.evaluate(0).loss, std::log(19.0) + std::log(2.0), 0.05);
  EXPECT_EQ(trainer.evaluate(0).predictions, 16 * 2) << "of masked tokens";
}

TEST(Bert, IsExportedUnderThePublicNames) {
  const NetworkDescription network = micro_bert();
  const auto device = reference_device();
  const auto stream = device->create_stream();
  const auto blocks = build_blocks(network, Precision::float32, 1, 15);
  ParameterStore store(*device, DType::float32, blocks);
  store.initialise(*stream, 1);
  using Shape = std::vector<std::int64_t>;
  std::map<std::string, Shape> wanted = {{"bert.embeddings.word_embeddings.weight", {19, 16}},
                                         {"bert.embeddings.position_embeddings.weight", {17, 16}},
                                         {"bert.embeddings.token_type_embeddings.weight", {2, 16}},
                                         {"bert.pooler.dense.weight", {16, 16}},
                                         {"bert.pooler.dense.bias", {16}},
                                         {"cls.predictions.bias", {19}},
                                         {"cls.predictions.transform.dense.weight", {16, 16}},
                                         {"cls.predictions.transform.dense.bias", {16}},
                                         {"cls.seq_relationship.weight", {2, 16}},
                                         {"cls.seq_relationship.bias", {2}}};
  const auto norm = [&](const std::string& name) {
    wanted[name + ".LayerNorm.weight"] = wanted[name + ".LayerNorm.bias"] = {16};
  };
  norm("bert.embeddings");
  norm("cls.predictions.transform");
  for (const std::string layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1."}) {
    for (const char* part : {"attention.self.query", "attention.self.key", "attention.self.value",
                             "attention.output.dense", "intermediate.dense", "output.dense"}) {
      const bool up = part == std::string("intermediate.dense"), down = part == std::string("output.dense");
      wanted[layer + part + ".weight"] = {up ? 48 : 16, down ? 48 : 16};
      wanted[layer + part + ".bias"] = {up ? 48 : 16};
    }
    norm(layer + "attention.output");
    norm(layer + "output");
  }
  std::int64_t count = 0;
  std::map<std::string, Shape> exported;
  for (const SafeTensor& tensor : exported_parameters(*device, *stream, store, ExportKind::master, 1)) {
    EXPECT_TRUE(exported.emplace(tensor.name, tensor.dims).second) << tensor.name;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.dims) elements *= extent;
    count += elements;
  }
  EXPECT_EQ(exported, wanted);
  EXPECT_EQ(count, count_parameters(network));
}

TEST(Bert, PartsMustAddUpToTheVector) {
  ParameterSpec spec;
  spec.name = "packed";
  spec.dims = {5};
  spec.exported_as = {{"a", 2}, {"b", 2}};
  EXPECT_THROW(exported_parts(spec), Error);
  spec.exported_as.push_back({"c", 1});
  ASSERT_EQ(exported_parts(spec).size(), 3u);
  EXPECT_EQ(exported_parts(spec)[1].spec.dims, (Dims{2}));
  EXPECT_EQ(exported_parts(spec)[2].first, 4);
}

}  // namespace
}  // namespace tw::test
