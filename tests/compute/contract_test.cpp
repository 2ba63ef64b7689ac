// What every device promises beside arithmetic: usage errors, support, memory, clocks, refresh.
#include <cstdint>
#include <cstring>

#include "models/compute/error.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Contract);

/// Runs `call` and returns the text of the usage error that it must throw.
template <class Call>
std::string usage_error(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
void expect_names(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" in: " << text;
}

TEST_P(Contract, PlansRefuseImpossibleShapes) {
  TW_NEEDS(Op::linear_forward);
  expect_names(usage_error([&] { device().plan(LinearShape{0, 3, 4, dtype()}); }), {"linear", "rows", "0"});
  try {  // a device may ask supports() first
    device().plan(LinearShape{2, 3, 4, DType::int32});
    ADD_FAILURE() << "a plan on int32";
  } catch (const Error& error) {
    expect_names(error.what(), {"int32"});
  }
  expect_names(usage_error([&] {
                 device().plan(ConvolutionShape{1, 2, 2, 1, 1, 5, 1, 1, dtype()});
               }),
               {"convolution", "kernel", "-1"});
  expect_names(usage_error([&] {
                 device().plan(ConvolutionShape{1, 2, 9, 1, 1, {1, 7}, 1, {0, -1}, dtype()});
               }),
               {"convolution", "padding", "-1"});
  expect_names(usage_error([&] {
                 device().plan(ConvolutionShape{1, 2, 2, 6, 4, 1, 1, 0, dtype(), Math::standard, 3});
               }),
               {"convolution", "groups", "4 channels", "3"});
  expect_names(usage_error([&] {
                 device().plan(LinearShape{2, 3, 4, dtype(), Activation::tanh});
               }),
               {"linear", "activation", "tanh"});
  expect_names(usage_error([&] { device().plan(AttentionShape{1, 0, 2, 8, true, dtype()}); }), {"attention", "seq"});
  expect_names(usage_error([&] {
                 device().plan(AttentionShape{1, 4, 6, 8, true, dtype(), Math::standard, 4});
               }),
               {"attention", "kv_heads", "6", "4"});
  expect_names(usage_error([&] {
                 device().plan(ClassifierShape{1, 2, 3, 1.5f, dtype()});
               }),
               {"classifier", "label_smoothing", "1.5"});
  expect_names(usage_error([&] {
                 device().plan(ClassifierShape{1, 2, 3, 0, dtype(), Math::standard, 0});
               }),
               {"classifier", "loss_weight", "0"});
  expect_names(usage_error([&] {
                 device().plan(ClassifierShape{1, 2, 30, 0, dtype(), Math::standard, 1, 29});
               }),
               {"classifier", "reserved_classes", "29", "30"});
}

TEST(Dims, CountIsChecked) {
  EXPECT_EQ((Dims{3, 4, 5, 6, 7}.count()), 2520);
  EXPECT_EQ((Dims{Dims::max_count}.count()), Dims::max_count);
  const std::int64_t odd = (std::int64_t{1} << 54) + 1, huge = std::int64_t{1} << 62;
  for (const Dims& dims :
       {Dims{odd, 1024}, Dims{huge, 4}, Dims{huge}, Dims{Dims::max_count + 1}, Dims{2, Dims::max_count}}) {
    expect_names(usage_error([&] { static_cast<void>(dims.count()); }), {dims.str().c_str(), "smaller batch"});
    const Tensor tensor{nullptr, DType::float32, dims};
    usage_error([&] { static_cast<void>(tensor.bytes()); });
  }
}

TEST(Dims, MoreExtentsThanThereIsRoomForAreRefused) {
  EXPECT_EQ((Dims{1, 2, 3, 4, 5}.rank()), 5);
  EXPECT_THROW((Dims{1, 2, 3, 4, 5, 6}), Error);
}

TEST_P(Contract, PlansRefuseSizesThatWrap) {
  TW_NEEDS(Op::linear_forward);
  const std::int64_t odd = (std::int64_t{1} << 54) + 1, huge = std::int64_t{1} << 62;
  for (const std::int64_t absurd : {odd, huge}) {
    usage_error([&] { device().plan(LinearShape{absurd, 1024, 4, dtype()}); });
    usage_error([&] { device().plan(LinearShape{2, absurd, 1024, dtype()}); });
    usage_error([&] { device().plan(ConvolutionShape{absurd, 32, 32, 1, 1, 1, 1, 0, dtype()}); });
    usage_error([&] { device().plan(AttentionShape{absurd, 16, 4, 16, true, dtype()}); });
    usage_error([&] { device().plan(ClassifierShape{absurd, 1024, 4, 0, dtype()}); });
  }
}

TEST_P(Contract, LinearErrorsSayWhatWasWanted) {
  TW_NEEDS(Op::linear_forward);
  Lab lab(device());
  const DType type = dtype(), other = is_half(type) ? DType::float32 : DType::bf16;
  const auto plan = device().plan(LinearShape{2, 3, 4, type});
  const auto gelu = device().plan(LinearShape{2, 3, 4, type, Activation::gelu});
  const Tensor x = lab.out("x", type, {2, 3}), y = lab.out("y", type, {2, 4}),
               weight = lab.in(type, {4, 3}, Floats(12, 1.0f));
  expect_names(usage_error([&] { plan->forward(*lab.stream, {.x = x, .y = y}); }), {"linear_forward", "bind()"});
  expect_names(usage_error([&] { plan->refresh(*lab.stream); }), {"refresh", "bind()"});
  expect_names(usage_error([&] { plan->bind(lab.out("w", type, {3, 4})); }), {"weight", "(4, 3)", "(3, 4)"});
  expect_names(usage_error([&] {
                 plan->bind(lab.out("w", other, {4, 3}));
               }),
               {"weight", to_string(type).data(), to_string(other).data()});
  plan->bind(weight);
  expect_names(usage_error([&] { plan->forward(*lab.stream, {.x = x, .y = y}); }), {"linear_forward", "refresh()"});
  plan->refresh(*lab.stream);
  gelu->bind(weight);
  gelu->refresh(*lab.stream);
  expect_names(usage_error([&] { plan->forward(*lab.stream, {.y = y}); }), {"linear_forward", "x", "no tensor"});
  expect_names(usage_error([&] {
                 plan->forward(*lab.stream, {.x = x.reshaped({3, 2}), .y = y});
               }),
               {"x", "(2, 3)", "(3, 2)"});
  expect_names(usage_error([&] {
                 plan->forward(*lab.stream, {.x = x, .y = lab.out("y", other, {2, 4})});
               }),
               {"y", to_string(type).data(), to_string(other).data()});
  expect_names(usage_error([&] { plan->forward(*lab.stream, {.x = x, .bias = lab.out("b", type, {3}), .y = y}); }),
               {"bias", "(4)", "(3)"});
  expect_names(usage_error([&] { gelu->forward(*lab.stream, {.x = x, .y = y}); }), {"pre_activation"});
  expect_names(
      usage_error([&] {
        gelu->forward(*lab.stream, {.x = x, .residual = y, .pre_activation = lab.out("p", type, {2, 4}), .y = y});
      }),
      {"residual", "activation"});
  const Tensor both = lab.out("both", type, {3, 4});
  expect_names(usage_error([&] {
                 plan->forward(*lab.stream, {.x = both.slice(0, {2, 3}), .y = both.slice(4, {2, 4})});
               }),
               {"y", "apart"});
  expect_names(usage_error([&] {
                 plan->backward_input(*lab.stream, {.dy = y, .dx = y.reshaped({4, 2})});
               }),
               {"linear_backward_input", "dx"});
  expect_names(
      usage_error([&] {
        plan->backward_weights(*lab.stream, {.x = x, .dy = y, .d_weight = lab.out("d", DType::float32, {3, 4})});
      }),
      {"linear_backward_weights", "d_weight", "(4, 3)"});
}

TEST_P(Contract, PlanErrors) {
  TW_NEEDS(Op::attention_forward);
  Lab lab(device());
  const DType type = dtype();
  const auto convolution = device().plan(ConvolutionShape{1, 4, 4, 2, 3, 3, 2, 1, type});
  convolution->bind(lab.in(type, {3, 3, 3, 2}, Floats(54, 1.0f)));
  convolution->refresh(*lab.stream);
  const Tensor image = lab.out("image", type, {1, 4, 4, 2}), small = lab.out("small", type, {1, 2, 2, 3});
  expect_names(usage_error([&] {
                 convolution->forward(*lab.stream, {image, image});
               }),
               {"convolution_forward", "y", "(1, 2, 2, 3)"});
  expect_names(usage_error([&] {
                 convolution->backward_input(*lab.stream, {image, image});
               }),
               {"convolution_backward_input", "dy"});
  expect_names(usage_error([&] {
                 convolution->backward_weights(*lab.stream, {image, small, lab.out("d", DType::float32, {3, 2, 3, 3})});
               }),
               {"convolution_backward_weights", "d_weight", "(3, 3, 3, 2)"});
  const auto attention = device().plan(AttentionShape{2, 3, 2, 4, true, type});
  const Tensor qkv = lab.out("qkv", type, {2, 3, 6, 4}), out = lab.out("out", type, {2, 3, 2, 4});
  expect_names(usage_error([&] {
                 attention->forward(*lab.stream, {qkv, out, lab.out("l", DType::float32, {2, 3, 2})});
               }),
               {"attention_forward", "log_sum_exp", "(2, 2, 3)"});
  expect_names(usage_error([&] {
                 attention->forward(*lab.stream, {qkv.reshaped({6, 24}), out, {}});
               }),
               {"qkv", "(2, 3, 6, 4)", "(6, 24)"});
  expect_names(usage_error([&] {
                 attention->backward(*lab.stream, {out, qkv, out, lab.out("l", DType::float32, {2, 2, 3}), qkv});
               }),
               {"attention_backward", "d_qkv", "apart"});
  const auto classifier = device().plan(ClassifierShape{2, 3, 5, 0, type});
  classifier->bind(lab.in(type, {5, 3}, Floats(15, 1.0f)));
  classifier->refresh(*lab.stream);
  const Tensor x = lab.out("x", type, {2, 3}), loss = lab.out("loss", DType::float32, {1});
  expect_names(usage_error([&] {
                 classifier->forward_backward(*lab.stream,
                                              {.x = x, .targets = lab.out("t", DType::float32, {2}), .loss = loss});
               }),
               {"classifier", "targets", "int32", "float32"});
  expect_names(usage_error([&] {
                 classifier->forward_backward(*lab.stream, {.x = x, .targets = lab.in({2}, Ints{0, 1}), .loss = loss});
               }),
               {"classifier", "dx", "no tensor"});
}

TEST_P(Contract, OperatorErrors) {
  TW_NEEDS(Op::layer_norm_forward);
  Lab lab(device());
  const DType type = dtype();
  Device& d = device();
  Stream& stream = *lab.stream;
  const Tensor a = lab.out("a", type, {4, 6}), b = lab.out("b", type, {4, 6}), c = lab.out("c", type, {6, 4});
  const Tensor row = lab.out("row", type, {6}), image = lab.out("image", type, {1, 4, 4, 2}),
               wide = lab.out("wide", DType::float32, {6});
  const Tensor narrow = lab.out("narrow", DType::float32, {4});
  expect_names(usage_error([&] { d.add(stream, {a, c, a}); }), {"add", "b", "(4, 6)", "(6, 4)"});
  expect_names(usage_error([&] {
                 d.add(stream, {a.slice(0, {3}), b.slice(0, {3}), a.slice(1, {3})});
               }),
               {"add", "y", "partly"});
  expect_names(usage_error([&] { d.fill(stream, {Tensor{}, 1.0f}); }), {"fill", "y", "no tensor"});
  expect_names(usage_error([&] { d.cast(stream, {a, b}); }), {"cast", "y"});
  expect_names(usage_error([&] {
                 d.layer_norm_forward(stream,
                                      {.x = a, .gamma = row, .beta = row, .y = b, .mean = wide, .rstd = narrow});
               }),
               {"layer_norm_forward", "mean", "(4)", "(6)"});
  expect_names(usage_error([&] {
                 d.layer_norm_forward(
                     stream,
                     {.x = a, .residual = b, .gamma = row, .beta = row, .y = b, .mean = narrow, .rstd = narrow});
               }),
               {"layer_norm_forward", "sum", "no tensor"});
  expect_names(
      usage_error([&] {
        d.layer_norm_backward(
            stream,
            {.dy = a, .x = b, .gamma = row, .mean = narrow, .rstd = narrow, .dx = b, .d_gamma = wide, .d_beta = wide});
      }),
      {"layer_norm_backward", "dx", "apart"});
  const Tensor channels = lab.out("channels", DType::float32, {2});
  expect_names(usage_error([&] {
                 d.batch_norm_forward(stream, {.x = image,
                                               .gamma = channels,
                                               .beta = channels,
                                               .running_mean = channels,
                                               .y = image,
                                               .mean = channels,
                                               .rstd = channels});
               }),
               {"batch_norm_forward", "running_var"});
  expect_names(usage_error([&] {
                 d.batch_norm_forward(
                     stream,
                     {.x = image, .gamma = channels, .beta = channels, .y = image, .mean = channels, .rstd = channels});
               }),
               {"batch_norm_forward", "y", "apart"});
  const Tensor pixel = lab.out("pixel", type, {1, 1, 1, 2});
  expect_names(usage_error([&] {
                 d.batch_norm_forward(
                     stream,
                     {.x = pixel, .gamma = channels, .beta = channels, .y = image, .mean = channels, .rstd = channels});
               }),
               {"batch_norm_forward", "at least 2", "1"});
  expect_names(usage_error([&] {
                 d.batch_norm_backward(stream, {.dy = image,
                                                .x = lab.out("x", type, {1, 4, 4, 2}),
                                                .gamma = channels,
                                                .mean = channels,
                                                .rstd = channels,
                                                .relu = true,
                                                .dx = image,
                                                .d_gamma = channels,
                                                .d_beta = channels});
               }),
               {"batch_norm_backward", "beta", "no tensor"});  // without y its mask is computed again
  expect_names(usage_error([&] { d.max_pool_forward(stream, {.x = image, .y = image, .argmax = image}); }),
               {"max_pool_forward", "y", "(1, 2, 2, 2)"});
  expect_names(usage_error([&] {
                 d.max_pool_forward(stream, {.x = image, .kernel = 2, .padding = 2, .y = image, .argmax = image});
               }),
               {"max_pool_forward", "padding"});
  expect_names(usage_error([&] { d.max_pool_backward(stream, {.dy = image, .argmax = image, .dx = image}); }),
               {"max_pool_backward", "dy"});
  expect_names(usage_error([&] {
                 d.average_pool_forward(stream, {image, row});
               }),
               {"average_pool_forward", "y", "(1, 2)"});
  expect_names(usage_error([&] {
                 d.average_pool_backward(stream, {row, image});
               }),
               {"average_pool_backward", "dy", "(1, 2)"});
  expect_names(usage_error([&] {
                 d.average_pool_forward(stream, {image, row, {3, 1}, 1, {1, 0}});
               }),
               {"average_pool_forward", "y", "(1, 4, 4, 2)"});
  expect_names(usage_error([&] {
                 d.average_pool_backward(stream, {image, image, {3, 1}, 1, {2, 0}});
               }),
               {"average_pool_backward", "padding"});
  expect_names(usage_error([&] {
                 d.copy_channels(stream, {a, c, 0, 0, 1});
               }),
               {"copy_channels", "y", "(4, 6)", "(6, 4)"});
  expect_names(usage_error([&] { d.copy_channels(stream, {a, b, 4, 0, 3}); }), {"copy_channels", "channels of x"});
  expect_names(usage_error([&] { d.copy_channels(stream, {a, a, 0, 0, 3}); }), {"copy_channels", "y", "apart"});
  const Tensor tokens = lab.in({1, 4}, Ints{0, 1, 2, 3}), embedded = lab.out("embedded", type, {1, 4, 6});
  expect_names(usage_error([&] {
                 d.embedding_forward(stream, {tokens, a, a.slice(0, {3, 6}), embedded});
               }),
               {"embedding_forward", "position_table", "4", "3"});
  expect_names(usage_error([&] {
                 d.embedding_forward(stream, {a, a, {}, embedded});
               }),
               {"embedding_forward", "tokens", "int32"});
  expect_names(
      usage_error([&] { d.embedding_backward(stream, {.tokens = tokens, .dy = embedded, .d_token_table = narrow}); }),
      {"embedding_backward", "d_token_table"});
  expect_names(usage_error([&] { d.global_norm(stream, {wide, nullptr, 1}); }), {"global_norm", "scalars", "null"});
  expect_names(usage_error([&] { d.global_norm(stream, {c, nullptr, 1}); }), {"global_norm", "gradient", "(24)"});
  expect_names(usage_error([&] { d.adamw(stream, {.master = wide, .gradient = narrow}); }),
               {"adamw", "gradient", "(6)", "(4)"});
  expect_names(usage_error([&] {
                 d.sgd(stream, {.master = wide, .gradient = wide, .momentum_buffer = wide, .segment_count = 1});
               }),
               {"sgd", "segments", "null"});
}

TEST_P(Contract, SupportIsHonest) {
  // Each group of operators runs where supports() says so, and throws `unsupported` where it does not.
  Device& d = device();
  const DType type = dtype();
  const auto check = [&](Op op, const Case& run) {
    SCOPED_TRACE(to_string(op));
    try {
      run_on(d, run);
      EXPECT_TRUE(d.supports(op, type)) << "it ran";
    } catch (const Error& error) {
      EXPECT_FALSE(d.supports(op, type)) << error.what();
      EXPECT_EQ(error.failure(), Failure::unsupported) << error.what();
      EXPECT_GT(std::strlen(error.what()), 10u);
    }
  };
  check(Op::linear_forward, [&](Lab& lab) { lab.device.plan(LinearShape{2, 3, 4, type}); });
  check(Op::convolution_forward, [&](Lab& lab) { lab.device.plan(ConvolutionShape{1, 4, 4, 2, 3, 3, 1, 1, type}); });
  check(Op::attention_forward, [&](Lab& lab) { lab.device.plan(AttentionShape{1, 4, 2, 8, true, type}); });
  check(Op::classifier, [&](Lab& lab) { lab.device.plan(ClassifierShape{2, 3, 4, 0, type}); });
  check(Op::fill, [&](Lab& lab) { lab.device.fill(*lab.stream, {lab.out("y", type, {5}), 1}); });
  check(Op::add, [&](Lab& lab) {
    lab.device.add(*lab.stream, {lab.in(type, {3}, {1, 2, 3}), lab.in(type, {3}, {1, 2, 3}), lab.out("y", type, {3})});
  });
  check(Op::average_pool_forward, [&](Lab& lab) {
    lab.device.average_pool_forward(*lab.stream, {lab.in(type, {1, 1, 2, 1}, {1, 2}), lab.out("y", type, {1, 1})});
  });
  if (is_half(type)) {
    check(Op::cast, [&](Lab& lab) {
      lab.device.cast(*lab.stream, {lab.in(type, {2}, {1, 2}), lab.out("y", DType::float32, {2})});
    });
  }
  // A network needs forward and backward: a device has both of a pair or neither.
  for (const auto& [forward, backward] : {std::pair{Op::linear_forward, Op::linear_backward_weights},
                                          {Op::convolution_forward, Op::convolution_backward_weights},
                                          {Op::attention_forward, Op::attention_backward},
                                          {Op::embedding_forward, Op::embedding_backward},
                                          {Op::layer_norm_forward, Op::layer_norm_backward},
                                          {Op::rms_norm_forward, Op::rms_norm_backward},
                                          {Op::swiglu_forward, Op::swiglu_backward},
                                          {Op::gather_rows, Op::scatter_rows},
                                          {Op::embedding_bag_forward, Op::embedding_bag_update},
                                          {Op::interaction_forward, Op::interaction_backward},
                                          {Op::activation_forward, Op::activation_backward},
                                          {Op::batch_norm_forward, Op::batch_norm_backward},
                                          {Op::add_bias, Op::bias_backward},
                                          {Op::max_pool_forward, Op::max_pool_backward},
                                          {Op::average_pool_forward, Op::average_pool_backward}}) {
    EXPECT_EQ(d.supports(forward, type), d.supports(backward, type)) << to_string(forward);
  }
  EXPECT_FALSE(d.supports(Op::linear_forward, DType::int32));
}

TEST_P(Contract, MemoryIsAlignedCountedAndReturned) {
  Device& d = device();
  const std::size_t before = d.allocated_bytes();
  {
    Buffer first(d, 1000), second(d, 1);
    for (const Buffer* buffer : {&first, &second})
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 128, 0u);
    EXPECT_GE(d.allocated_bytes(), before + 1001);
    Buffer moved = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_EQ(moved.bytes(), 1000u);
    second = std::move(moved);
    EXPECT_EQ(second.bytes(), 1000u);
    EXPECT_GE(d.peak_allocated_bytes(), before + 1001);
  }
  EXPECT_EQ(d.allocated_bytes(), before);
  EXPECT_FALSE(Buffer());
  try {
    Buffer huge(d, std::size_t{1} << 60);
    FAIL() << "2^60 bytes were given";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    expect_names(error.what(), {"1152921504606846976"});
  }
  EXPECT_EQ(d.allocated_bytes(), before);
}

TEST_P(Contract, CopiesAndEvents) {
  Device& d = device();
  const auto stream = d.create_stream();
  Buffer a(d, 1000), b(d, 1000);
  std::vector<unsigned char> sent(1000), received(1000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 37);
  const auto start = d.create_event(), end = d.create_event();
  start->record(*stream);
  d.copy_from_host(*stream, a.data(), sent.data(), 1000);
  d.copy(*stream, b.data(), a.data(), 1000);
  d.copy_to_host(*stream, received.data(), b.data(), 1000);
  end->record(*stream);
  stream->synchronize();
  EXPECT_EQ(sent, received);
  EXPECT_GE(end->seconds_since(*start), 0);
}

TEST_P(Contract, ProfileChargesTheOperator) {
  TW_NEEDS(Op::add);
  Device& d = device();
  const auto slot = static_cast<std::size_t>(Op::add);
  const auto add = [&] {
    run_on(d, [&](Lab& lab) {
      lab.device.add(*lab.stream,
                     {lab.in(dtype(), {3}, {1, 2, 3}), lab.in(dtype(), {3}, {1, 2, 3}), lab.out("y", dtype(), {3})});
    });
  };
  d.reset_profile();
  EXPECT_FALSE(d.profiling());
  add();
  EXPECT_EQ(d.profile().calls[slot], 0);
  d.set_profiling(true);
  add();
  add();
  d.set_profiling(false);
  EXPECT_EQ(d.profile().calls[slot], 2);
  EXPECT_GT(d.profile().seconds[slot], 0);
  d.reset_profile();
}

TEST_P(Contract, InfoIsFilled) {
  const DeviceInfo info = device().info();
  EXPECT_EQ(to_string(info.kind), GetParam().device);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.threads, 1);
  EXPECT_GT(info.memory_bytes, 0u);
}

TEST(Registry, ListsEveryBackendWithAReasonForAbsence) {
  std::string names;
  for (const Backend& backend : backends()) {
    names += std::string(backend.name) + " ";
    EXPECT_STREQ(to_string(backend.kind), backend.name);
    EXPECT_EQ(backend.count() == 0, !backend.why_none().empty()) << backend.name;
  }
  EXPECT_EQ(names, "cuda cpu reference ");
}

TEST(Registry, ErrorsNameTheDevice) {
  expect_names(usage_error([] { create_device("tpu", {}); }), {"tpu", "cuda, cpu, reference"});
  for (const Backend& backend : backends()) {
    if (backend.count() > 0) continue;
    try {
      create_device(backend.name, {});
      ADD_FAILURE() << backend.name << " was created";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::environment);
      expect_names(error.what(), {backend.name, backend.why_none().c_str()});
    }
  }
}

TEST(Registry, ThreadsAreAsAsked) { EXPECT_EQ(create_device("reference", {.threads = 1})->info().threads, 1); }

TEST(Operators, HaveNames) {
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) EXPECT_STRNE(to_string(static_cast<Op>(i)), "?") << i;
}

TEST(Tensors, Extents) {
  EXPECT_EQ((Dims{4, 256, 768}.str()), "(4, 256, 768)");
  EXPECT_EQ(Dims{}.count(), 0);
  EXPECT_EQ((Dims{2, 0, 3}.count()), 0);
  EXPECT_EQ((Dims{2, 5, 3}.count()), 30);
  float values[12] = {};
  const Tensor tensor{values, DType::float32, {3, 4}};
  EXPECT_EQ(tensor.bytes(), 48u);
  EXPECT_EQ(tensor.slice(4, {2, 4}).data, values + 4);
  EXPECT_EQ(tensor.reshaped({12}).dims, Dims{12});
}

}  // namespace
}  // namespace tw::test
