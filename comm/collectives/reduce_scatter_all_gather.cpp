// Each rank sums one block of the values, then all ranks gather the blocks: the two halves of an all-reduce (Thakur,
// Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 19, 2005). The last
// count % ranks elements, which make no block for each rank, are all-reduced.
#include "comm/collective.hpp"

namespace tw {
namespace {

class ReduceScatterAllGather : public Collective {
 public:
  ReduceScatterAllGather(Communicator& communicator, Device& device) : communicator_(communicator), device_(device) {}
  void sum(Stream& stream, const Tensor& values) override {
    const std::int64_t n = values.count() / communicator_.size(), blocks = n * communicator_.size();
    if (n > 0) {
      const Tensor whole = values.slice(0, {blocks}), block = block_of(stream, whole, n);
      communicator_.reduce_scatter(stream, whole, block, Reduction::sum);
      communicator_.all_gather(stream, block, whole);
    }
    if (blocks < values.count())
      communicator_.all_reduce(stream, values.slice(blocks, {values.count() - blocks}), Reduction::sum);
  }

 private:
  /// This rank's block: memory of its own, since MPI wants input and output apart. Grows on first use, then stays.
  Tensor block_of(Stream& stream, const Tensor& like, std::int64_t n) {
    const Tensor block{nullptr, like.dtype, {n}};
    if (memory_.bytes() < block.bytes()) {
      stream.synchronize();  // the memory before may be in use
      memory_ = Buffer();    // not both at once
      memory_ = Buffer(device_, block.bytes());
    }
    return {memory_.data(), like.dtype, {n}};
  }

  Communicator& communicator_;
  Device& device_;
  Buffer memory_;
};

}  // namespace

std::unique_ptr<Collective> reduce_scatter_all_gather_create(Communicator& communicator, Device& device) {
  return std::make_unique<ReduceScatterAllGather>(communicator, device);
}

}  // namespace tw
