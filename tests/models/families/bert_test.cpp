// What only BERT has: masked tokens and next sentences, two heads whose losses are added, biases that are one vector
// here and several in the public definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <set>
#include <vector>

#include "models/catalog/floors.hpp"
#include "models/catalog/tasks.hpp"
#include "models/compute/error.hpp"
#include "models/data/masked_source.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/export/step_export.hpp"
#include "models/families/build_blocks.hpp"
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

/// What is seen of one sequence: its ordinary tokens, those of the first segment in front.
struct Seen {
  std::vector<std::int32_t> tokens;  // [MASK] among them
  std::vector<bool> predicted;
  std::vector<std::int32_t> targets;  // where predicted
  std::size_t first_length = 0;
  bool is_random = false;  // the label
};

Seen seen_of(const Batch& batch, std::int64_t b) {
  Seen seen;
  const MaskedLayout& layout = batch.layout;
  const std::int64_t masked = masked_positions(layout.seq);
  std::int64_t next = b * masked;
  for (std::int64_t t = 1; t < layout.seq - 1; ++t) {
    if (batch.token(b, t) == MaskedSource::sep) {
      seen.first_length = seen.tokens.size();
      continue;
    }
    const bool is_predicted = next < (b + 1) * masked && batch.row(next) == b * layout.seq + t;
    seen.tokens.push_back(batch.token(b, t));
    seen.predicted.push_back(is_predicted);
    seen.targets.push_back(is_predicted ? batch.target(next++) : -1);
  }
  seen.is_random = batch.target(layout.predicted() + b) == 1;
  return seen;
}

/// The best prediction by Bayes' rule, over all topics that the segments may have.
class Ideal {
 public:
  Ideal(const MaskedSource& source, std::int64_t vocabulary)
      : uniform_(1 / static_cast<double>(vocabulary - MaskedSource::first_ordinary)) {
    for (int topic = 0; topic < MaskedSource::topics; ++topic)
      for (std::int64_t r = 0; r < (std::int64_t{1} << source.levels()) - 1; ++r) {
        const double of_level = std::exp2(std::floor(std::log2(static_cast<double>(r + 1))));
        shares_[topic][source.token(topic, r)] = 1 / (source.levels() * of_level);
      }
  }
  /// Losses of the predicted token at `place` and of the label, seeing only the ordinary tokens for which `sees`.
  std::pair<double, double> loss(const Seen& seen, std::size_t place,
                                 const std::function<bool(std::size_t)>& sees) const {
    double sum = 0, of_token = 0, of_label = 0;
    for (int first = 0; first < MaskedSource::topics; ++first) {
      for (int second = 0; second < MaskedSource::topics; ++second) {
        double weight = first == second ? 1 : 1.0 / (MaskedSource::topics - 1);  // is and is not next: equally often
        const auto topic = [&](std::size_t i) { return i < seen.first_length ? first : second; };
        for (std::size_t i = 0; i < seen.tokens.size(); ++i)
          if (i != place && sees(i)) weight *= likelihood(seen, i, topic(i));
        const double right = share(topic(place), seen.targets[place]) * fate(seen, place, seen.targets[place]);
        of_token += weight * right;
        weight *= likelihood(seen, place, topic(place));
        sum += weight;
        of_label += (first != second) == seen.is_random ? weight : 0;
      }
    }
    return {-std::log(of_token / sum), -std::log(of_label / sum)};
  }

 private:
  double share(int topic, std::int32_t token) const {
    const auto found = shares_[topic].find(token);
    return found == shares_[topic].end() ? 0 : found->second;
  }
  /// Probability of what is seen at a predicted place, given its target.
  double fate(const Seen& seen, std::size_t i, std::int32_t target) const {
    if (seen.tokens[i] == MaskedSource::mask) return 0.8;
    return 0.1 * uniform_ + (seen.tokens[i] == target ? 0.1 : 0);
  }
  /// Probability of what is seen at i, given the topic.
  double likelihood(const Seen& seen, std::size_t i, int topic) const {
    const double p = share(topic, seen.tokens[i]);
    if (!seen.predicted[i]) return p;
    return seen.tokens[i] == MaskedSource::mask ? 0.8 : 0.1 * uniform_ + 0.1 * p;
  }
  double uniform_;
  std::map<std::int32_t, double> shares_[MaskedSource::topics];
};

struct MeanLoss {
  double mean = 0, deviation = 0;  ///< deviation: of the mean
};
MeanLoss mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value, squares += value * value;
  return {sum / n, std::sqrt((squares / n - sum / n * sum / n) / n)};
}

TEST(MaskedSource, TheFloorIsThatOfTheBestModel) {
  const NetworkDescription network = find_network("bert-tiny");
  const std::int64_t vocabulary = network.data().vocabulary;
  const MaskedSource source(vocabulary, 3);
  const Ideal ideal(source, vocabulary);
  for (const std::int64_t seq : {16, 32, 64}) {
    const MaskedLayout layout{64000 / seq, seq};
    const Batch batch = made(source, layout, 0, Split::held_out);
    std::vector<double> losses;  // of sequences
    for (std::int64_t b = 0; b < layout.batch; ++b) {
      const Seen seen = seen_of(batch, b);
      double& loss = losses.emplace_back(0);
      for (std::size_t i = 0; i < seen.tokens.size(); ++i) {
        if (!seen.predicted[i]) continue;
        const auto [of_token, of_label] = ideal.loss(seen, i, [](std::size_t) { return true; });
        loss += of_token / static_cast<double>(masked_positions(seq));
        ASSERT_LT(of_label, 1e-12) << "tokens that are not predicted tell both topics for certain";
      }
    }
    const MeanLoss found = mean_of(losses);
    EXPECT_NEAR(exact_floor(network, seq), found.mean, 4 * found.deviation) << seq;
    EXPECT_LT(found.deviation, 0.02) << seq;
  }
  EXPECT_DOUBLE_EQ(exact_floor(network, 32), masked_entropy(128));
}

TEST(MaskedSource, WithoutAttentionOrWithOneHeadNobodyReachesTheTarget) {
  int seen_tasks = 0;
  for (const TaskDescription& task : tasks()) {
    const NetworkDescription network = find_network(task.model);
    if (network.data().kind != DataKind::masked_tokens) continue;
    ++seen_tasks;
    const std::int64_t vocabulary = network.data().vocabulary;
    EXPECT_GT(std::numbers::ln2, task.target + 0.15) << "of a model that guesses next sentences";
    for (const std::uint64_t seed : {1, 2, 3}) {
      const MaskedSource source(vocabulary, seed);
      const Ideal ideal(source, vocabulary);
      const MaskedLayout layout{std::max<std::int64_t>(100, 32000 / task.seq_len), task.seq_len};
      const Batch batch = made(source, layout);
      std::vector<double> losses;  // of a model that sees the predicted token's place only
      for (std::int64_t b = 0; b < layout.batch; ++b) {
        const Seen seen = seen_of(batch, b);
        for (std::size_t i = 0; i < seen.tokens.size(); ++i)
          if (seen.predicted[i]) losses.push_back(ideal.loss(seen, i, [](std::size_t) { return false; }).first);
      }
      EXPECT_GT(mean_of(losses).mean - exact_floor(network, task.seq_len), 1.1)
          << task.name << ": the documented bound, seed " << seed;
    }
  }
  EXPECT_EQ(seen_tasks, 2);
}

TEST(MaskedSource, SegmentsTellTheirTopicAndTheLabel) {
  const MaskedSource source(128, 9);
  const MaskedLayout layout{60, 128};
  const Batch batch = made(source, layout);
  std::map<std::int32_t, int> topics;
  EXPECT_EQ(source.levels(), 5);
  for (int topic = 0; topic < MaskedSource::topics; ++topic)
    for (std::int64_t r = 0; r < 31; ++r)
      EXPECT_TRUE(topics.emplace(source.token(topic, r), topic).second) << "of one topic only";
  for (std::int64_t b = 0; b < layout.batch; ++b) {
    const Seen seen = seen_of(batch, b);
    std::array<std::set<int>, 2> found;  // of each segment's tokens that are not predicted
    for (std::size_t i = 0; i < seen.tokens.size(); ++i)
      if (!seen.predicted[i]) found[i < seen.first_length ? 0 : 1].insert(topics.at(seen.tokens[i]));
    EXPECT_EQ(found[0].size(), 1u);
    EXPECT_EQ(found[1].size(), 1u);
    EXPECT_EQ(found[0] != found[1], seen.is_random);
  }
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
