// Embedding bags, interaction and binary cross-entropy of the reference device against finite differences.
#include "tests/compute/gradient_check.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Gradients, EmbeddingBags) {
  // Two tables and an empty slot between them; a bag may name a row twice. The update of zeros at rate −1 is the
  // gradient.
  const std::int64_t batch = 5, slots = 3, hot = 2, width = 3, all = 7;
  const Floats rows = grid_normal(all * width, 1), c = grid_normal(batch * slots * width, 2);
  const Ints tables = {0, 3, 0, 0, 3, 4};
  Ints index = indices(batch * slots * hot, 3, 3);
  StepScalars step;
  step.learning_rate = -1;
  const auto run = [&](const Floats& values, Floats* gradient) {
    Lab lab(reference_device());
    const Tensor tables_t = lab.in({slots, 2}, tables), indices_t = lab.in({batch, slots, hot}, index),
                 y = lab.out("y", f32, {batch, slots, width}),
                 d_rows = lab.in_out("d", f32, {all, width}, Floats(rows.size(), 0.0f));
    lab.device.embedding_bag_forward(*lab.stream, {lab.in(f32, {all, width}, values), tables_t, indices_t, y});
    lab.device.embedding_bag_update(
        *lab.stream, {d_rows, tables_t, indices_t, lab.in(f32, {batch, slots, width}, c), lab.scalars(step)});
    if (gradient != nullptr) *gradient = lab.read(d_rows);
    return weighted_sum(lab.read(y), c);
  };
  Floats gradient;
  run(rows, &gradient);
  check_gradient(
      "rows", rows, [&](const Floats& v) { return run(v, nullptr); }, gradient);
}

TEST(Gradients, Interaction) {
  // Two shards of two slots, one of which is no feature's place.
  const Dims dense_dims{3, 5}, bags_dims{2, 3, 2, 5}, out{3, 5 + 6};
  const Floats dense = grid_normal(dense_dims.count(), 1), bags = grid_normal(bags_dims.count(), 2),
               c = grid_normal(out.count(), 3);
  struct Result {
    double loss;
    Floats d_dense, d_bags;
  };
  const auto run = [&](const Floats& dense_, const Floats& bags_) {
    Lab lab(reference_device());
    const Tensor dense_t = lab.in(f32, dense_dims, dense_), bags_t = lab.in(f32, bags_dims, bags_),
                 places = lab.in({3}, {3, 0, 2}), y = lab.out("y", f32, out),
                 d_dense = lab.out("d_dense", f32, dense_dims),
                 d_bags = lab.in_out("d_bags", f32, bags_dims, Floats(bags.size(), 0.0f));
    lab.device.interaction_forward(*lab.stream, {dense_t, bags_t, places, y});
    lab.device.interaction_backward(*lab.stream, {lab.in(f32, out, c), dense_t, bags_t, places, d_dense, d_bags});
    return Result{weighted_sum(lab.read(y), c), lab.read(d_dense), lab.read(d_bags)};
  };
  const Result result = run(dense, bags);
  check_gradient(
      "dense", dense, [&](const Floats& v) { return run(v, bags).loss; }, result.d_dense);
  check_gradient(
      "bags", bags, [&](const Floats& v) { return run(dense, v).loss; }, result.d_bags);
}

TEST(Gradients, BinaryCrossEntropy) {
  const Floats logits = grid_normal(7, 1);
  const auto run = [&](const Floats& z, Floats* gradient) {
    Lab lab(reference_device());
    const Tensor loss = lab.out("loss", f32, {1}), d = lab.out("d", f32, {7});
    lab.device.binary_cross_entropy(*lab.stream,
                                    {lab.in(f32, {7}, z), lab.in({7}, {0, 1, 1, 0, 0, 1, 0}), loss, {}, d});
    if (gradient != nullptr) *gradient = lab.read(d);
    return static_cast<double>(lab.read(loss)[0]);
  };
  Floats gradient;
  run(logits, &gradient);
  check_gradient(
      "logits", logits, [&](const Floats& v) { return run(v, nullptr); }, gradient);
}

}  // namespace
}  // namespace tw::test
