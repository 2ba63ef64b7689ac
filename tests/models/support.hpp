// Small networks and readers shared by the tests of this room.
#pragma once

#include <barrier>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/registry.hpp"
#include "models/families/bert/description.hpp"
#include "models/families/dlrm/description.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/families/inception/description.hpp"
#include "models/families/llama/description.hpp"
#include "models/families/resnet/description.hpp"
#include "models/trainer.hpp"

namespace tw::test {

/// Two layers, width 16, 19 tokens: all shapes odd where they may be.
models::NetworkDescription micro_gpt2();
/// Two layers, width 16, 4 heads that share 2 of keys and values; frequencies slowed down within the 7 tokens.
models::NetworkDescription micro_llama(bool tied_head = true);
/// Two layers, width 16, sequences of 15 tokens, 2 of them masked; 3 special words, 15 others and one for padding.
models::NetworkDescription micro_bert();
/// 8×8 images, three stages of one bottleneck, two in the first: both kinds of shortcut, both strides.
models::NetworkDescription micro_resnet(bool pool = false);
/// Three tables, the second of an odd number of rows; width 4, two indices a bag.
models::NetworkDescription micro_dlrm();
/// Described by a list of layers: segmented 8×8 images, each layer of images, attention over pixels, skip connections
/// over several layers, also from the input, and values that several operations read.
models::NetworkDescription micro_custom_images();
/// Likewise: 9 classes of 8×8 images, a plain chain with a vector at its end.
models::NetworkDescription micro_custom_vectors();
/// Likewise: tokens, each layer of sequences.
models::NetworkDescription micro_custom_tokens();
/// Likewise: 6×6 images to be restored twice as large, upsampling, convolutions of each kind with biases.
models::NetworkDescription micro_custom_restored();
/// Likewise: series of 16 variables. And measured images, by one linear layer.
models::NetworkDescription micro_custom_series();
models::NetworkDescription micro_custom_measured();
/// Of models/custom/examples, by its file's name without ".json".
models::NetworkDescription custom_example(const std::string& name);
/// A module of each kind, a 32nd of the published channels; 17×17 images, or 55×55 and both pools of the stem.
models::NetworkDescription micro_inception(bool pools = false);
/// Of each family of families.def at least one, with what its networks differ in: tests of what every network must do.
std::vector<models::NetworkDescription> micro_networks();
/// One of each family, where more of a family would show nothing else and cost time.
std::vector<models::NetworkDescription> micro_families();
/// The networks NAME-tiny of the catalog.
std::vector<std::string> tiny_networks();
/// Whether the rows and features of a micro network's linear layers are multiples of 16, as fp8 wants them.
bool rows_fit_fp8(const models::NetworkDescription& network);
/// The network with sizes that `change` has changed.
template <class Change>
void change_gpt2(models::NetworkDescription& network, Change change) {
  models::Gpt2Description sizes = network.as<models::Gpt2Description>();
  change(sizes);
  network.shape = models::family::gpt2::shape(sizes);
}
template <class Change>
void change_resnet(models::NetworkDescription& network, Change change) {
  models::ResnetDescription sizes = network.as<models::ResnetDescription>();
  change(sizes);
  network.shape = models::family::resnet::shape(sizes);
}
models::TrainerConfig micro_config(const models::NetworkDescription& network,
                                   models::Precision precision = models::Precision::float32);

/// What ranks on threads of this process exchange.
struct MeetingPoint {
  explicit MeetingPoint(int ranks) : meet(ranks), inputs(static_cast<std::size_t>(ranks)) {}
  std::barrier<> meet;
  std::vector<models::Tensor> inputs;
};
class ThreadExchange final : public models::Exchange {
 public:
  ThreadExchange(MeetingPoint& point, int rank) : point_(point), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(point_.inputs.size()); }
  void all_to_all(models::Stream& stream, models::Tensor input, models::Tensor output) override;
  void all_reduce_sum(models::Stream&, models::Tensor) override { refuse(); }
  void send(models::Stream&, models::Tensor, int) override { refuse(); }
  void receive(models::Stream&, models::Tensor, int) override { refuse(); }

 private:
  [[noreturn]] static void refuse();
  MeetingPoint& point_;
  int rank_;
};

std::unique_ptr<models::Device> reference_device();
/// The device's float32 values on the host.
std::vector<float> values_of(models::Device& device, models::Tensor tensor);
/// Largest |a − b| over the largest |b|.
double normalised_error(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace tw::test
