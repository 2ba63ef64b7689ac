// Each rank sums one block of the values, then all ranks gather the blocks: the two halves of an all-reduce (Thakur,
// Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 19, 2005). The last
// count % ranks elements, which make no block for each rank, are all-reduced.
#include "comm/collective.hpp"

namespace tw::comm {
namespace {

class ReduceScatterAllGather : public Collective {
 public:
  ReduceScatterAllGather(Communicator& communicator, models::Device& device)
      : communicator_(communicator), device_(device) {}
  void sum(models::Stream& stream, const models::Tensor& values) override {
    const std::int64_t n = values.count() / communicator_.size(), blocks = n * communicator_.size();
    if (n > 0) {
      const models::Tensor whole = values.slice(0, {blocks}), block = block_of(stream, whole, n);
      communicator_.reduce_scatter(stream, whole, block, Reduction::sum);
      communicator_.all_gather(stream, block, whole);
    }
    if (blocks < values.count())
      communicator_.all_reduce(stream, values.slice(blocks, {values.count() - blocks}), Reduction::sum);
  }

 private:
  /// This rank's block: memory of its own, since MPI wants input and output apart. Grows on first use, then stays.
  models::Tensor block_of(models::Stream& stream, const models::Tensor& like, std::int64_t n) {
    const models::Tensor block{nullptr, like.dtype, {n}};
    if (memory_.bytes() < block.bytes()) {
      stream.synchronize();        // the memory before may be in use
      memory_ = models::Buffer();  // not both at once
      memory_ = models::Buffer(device_, block.bytes());
    }
    return {memory_.data(), like.dtype, {n}};
  }

  Communicator& communicator_;
  models::Device& device_;
  models::Buffer memory_;
};

}  // namespace

std::unique_ptr<Collective> reduce_scatter_all_gather_create(Communicator& communicator, models::Device& device) {
  return std::make_unique<ReduceScatterAllGather>(communicator, device);
}

}  // namespace tw::comm
