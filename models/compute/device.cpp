// Buffer, and the checked public half of Device.
#include "models/compute/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "models/compute/checks.hpp"

namespace tw::models {

Buffer::Buffer(Device& device, std::size_t bytes)
    : device_(&device), data_(bytes > 0 ? device.allocate(bytes) : nullptr), bytes_(bytes) {}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) device_->free(data_);
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) device_->free(data_);
}

HostBuffer::HostBuffer(Device& device, std::size_t bytes)
    : device_(&device), data_(bytes > 0 ? device.allocate_host(bytes) : nullptr), bytes_(bytes) {}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) device_->free_host(data_);
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) device_->free_host(data_);
}

void* Device::allocate_host(std::size_t bytes) {
  constexpr std::size_t alignment = 128;
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* data = padded >= bytes ? std::aligned_alloc(alignment, std::max(padded, alignment)) : nullptr;
  if (data == nullptr)
    throw Error(Failure::environment, "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  return data;
}
void Device::free_host(void* data) noexcept { std::free(data); }

void Device::begin_capture(Stream&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + ": this device records no graphs");
}
std::unique_ptr<Graph> Device::end_capture(Stream&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + ": this device records no graphs");
}

const char* to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::reference:
      return "reference";
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "?";
}

void Device::embedding_forward(Stream& stream, const EmbeddingForward& args) {
  const Check check(Op::embedding_forward);
  const DType type = check.activation("token_table", args.token_table, 2);
  check.has_rank("tokens", args.tokens, DType::int32, 2);
  const std::int64_t seq = args.tokens.dims[1], width = args.token_table.dims[1];
  if (args.position_table) {
    check.activation("position_table", args.position_table, 2);
    check.has("position_table", args.position_table, type, {args.position_table.dims[0], width});
    check.at_least("rows of position_table", args.position_table.dims[0], seq);
  }
  check.has("y", args.y, type, {args.tokens.dims[0], seq, width});
  require_support(*this, Op::embedding_forward, type);
  charge(*this, stream, Op::embedding_forward, [&] { do_embedding_forward(stream, args); });
}

void Device::embedding_backward(Stream& stream, const EmbeddingBackward& args) {
  const Check check(Op::embedding_backward);
  const DType type = check.activation("dy", args.dy, 3);
  const std::int64_t seq = args.dy.dims[1], width = args.dy.dims[2];
  check.has("tokens", args.tokens, DType::int32, {args.dy.dims[0], seq});
  check.has_rank("d_token_table", args.d_token_table, DType::float32, 2);
  check.has("d_token_table", args.d_token_table, DType::float32, {args.d_token_table.dims[0], width});
  if (args.d_position_table) {
    check.has_rank("d_position_table", args.d_position_table, DType::float32, 2);
    check.has("d_position_table", args.d_position_table, DType::float32, {args.d_position_table.dims[0], width});
    check.at_least("rows of d_position_table", args.d_position_table.dims[0], seq);
  }
  require_support(*this, Op::embedding_backward, type);
  charge(*this, stream, Op::embedding_backward, [&] { do_embedding_backward(stream, args); });
}

void Device::layer_norm_forward(Stream& stream, const LayerNormForward& args) {
  const Check check(Op::layer_norm_forward);
  const DType type = check.activation("x", args.x, 2);
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  check.may_have("residual", args.residual, type, args.x.dims);
  if (args.residual) {
    check.has("sum", args.sum, type, args.x.dims);
    check.same_or_apart("sum", args.sum, "x", args.x);
    check.same_or_apart("sum", args.sum, "residual", args.residual);
    check.apart("y", args.y, "sum", args.sum);
    check.apart("y", args.y, "residual", args.residual);
  }
  check.has("gamma", args.gamma, type, {width});
  check.has("beta", args.beta, type, {width});
  check.has("y", args.y, type, args.x.dims);
  check.apart("y", args.y, "x", args.x);
  check.has("mean", args.mean, DType::float32, {rows});
  check.has("rstd", args.rstd, DType::float32, {rows});
  require_support(*this, Op::layer_norm_forward, type);
  charge(*this, stream, Op::layer_norm_forward, [&] { do_layer_norm_forward(stream, args); });
}

void Device::layer_norm_backward(Stream& stream, const LayerNormBackward& args) {
  const Check check(Op::layer_norm_backward);
  const DType type = check.activation("x", args.x, 2);
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  check.has("dy", args.dy, type, args.x.dims);
  check.has("gamma", args.gamma, type, {width});
  check.has("mean", args.mean, DType::float32, {rows});
  check.has("rstd", args.rstd, DType::float32, {rows});
  check.may_have("d_residual", args.d_residual, type, args.x.dims);
  check.has("dx", args.dx, type, args.x.dims);
  check.same_or_apart("d_residual", args.d_residual, "dx", args.dx);
  check.apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "x", args.x);
  check.has("d_gamma", args.d_gamma, DType::float32, {width});
  check.has("d_beta", args.d_beta, DType::float32, {width});
  require_support(*this, Op::layer_norm_backward, type);
  charge(*this, stream, Op::layer_norm_backward, [&] { do_layer_norm_backward(stream, args); });
}

void Device::batch_norm_forward(Stream& stream, const BatchNormForward& args) {
  const Check check(Op::batch_norm_forward);
  const DType type = check.activation("x", args.x, 4);
  const Dims channels{args.x.dims[3]};
  check.at_least("values for each channel (batch·height·width)", args.x.count() / args.x.dims[3], 2);
  check.has("gamma", args.gamma, DType::float32, channels);
  check.has("beta", args.beta, DType::float32, channels);
  check.may_have("running_mean", args.running_mean, DType::float32, channels);
  check.may_have("running_var", args.running_var, DType::float32, channels);
  if (static_cast<bool>(args.running_mean) != static_cast<bool>(args.running_var)) {
    check.fail("running_mean, running_var", "both or neither", "one of them");
  }
  check.may_have("residual", args.residual, type, args.x.dims);
  check.has("y", args.y, type, args.x.dims);
  check.apart("y", args.y, "x", args.x);
  check.apart("y", args.y, "residual", args.residual);
  check.has("mean", args.mean, DType::float32, channels);
  check.has("rstd", args.rstd, DType::float32, channels);
  require_support(*this, Op::batch_norm_forward, type);
  charge(*this, stream, Op::batch_norm_forward, [&] { do_batch_norm_forward(stream, args); });
}

void Device::batch_norm_backward(Stream& stream, const BatchNormBackward& args) {
  const Check check(Op::batch_norm_backward);
  const DType type = check.activation("x", args.x, 4);
  const Dims channels{args.x.dims[3]};
  check.has("dy", args.dy, type, args.x.dims);
  if (args.relu) check.has("y", args.y, type, args.x.dims);
  check.has("gamma", args.gamma, DType::float32, channels);
  check.has("mean", args.mean, DType::float32, channels);
  check.has("rstd", args.rstd, DType::float32, channels);
  check.has("dx", args.dx, type, args.x.dims);
  check.same_or_apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "x", args.x);
  if (args.relu) check.apart("dx", args.dx, "y", args.y);
  check.may_have("d_residual", args.d_residual, type, args.x.dims);
  check.apart("d_residual", args.d_residual, "dy", args.dy);
  check.apart("d_residual", args.d_residual, "dx", args.dx);
  check.has("d_gamma", args.d_gamma, DType::float32, channels);
  check.has("d_beta", args.d_beta, DType::float32, channels);
  require_support(*this, Op::batch_norm_backward, type);
  charge(*this, stream, Op::batch_norm_backward, [&] { do_batch_norm_backward(stream, args); });
}

namespace {

/// Extents after pooling; checks that each window holds at least one element.
Dims pooled(const Check& check, const Dims& image, int kernel, int stride, int padding) {
  check.at_least("kernel", kernel, 1);
  check.at_least("stride", stride, 1);
  check.at_least("padding", padding, 0);
  check.at_least("half the kernel less the padding", kernel / 2 - padding, 0);
  check.at_least("height + 2·padding − kernel", image[1] + 2 * padding - kernel, 0);
  check.at_least("width + 2·padding − kernel", image[2] + 2 * padding - kernel, 0);
  return {image[0], (image[1] + 2 * padding - kernel) / stride + 1, (image[2] + 2 * padding - kernel) / stride + 1,
          image[3]};
}

}  // namespace

void Device::max_pool_forward(Stream& stream, const MaxPoolForward& args) {
  const Check check(Op::max_pool_forward);
  const DType type = check.activation("x", args.x, 4);
  const Dims out = pooled(check, args.x.dims, args.kernel, args.stride, args.padding);
  check.has("y", args.y, type, out);
  check.apart("y", args.y, "x", args.x);
  check.has("argmax", args.argmax, DType::int32, out);
  require_support(*this, Op::max_pool_forward, type);
  charge(*this, stream, Op::max_pool_forward, [&] { do_max_pool_forward(stream, args); });
}

void Device::max_pool_backward(Stream& stream, const MaxPoolBackward& args) {
  const Check check(Op::max_pool_backward);
  const DType type = check.activation("dx", args.dx, 4);
  const Dims out = pooled(check, args.dx.dims, args.kernel, args.stride, args.padding);
  check.has("dy", args.dy, type, out);
  check.apart("dx", args.dx, "dy", args.dy);
  check.has("argmax", args.argmax, DType::int32, out);
  require_support(*this, Op::max_pool_backward, type);
  charge(*this, stream, Op::max_pool_backward, [&] { do_max_pool_backward(stream, args); });
}

void Device::average_pool_forward(Stream& stream, const AveragePoolForward& args) {
  const Check check(Op::average_pool_forward);
  const DType type = check.activation("x", args.x, 4);
  check.has("y", args.y, type, {args.x.dims[0], args.x.dims[3]});
  check.apart("y", args.y, "x", args.x);
  require_support(*this, Op::average_pool_forward, type);
  charge(*this, stream, Op::average_pool_forward, [&] { do_average_pool_forward(stream, args); });
}

void Device::average_pool_backward(Stream& stream, const AveragePoolBackward& args) {
  const Check check(Op::average_pool_backward);
  const DType type = check.activation("dx", args.dx, 4);
  check.has("dy", args.dy, type, {args.dx.dims[0], args.dx.dims[3]});
  check.apart("dx", args.dx, "dy", args.dy);
  require_support(*this, Op::average_pool_backward, type);
  charge(*this, stream, Op::average_pool_backward, [&] { do_average_pool_backward(stream, args); });
}

void Device::add(Stream& stream, const Add& args) {
  const Check check(Op::add);
  const DType type = check.activation("a", args.a);
  check.has("b", args.b, type, args.a.dims);
  check.has("y", args.y, type, args.a.dims);
  check.same_or_apart("y", args.y, "a", args.a);
  check.same_or_apart("y", args.y, "b", args.b);
  require_support(*this, Op::add, type);
  charge(*this, stream, Op::add, [&] { do_add(stream, args); });
}

void Device::cast(Stream& stream, const Cast& args) {
  const Check check(Op::cast);
  const DType from = check.activation("x", args.x);
  const DType to = check.activation("y", args.y);
  check.has("y", Tensor{args.y.data, args.y.dtype, {args.y.count()}}, to, {args.x.count()});
  if (is_half(from) == is_half(to)) {
    check.fail("y", is_half(from) ? "float32" : "bf16 or fp16", std::string(to_string(to)));
  }
  check.apart("y", args.y, "x", args.x);
  require_support(*this, Op::cast, is_half(from) ? from : to);
  charge(*this, stream, Op::cast, [&] { do_cast(stream, args); });
}

void Device::fill(Stream& stream, const Fill& args) {
  const DType type = Check(Op::fill).activation("y", args.y);
  require_support(*this, Op::fill, type);
  charge(*this, stream, Op::fill, [&] { do_fill(stream, args); });
}

void Device::global_norm(Stream& stream, const GlobalNorm& args) {
  const Check check(Op::global_norm);
  check.has("gradient", args.gradient, DType::float32, {args.gradient.count()});
  check.not_null("scalars", args.scalars);
  require_support(*this, Op::global_norm, DType::float32);
  charge(*this, stream, Op::global_norm, [&] { do_global_norm(stream, args); });
}

namespace {

template <class Args>
void check_optimizer(const Check& check, const Args& args) {
  check.has_rank("master", args.master, DType::float32, 1);
  if (args.weights) {
    if (!is_half(args.weights.dtype)) {
      check.fail("weights", "bf16 or fp16", std::string(to_string(args.weights.dtype)));
    }
    check.has("weights", args.weights, args.weights.dtype, args.master.dims);
  }
  check.has("gradient", args.gradient, DType::float32, args.master.dims);
  check.at_least("segment_count", args.segment_count, 0);
  if (args.segment_count > 0) check.not_null("segments", args.segments);
  check.not_null("scalars", args.scalars);
}

}  // namespace

void Device::adamw(Stream& stream, const AdamW& args) {
  const Check check(Op::adamw);
  check_optimizer(check, args);
  check.has("first_moment", args.first_moment, DType::float32, args.master.dims);
  check.has("second_moment", args.second_moment, DType::float32, args.master.dims);
  require_support(*this, Op::adamw, args.weights ? args.weights.dtype : DType::float32);
  charge(*this, stream, Op::adamw, [&] { do_adamw(stream, args); });
}

void Device::sgd(Stream& stream, const Sgd& args) {
  const Check check(Op::sgd);
  check_optimizer(check, args);
  check.has("momentum_buffer", args.momentum_buffer, DType::float32, args.master.dims);
  require_support(*this, Op::sgd, args.weights ? args.weights.dtype : DType::float32);
  charge(*this, stream, Op::sgd, [&] { do_sgd(stream, args); });
}

void Device::update_loss_scale(Stream& stream, const UpdateLossScale& args) {
  const Check check(Op::loss_scale);
  check.not_null("scalars", args.scalars);
  check.at_least("growth_interval", args.growth_interval, 1);
  require_support(*this, Op::loss_scale, DType::fp16);
  charge(*this, stream, Op::loss_scale, [&] { do_update_loss_scale(stream, args); });
}

void Device::generate_tokens(Stream& stream, const GenerateTokens& args) {
  const Check check(Op::generate_tokens);
  check.has_rank("table", args.table, DType::int32, 1);
  check.at_least("rows of table", args.table.dims[0], 4);
  check.has_rank("inputs", args.inputs, DType::int32, 2);
  check.has("targets", args.targets, DType::int32, {args.inputs.count()});
  charge(*this, stream, Op::generate_tokens, [&] { do_generate_tokens(stream, args); });
}

void Device::generate_images(Stream& stream, const GenerateImages& args) {
  const Check check(Op::generate_images);
  check.activation("inputs", args.inputs, 4);
  check.has("inputs", args.inputs, args.inputs.dtype,
            {args.inputs.dims[0], args.inputs.dims[1], args.inputs.dims[1], args.inputs.dims[3]});
  check.has_rank("frequencies", args.frequencies, DType::int32, 2);
  check.has("frequencies", args.frequencies, DType::int32, {args.frequencies.dims[0], 2});
  check.has("targets", args.targets, DType::int32, {args.inputs.dims[0]});
  charge(*this, stream, Op::generate_images, [&] { do_generate_images(stream, args); });
}

void Device::do_generate_tokens(Stream&, const GenerateTokens&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + " makes no samples by itself");
}
void Device::do_generate_images(Stream&, const GenerateImages&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + " makes no samples by itself");
}

std::string Device::why_unsupported(Precision precision) const {
  std::string reason = why_unsupported(storage(precision));
  return reason.empty() ? why_no_math(math(precision)) : reason;
}

}  // namespace tw::models
