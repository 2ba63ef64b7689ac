// Small networks and readers shared by the tests of this room.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/compute/registry.hpp"
#include "models/families/bert/description.hpp"
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
/// A module of each kind, a 32nd of the published channels; 17×17 images, or 55×55 and both pools of the stem.
models::NetworkDescription micro_inception(bool pools = false);
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

std::unique_ptr<models::Device> reference_device();
/// The device's float32 values on the host.
std::vector<float> values_of(models::Device& device, models::Tensor tensor);
/// Largest |a − b| over the largest |b|.
double normalised_error(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace tw::test
