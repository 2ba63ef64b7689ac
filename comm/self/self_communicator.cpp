// One rank alone: sums are what they are, and only what has another destination is copied.
#include "comm/checks.hpp"
#include "comm/registry.hpp"
#include "models/compute/error.hpp"

namespace tw::comm {
namespace {

class SelfCommunicator : public Communicator {
 public:
  explicit SelfCommunicator(models::Device& device) : device_(device) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name() const override { return "self"; }
  std::string route() const override { return "one rank"; }

  void all_reduce(models::Stream&, models::Tensor values, Reduction) override { check_values(values, "all_reduce"); }
  void reduce_scatter(models::Stream& stream, models::Tensor input, models::Tensor output, Reduction) override {
    check_blocks(input, output, 1, 1, "reduce_scatter");
    move(stream, input, output);
  }
  void all_gather(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, 1, 1, "all_gather");
    move(stream, input, output);
  }
  void broadcast(models::Stream&, models::Tensor values, int root) override {
    check_values(values, "broadcast");
    check_peer(root, 1, "broadcast");
  }
  void all_to_all(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, 1, 1, "all_to_all");
    move(stream, input, output);
  }
  void send(models::Stream&, models::Tensor, int) override { alone("send"); }
  void receive(models::Stream&, models::Tensor, int) override { alone("receive"); }
  void barrier(models::Stream& stream) override { stream.synchronize(); }

 private:
  void move(models::Stream& stream, const models::Tensor& input, const models::Tensor& output) {
    if (input.data == output.data || input.bytes() == 0) return;
    device_.copy(stream, output.data, input.data, input.bytes());
  }
  [[noreturn]] static void alone(const char* function) {
    throw models::Error(models::Failure::usage, std::string(function) + ": a job of one rank has no peer");
  }

  models::Device& device_;
};

}  // namespace

std::string self_why_not(Job& job, models::Device&) {
  return job.size() == 1 ? "" : "serves one rank, and the job has " + std::to_string(job.size());
}
std::unique_ptr<Communicator> self_create(Job&, models::Device& device) {
  return std::make_unique<SelfCommunicator>(device);
}

}  // namespace tw::comm
