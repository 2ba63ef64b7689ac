// Files of an exported step: format, manners, and the same step from one rank or two. Values are the golden test's.
#include "models/export/safetensors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "models/catalog/described.hpp"
#include "models/compute/error.hpp"
#include "models/data/synthetic_data.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

namespace fs = std::filesystem;

// A folder of this test alone, removed with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "models-export-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string str() const { return path_.string(); }
  std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), {})); }

 private:
  fs::path path_;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::vector<char> raw(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Safetensors, IsTheDocumentedFormatToTheByte) {
  const Folder folder;
  write_safetensors(folder / "a.safetensors",
                    {{SafeTensor::Type::float32,
                      "w",
                      {2, 1},
                      [] {
                        return raw<float>({1.0f, -2.0f});
                      }},
                     {SafeTensor::Type::int64, "n\"\n", {1}, [] { return raw<std::int64_t>({-3}); }}});
  const std::string file = read(folder / "a.safetensors");
  std::string header =
      R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"n\"\n":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::uint64_t length = 0;
  ASSERT_EQ(file.size(), 8 + header.size() + 16);
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ(length, header.size());
  EXPECT_EQ(file.substr(8, header.size()), header);
  const auto a = raw<float>({1.0f, -2.0f});
  const auto b = raw<std::int64_t>({-3});
  EXPECT_EQ(file.substr(8 + header.size(), 8), std::string(a.begin(), a.end()));
  EXPECT_EQ(file.substr(16 + header.size()), std::string(b.begin(), b.end()));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Safetensors, FailuresNameThePathAndLeaveNothing) {
  const Folder folder;
  try {
    write_text(folder / "absent/step.json", "{}");
    FAIL() << "wrote into a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_NE(std::string(error.what()).find("absent/step.json"), std::string::npos) << error.what();
  }
  EXPECT_THROW(
      write_safetensors(folder / "x", {{SafeTensor::Type::float32, "w", {2}, [] { return std::vector<char>(4); }}}),
      Error);  // fewer values than its shape says
  EXPECT_EQ(folder.files(), 0u);
}

// All values of a file whose tensors are float32, one behind the other.
std::vector<float> floats(const std::string& file) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  std::vector<float> values((file.size() - 8 - header) / sizeof(float));
  std::memcpy(values.data(), file.data() + 8 + header, values.size() * sizeof(float));
  return values;
}

// Exports a step of two micro-batches, by one rank or by two.
void export_by(int ranks, const std::string& folder) {
  std::vector<float*> buffers(static_cast<std::size_t>(ranks));
  std::barrier meet(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = reference_device();
      TrainerConfig config = micro_config(micro_gpt2());
      config.rank = rank;
      config.ranks = ranks;
      config.accumulate = 2 / ranks;
      Trainer trainer(*device, config);
      GradientSync sync;
      sync.finish = [&](Stream&, Tensor flat) {
        buffers[static_cast<std::size_t>(rank)] = flat.as<float>();
        meet.arrive_and_wait();
        for (std::int64_t i = 0; rank == 0 && ranks == 2 && i < flat.count(); ++i)
          buffers[0][i] = buffers[1][i] += buffers[0][i];
        meet.arrive_and_wait();
      };
      trainer.export_step(folder, sync);
      EXPECT_EQ(trainer.steps_done(), 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ExportStep, SaysWhyTheSidesOfReLUsAreLeftOut) {
  const auto device = reference_device();
  const auto exported = [&](std::int64_t accumulate, int recomputed_layers) {
    const Folder folder;
    TrainerConfig config = micro_config(micro_resnet());
    config.accumulate = accumulate;
    config.recomputed_layers = recomputed_layers;
    Trainer trainer(*device, config);
    trainer.export_step(folder.str(), {});
    const std::string json = read(folder / "step.json");
    const bool written = std::filesystem::exists(folder / "relu.safetensors");
    EXPECT_EQ(written, json.find("\"relu_sides\": true") != std::string::npos) << json;
    EXPECT_EQ(written, json.find("\"relu_sides_reason\": \"") == std::string::npos) << json;
    EXPECT_EQ(written, trainer.why_no_relu_sides().empty());
    return written;
  };
  EXPECT_TRUE(exported(1, 0));
  EXPECT_FALSE(exported(2, 0));
  EXPECT_FALSE(exported(1, 1));
  EXPECT_EQ(Trainer(*device, micro_config(micro_gpt2())).why_no_relu_sides(), "") << "it has none";
}

TEST(ExportStep, HasThePlaceOfEachMaximum) {
  const auto device = reference_device();
  const Folder described;
  const NetworkDescription custom = described_network("custom", R"({
    "name": "pooled", "micro_batch": 2, "input": {"kind": "images", "size": 8, "channels": 3, "classes": 5},
    "layers": [{"layer": "convolution", "channels": 4, "kernel": 3, "padding": 1},
               {"layer": "activation", "function": "relu"}, {"layer": "max_pool", "name": "pool", "kernel": 2},
               {"layer": "flatten"}, {"layer": "loss", "per": "sample"}]})");
  Trainer(*device, micro_config(custom)).export_step(described.str(), {});
  EXPECT_NE(read(described / "relu.safetensors").find("/argmax.pool\":{\"dtype\":\"U8\",\"shape\":[2,4,4,4]"),
            std::string::npos);

  const Folder folder;
  Trainer(*device, micro_config(micro_resnet(true))).export_step(folder.str(), {});
  const std::string file = read(folder / "relu.safetensors");
  const std::size_t header = 8 + static_cast<std::size_t>(static_cast<unsigned char>(file[0])) +
                             256 * static_cast<std::size_t>(static_cast<unsigned char>(file[1]));
  const std::size_t entry = file.find("\"stem/argmax\"");
  ASSERT_LT(entry, header);
  const std::string offsets = "\"data_offsets\":[";
  const std::size_t at = file.find(offsets, entry) + offsets.size();
  const std::size_t begin = std::stoul(file.substr(at)), end = std::stoul(file.substr(file.find(',', at) + 1));
  const std::string places = file.substr(header + begin, end - begin);
  EXPECT_GT(places.size(), 0u);
  EXPECT_TRUE(std::ranges::all_of(places, [](char place) { return place >= 0 && place < 9; }));
  EXPECT_GT(std::set<char>(places.begin(), places.end()).size(), 4u) << "maxima lie in all places of a window";
}

TEST(ExportStep, BatchesOfNumbersHaveTargets) {
  struct Wanted {
    NetworkDescription network;
    const char *inputs, *targets;
  };
  for (const Wanted& wanted :
       {Wanted{micro_custom_restored(), R"("images":{"dtype":"F32","shape":[3,2,6,6])",
               R"("targets":{"dtype":"F32","shape":[3,1,12,12])"},
        Wanted{micro_custom_measured(), R"("images":{"dtype":"F32","shape":[4,2,8,8])",
               R"("targets":{"dtype":"F32","shape":[4,2])"},
        Wanted{micro_custom_series(), R"("series":{"dtype":"F32","shape":[3,7,16])",
               R"("targets":{"dtype":"F32","shape":[3,7,16])"}}) {
    const Folder folder;
    const auto device = reference_device();
    const TrainerConfig config = micro_config(wanted.network);
    Trainer(*device, config).export_step(folder.str(), {});
    const std::string batch = read(folder / "batch.safetensors");
    for (const char* part : {wanted.inputs, wanted.targets})
      EXPECT_NE(batch.find(part), std::string::npos) << part << " is not in " << batch.substr(8, 300);
    SyntheticData data(config.network, DType::float32, config.micro_batch, config.seq_len, config.seed, 1);
    data.generate(Split::training, 0);
    const auto* targets = data.targets().as<float>();
    std::vector<float> values = floats(batch);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(data.inputs().count() + data.targets().count()));
    EXPECT_TRUE(std::equal(targets, targets + data.targets().count(), values.begin() + data.inputs().count()));
  }
}

TEST(ExportStep, GradientsOfAScaledLossAreThoseOfTheLoss) {
  for (const NetworkDescription& network : {micro_gpt2(), micro_dlrm()}) {
    const auto device = reference_device();
    const auto gradients = [&](Precision precision) {
      const Folder folder;
      Trainer(*device, micro_config(network, precision)).export_step(folder.str(), {});
      return floats(read(folder / "gradients.safetensors"));
    };
    EXPECT_LT(normalised_error(gradients(Precision::fp16), gradients(Precision::float32)), 1e-2) << network.name;
  }
}

TEST(ExportStep, OneRankAndTwoWriteTheSameStep) {
  const Folder one, two;
  export_by(1, one.str());
  export_by(2, two.str());
  EXPECT_GE(one.files(), 5u);
  EXPECT_EQ(one.files(), two.files());
  EXPECT_EQ(read(one / "weights.safetensors"), read(two / "weights.safetensors"));
  EXPECT_EQ(read(one / "batch.safetensors"), read(two / "batch.safetensors"));
  const auto loss = [](const Folder& folder) {
    const std::string json = read(folder / "step.json");
    return std::stod(json.substr(json.find("\"loss\": ") + 8));
  };
  EXPECT_NEAR(loss(one), loss(two), 1e-6 * loss(one));
  for (const char* name : {"gradients.safetensors", "updated.safetensors"}) {
    const std::string a = read(one / name), b = read(two / name);
    ASSERT_EQ(a.size(), b.size());
    std::uint64_t header = 0;
    std::memcpy(&header, a.data(), 8);
    EXPECT_EQ(a.substr(0, 8 + header), b.substr(0, 8 + header));
    // The update of AdamW's first step is ±lr where a gradient is near zero: compare against the largest.
    EXPECT_LT(normalised_error(floats(a), floats(b)), name[0] == 'g' ? 1e-6 : 1e-4) << name;
  }
}

}  // namespace
}  // namespace tw::test
