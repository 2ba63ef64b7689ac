#include "comm/mpi/staged_communicator.hpp"

#include <array>

#include "comm/checks.hpp"

namespace tw::comm {
namespace {

class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(models::Device& device, std::unique_ptr<Communicator> host, DirectMemory direct)
      : device_(device), host_(std::move(host)), direct_(direct) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string name() const override { return host_->name(); }
  std::string route() const override {
    return direct_ == DirectMemory::none ? "device memory, staged in host memory"
                                         : "device memory, read by a CUDA-aware MPI";
  }

  void all_reduce(models::Stream& stream, models::Tensor values, Reduction reduction) override {
    check_values(values, "all_reduce");
    if (reduces_directly(values)) return host_->all_reduce(stream, values, reduction);
    const models::Tensor staged = down(stream, 0, values);
    host_->all_reduce(stream, staged, reduction);
    up(stream, staged, values);
  }
  void reduce_scatter(models::Stream& stream, models::Tensor input, models::Tensor output,
                      Reduction reduction) override {
    check_blocks(input, output, size(), 1, "reduce_scatter");
    const models::Tensor staged = room(1, output);  // its blocks are lined up on the host in any case
    host_->reduce_scatter(stream, down(stream, 0, input), staged, reduction);
    up(stream, staged, output);
  }
  void all_gather(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, 1, size(), "all_gather");
    exchange(&Communicator::all_gather, stream, input, output);
  }
  void broadcast(models::Stream& stream, models::Tensor values, int root) override {
    check_values(values, "broadcast");
    check_peer(root, size(), "broadcast");
    if (copies_directly()) return host_->broadcast(stream, values, root);
    const models::Tensor staged = rank() == root ? down(stream, 0, values) : room(0, values);
    host_->broadcast(stream, staged, root);
    if (rank() != root) up(stream, staged, values);
  }
  void all_to_all(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, size(), size(), "all_to_all");
    exchange(&Communicator::all_to_all, stream, input, output);
  }
  void send(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "send");
    check_peer(peer, size(), "send");
    host_->send(stream, copies_directly() ? values : down(stream, 0, values), peer);
  }
  void receive(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "receive");
    check_peer(peer, size(), "receive");
    if (copies_directly()) return host_->receive(stream, values, peer);
    const models::Tensor staged = room(0, values);
    host_->receive(stream, staged, peer);
    up(stream, staged, values);
  }
  void barrier(models::Stream& stream) override { host_->barrier(stream); }

 private:
  void exchange(void (Communicator::*by)(models::Stream&, models::Tensor, models::Tensor), models::Stream& stream,
                const models::Tensor& input, const models::Tensor& output) {
    if (copies_directly()) return (host_.get()->*by)(stream, input, output);
    const models::Tensor staged = room(1, output);
    (host_.get()->*by)(stream, down(stream, 0, input), staged);
    up(stream, staged, output);
  }
  bool copies_directly() const { return direct_ != DirectMemory::none; }
  // bf16 is summed by the host.
  bool reduces_directly(const models::Tensor& values) const {
    return copies_directly() && values.dtype == models::DType::float32;
  }

  /// Host memory of the tensor's shape, page-locked where the device has such, since others are copied by way of it;
  /// grows on first use, then stays.
  models::Tensor room(std::size_t which, const models::Tensor& like) {
    models::HostBuffer& memory = memory_[which];
    if (memory.bytes() < like.bytes()) {
      memory = models::HostBuffer();  // not both at once
      memory = models::HostBuffer(device_, like.bytes());
    }
    return models::Tensor{memory.data(), like.dtype, like.dims};
  }
  models::Tensor down(models::Stream& stream, std::size_t which, const models::Tensor& from) {
    const models::Tensor staged = room(which, from);
    if (from.bytes() > 0) device_.copy_to_host(stream, staged.data, from.data, from.bytes());
    stream.synchronize();
    return staged;
  }
  void up(models::Stream& stream, const models::Tensor& staged, const models::Tensor& to) {
    if (to.bytes() > 0) device_.copy_from_host(stream, to.data, staged.data, to.bytes());
    stream.synchronize();  // the host's memory serves the next call
  }

  models::Device& device_;
  std::unique_ptr<Communicator> host_;
  DirectMemory direct_;
  std::array<models::HostBuffer, 2> memory_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(models::Device& device, std::unique_ptr<Communicator> host,
                                                       DirectMemory direct) {
  return std::make_unique<StagedCommunicator>(device, std::move(host), direct);
}

}  // namespace tw::comm
