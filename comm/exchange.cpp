#include "comm/exchange.hpp"

namespace tw::comm {
namespace {

class CommunicatorExchange : public models::Exchange {
 public:
  explicit CommunicatorExchange(Communicator& communicator) : communicator_(communicator) {}
  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  void all_reduce_sum(models::Stream& stream, models::Tensor values) override {
    communicator_.all_reduce(stream, values, Reduction::sum);
  }
  void send(models::Stream& stream, models::Tensor values, int peer) override {
    communicator_.send(stream, values, peer);
  }
  void receive(models::Stream& stream, models::Tensor values, int peer) override {
    communicator_.receive(stream, values, peer);
  }

 private:
  Communicator& communicator_;
};

}  // namespace

std::unique_ptr<models::Exchange> make_exchange(Communicator& communicator) {
  return std::make_unique<CommunicatorExchange>(communicator);
}

}  // namespace tw::comm
