// The all-reduce of the communicator's library, which chooses the algorithm by itself.
#include "comm/collective.hpp"

namespace tw::comm {
namespace {

class Allreduce : public Collective {
 public:
  explicit Allreduce(Communicator& communicator) : communicator_(communicator) {}
  void sum(models::Stream& stream, const models::Tensor& values) override {
    communicator_.all_reduce(stream, values, Reduction::sum);
  }

 private:
  Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Collective> allreduce_create(Communicator& communicator, models::Device&) {
  return std::make_unique<Allreduce>(communicator);
}

}  // namespace tw::comm
