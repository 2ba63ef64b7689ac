// Synthetic samples, one number after the other. Compiled without contraction of a·b + c.
#include "models/compute/synthetic.hpp"

#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {

void ReferenceDevice::do_generate_tokens(Stream&, const GenerateTokens& args) {
  const std::int64_t batch = args.inputs.dims[0], seq = args.inputs.dims[1], vocabulary = args.table.dims[0];
  const auto* table = args.table.as<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint64_t stream = random_stream(args.purpose, args.first_sample + static_cast<std::uint64_t>(b));
    std::int64_t before = synthetic::draw(args.seed, stream, 0, vocabulary);
    std::int64_t token = synthetic::draw(args.seed, stream, 1, vocabulary);
    for (std::int64_t t = 0; t <= seq; ++t) {
      if (t < seq) args.inputs.as<std::int32_t>()[b * seq + t] = static_cast<std::int32_t>(token);
      if (t > 0) args.targets.as<std::int32_t>()[b * seq + t - 1] = static_cast<std::int32_t>(token);
      const PhiloxWords words = random_block(args.seed, stream, 2 + static_cast<std::uint64_t>(t) / 4);
      const std::int32_t next =
          synthetic::next_token(table[token], table[before], synthetic::draw_k(words, t), args.offset, vocabulary);
      before = token;
      token = next;
    }
  }
}

void ReferenceDevice::do_generate_images(Stream&, const GenerateImages& args) {
  const std::int64_t batch = args.inputs.dims[0], size = args.inputs.dims[1], channels = args.inputs.dims[3];
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint64_t stream = random_stream(args.purpose, args.first_sample + static_cast<std::uint64_t>(b));
    const synthetic::ImageDraw image =
        synthetic::draw_image(args.seed, stream, args.frequencies.dims[0], args.label_noise);
    args.targets.as<std::int32_t>()[b] = image.label;
    const std::int32_t* frequency = args.frequencies.as<std::int32_t>() + 2 * image.true_label;
    for (std::int64_t i = 0; i < size * size * channels; ++i) {
      const PhiloxWords words = random_block(args.seed, stream, static_cast<std::uint64_t>(i) / 4);
      const std::int64_t pair = i % 4 / 2 * 2, pixel = i / channels;
      float normals[2];
      synthetic::box_muller(words.word[pair], words.word[pair + 1], normals[0], normals[1]);
      const auto j = static_cast<int>((frequency[0] * (pixel % size) + frequency[1] * (pixel / size)) % size);
      const float noise = args.sigma * normals[i % 2];
      const float value = noise + synthetic::wave(args.amplitude, j, static_cast<int>(size), image.phase_turns);
      store(args.inputs.slice(b * size * size * channels + i, {1}), {static_cast<double>(value)});
    }
  }
}

void ReferenceDevice::do_generate_clicks(Stream&, const GenerateClicks& args) {
  const std::int64_t batch = args.dense.dims[0], features = args.dense.dims[1];
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint64_t sample = args.first_sample + static_cast<std::uint64_t>(b);
    const bool click = synthetic::draw_click(args.seed, args.of_label, sample);
    args.targets.as<std::int32_t>()[b] = click ? 1 : 0;
    for (std::int64_t k = 0; k < features; ++k) {
      const PhiloxWords words =
          random_block(args.seed, random_stream(args.of_dense, sample), static_cast<std::uint64_t>(k) / 4);
      const std::int64_t pair = k % 4 / 2 * 2;
      float normals[2];
      synthetic::box_muller(words.word[pair], words.word[pair + 1], normals[0], normals[1]);
      args.dense.as<float>()[b * features + k] = normals[k % 2] + (click ? args.mean : -args.mean);
    }
  }
  const std::int64_t slots = args.indices.dims[1], hot = args.indices.dims[2];
  for (std::int64_t i = 0; i < args.indices.count(); ++i) {
    const std::uint64_t sample = args.first_of_all + static_cast<std::uint64_t>(i / hot / slots);
    args.indices.as<std::int32_t>()[i] = synthetic::draw_index(
        args.tables[i / hot % slots], args.seed, random_stream(args.of_index, sample), static_cast<std::uint32_t>(hot),
        static_cast<std::uint32_t>(i % hot), synthetic::draw_click(args.seed, args.of_label, sample), args.wrong_below);
  }
}

}  // namespace tw::models::reference
