// The output head.
#include <algorithm>
#include <cmath>

#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Classifier);

struct Options {
  bool bias = false, accumulate = false, backward = true, correct = true;
  float smoothing = 0;
  Math math = Math::standard;
  float weight = 1;
  std::int64_t reserved = 0;
};

/// The cuda device stores a row's logits as T, as frameworks do.
int logit_roundings(const Device& device) { return device.info().kind == DeviceKind::cuda ? 1 : 0; }

Case classifier(DType type, std::int64_t rows, std::int64_t in, std::int64_t classes, Options options) {
  return [=](Lab& lab) {
    ClassifierShape shape{rows, in, classes, options.smoothing, type, options.math, options.weight, options.reserved};
    const auto plan = lab.device.plan(shape);
    const double scale = 1 / std::sqrt(static_cast<double>(in));  // logits of standard deviation 1
    // Behind the classes there are numbers like any others, which must not count.
    const Dims of_classes{classes, in}, of_all{std::max(classes, options.reserved), in};
    plan->bind(lab.in(type, of_all, normal(of_all.count(), 2, scale)).slice(0, of_classes));
    plan->refresh(*lab.stream);
    const auto gradient = [&](const char* name, const Dims& dims, double size) {
      return options.accumulate     ? lab.in_out(name, DType::float32, dims, normal(dims.count(), 7, size))
             : options.reserved > 0 ? lab.in_out(name, DType::float32, dims, Floats(dims.count(), 0))
                                    : lab.out(name, DType::float32, dims);
    };
    ClassifierForwardBackward args;
    args.x = lab.in(type, {rows, in}, normal(rows * in, 1));
    // One target is always row 0's: some rows are right by construction of the seeds, or the case would be blind.
    args.targets = lab.in({rows}, indices(rows, 3, static_cast<int>(classes)));
    if (options.bias) args.bias = lab.in(type, {classes}, normal(classes, 4));
    args.loss = lab.out("loss", DType::float32, {1}, logit_roundings(lab.device));
    args.backward = options.backward;
    args.accumulate = options.accumulate;
    if (options.backward) {
      args.dx = lab.out("dx", type, {rows, in});
      args.d_weight = gradient("d_weight", of_all, 1e-2).slice(0, of_classes);
      if (options.bias) args.d_bias = gradient("d_bias", {classes}, 1e-2);
    }
    plan->forward_backward(*lab.stream, args);
  };
}

TEST_P(Classifier, FollowsReference) {
  TW_NEEDS(Op::classifier);
  for (const Dims& s :
       {Dims{1, 1, 2}, Dims{1, 3, 5}, Dims{3, 17, 31}, Dims{33, 64, 127}, Dims{17, 33, 1000}, Dims{64, 48, 4099}}) {
    SCOPED_TRACE(s.str());
    for (const Options options :
         {Options{}, Options{.bias = true, .smoothing = 0.1f}, Options{.bias = true, .accumulate = true},
          Options{.accumulate = true, .smoothing = 0.1f}, Options{.bias = true, .smoothing = 0.1f, .weight = 0.4f},
          Options{.bias = true, .backward = false}}) {
      compare(device(), Op::classifier, dtype(), classifier(dtype(), s[0], s[1], s[2], options));
    }
  }
}

// Rows of memory behind the classes, which a device may compute with: what it adds to their gradient is 0.
TEST_P(Classifier, ReservedClassesCountInNothing) {
  TW_NEEDS(Op::classifier);
  for (const Dims& s : {Dims{3, 17, 31, 32}, Dims{33, 64, 121, 128}, Dims{17, 33, 1000, 1024}, Dims{33, 24, 3, 200}}) {
    SCOPED_TRACE(s.str());
    for (const Options options :
         {Options{.reserved = s[3]}, Options{.bias = true, .smoothing = 0.1f, .reserved = s[3]},
          Options{.bias = true, .accumulate = true, .reserved = s[3]}, Options{.backward = false, .reserved = s[3]}}) {
      compare(device(), Op::classifier, dtype(), classifier(dtype(), s[0], s[1], s[2], options));
    }
  }
}

TEST_P(Classifier, Bf16ProductsFollowReference) {
  if (dtype() != DType::float32) return;  // it is how float32 is multiplied
  TW_NEEDS(Op::classifier);
  for (const Dims& s : {Dims{33, 64, 127}, Dims{64, 96, 4099}}) {
    SCOPED_TRACE(s.str());
    compare_bf16_products(device(), Op::classifier,
                          classifier(dtype(), s[0], s[1], s[2], {.bias = true, .smoothing = 0.1f, .math = Math::bf16}));
  }
}

TEST_P(Classifier, EqualLogitsCostTheLogOfClasses) {
  TW_NEEDS(Op::classifier);
  for (const float smoothing : {0.0f, 0.1f}) {
    const std::int64_t rows = 4, in = 2, classes = 8;
    Lab lab(device());
    const auto plan = device().plan(ClassifierShape{rows, in, classes, smoothing, dtype()});
    plan->bind(lab.in(dtype(), {classes, in}, Floats(16, 0.0f)));
    plan->refresh(*lab.stream);
    const Tensor loss = lab.out("loss", DType::float32, {1}), correct = lab.out("correct", DType::int32, {1});
    const Tensor dx = lab.out("dx", dtype(), {rows, in}), d_weight = lab.out("d_weight", DType::float32, {classes, in});
    plan->forward_backward(*lab.stream, {.x = lab.in(dtype(), {rows, in}, {1, 0, 1, 0, 1, 0, 1, 0}),
                                         .targets = lab.in({rows}, Ints{0, 0, 3, 7}),
                                         .loss = loss,
                                         .correct = correct,
                                         .dx = dx,
                                         .d_weight = d_weight});
    EXPECT_NEAR(lab.read(loss)[0], std::log(8.0), 1e-6);
    const Floats d = lab.read(d_weight);
    for (int j = 0; j < classes; ++j) {
      const int hits = j == 0 ? 2 : j == 3 || j == 7 ? 1 : 0;
      const double wanted = 1 / 8.0 - smoothing / 8.0 - (1 - smoothing) * hits / 4.0;  // mean of p − target
      EXPECT_NEAR(d[2 * j], wanted, is_half(dtype()) ? 0.25 * 0x1p-8 : 1e-7) << j;
      EXPECT_EQ(d[2 * j + 1], 0);
    }
    for (const Output& output : lab.finish()) {
      if (output.name == "correct") {
        EXPECT_EQ(output.values[0], 2);  // the first of equals is class 0
      }
    }
  }
}

TEST_P(Classifier, CountsCorrectRows) {
  TW_NEEDS(Op::classifier);
  // Logits are integers, with ties: the count is exact.
  for (const Dims& s : {Dims{17, 3, 5}, Dims{127, 7, 33}, Dims{64, 16, 1000}}) {
    SCOPED_TRACE(s.str());
    const Floats x = integers(s[0] * s[1], 1, -2, 2), weight = integers(s[2] * s[1], 2, -2, 2);
    Ints targets = indices(s[0], 3, static_cast<int>(s[2]));
    int wanted = 0;
    for (std::int64_t i = 0; i < s[0]; ++i) {
      std::int32_t best = 0;
      float largest = -1e9f;
      for (std::int32_t j = 0; j < s[2]; ++j) {
        float logit = 0;
        for (std::int64_t k = 0; k < s[1]; ++k) logit += x[i * s[1] + k] * weight[j * s[1] + k];
        if (logit > largest) largest = logit, best = j;
      }
      if (i % 3 == 0) targets[i] = best;
      wanted += targets[i] == best;
    }
    Lab lab(device());
    const auto plan = device().plan(ClassifierShape{s[0], s[1], s[2], 0, dtype()});
    plan->bind(lab.in(dtype(), {s[2], s[1]}, weight));
    plan->refresh(*lab.stream);
    plan->forward_backward(*lab.stream, {.x = lab.in(dtype(), {s[0], s[1]}, x),
                                         .targets = lab.in({s[0]}, targets),
                                         .loss = lab.out("loss", DType::float32, {1}),
                                         .correct = lab.out("correct", DType::int32, {1}),
                                         .backward = false});
    EXPECT_EQ(lab.finish()[1].values[0], wanted);
  }
}

TEST_P(Classifier, FindsTheLargestLogitAtEveryClass) {
  TW_NEEDS(Op::classifier);
  for (const std::int64_t classes : {31, 32, 67}) {
    SCOPED_TRACE(classes);
    Floats unit(classes * classes, 0.0f);
    Ints targets(classes);
    for (std::int64_t i = 0; i < classes; ++i) unit[i * classes + i] = 1, targets[i] = static_cast<std::int32_t>(i);
    Lab lab(device());
    const auto plan = device().plan(ClassifierShape{classes, classes, classes, 0, dtype()});
    plan->bind(lab.in(dtype(), {classes, classes}, unit));
    plan->refresh(*lab.stream);
    plan->forward_backward(*lab.stream, {.x = lab.in(dtype(), {classes, classes}, unit),
                                         .targets = lab.in({classes}, targets),
                                         .loss = lab.out("loss", DType::float32, {1}),
                                         .correct = lab.out("correct", DType::int32, {1}),
                                         .backward = false});
    EXPECT_EQ(lab.finish()[1].values[0], classes);
  }
}

TEST_P(Classifier, FollowsTheWeightAfterRefresh) {
  TW_NEEDS(Op::classifier);
  const Case changed = [&](Lab& lab) {
    const auto plan = lab.device.plan(ClassifierShape{17, 33, 31, 0, dtype()});
    const Tensor weight = lab.in(dtype(), {31, 33}, normal(31 * 33, 2, 0.2));
    plan->bind(weight);
    plan->refresh(*lab.stream);
    for (const char* name : {"before", "after"}) {
      plan->forward_backward(
          *lab.stream, {.x = lab.in(dtype(), {17, 33}, normal(17 * 33, 1)),
                        .targets = lab.in({17}, indices(17, 3, 31)),
                        .loss = lab.out(std::string("loss ") + name, DType::float32, {1}, logit_roundings(lab.device)),
                        .dx = lab.out(std::string("dx ") + name, dtype(), {17, 33}),
                        .d_weight = lab.out(std::string("d_weight ") + name, DType::float32, {31, 33})});
      lab.stream->synchronize();
      lab.change(weight, normal(31 * 33, 9, 0.2));
      plan->refresh(*lab.stream);
    }
  };
  compare(device(), Op::classifier, dtype(), changed);
  const std::vector<Output> outputs = run_on(device(), changed);
  EXPECT_NE(outputs[0].bytes, outputs[3].bytes);
}

TEST_P(Classifier, SurvivesLargeLogits) {
  TW_NEEDS(Op::classifier);
  compare(device(), Op::classifier, dtype(), [&](Lab& lab) {
    const auto plan = lab.device.plan(ClassifierShape{3, 2, 4, 0, dtype()});
    plan->bind(lab.in(dtype(), {4, 2}, {100, 0, 0, 100, -100, 50, 64, 64}));
    plan->refresh(*lab.stream);
    plan->forward_backward(*lab.stream, {.x = lab.in(dtype(), {3, 2}, {8, 0, 0, 8, -4, 2}),
                                         .targets = lab.in({3}, Ints{1, 1, 2}),
                                         .loss = lab.out("loss", DType::float32, {1}, logit_roundings(lab.device)),
                                         .dx = lab.out("dx", dtype(), {3, 2}),
                                         .d_weight = lab.out("d_weight", DType::float32, {4, 2})});
  });
}

}  // namespace
}  // namespace tw::test
