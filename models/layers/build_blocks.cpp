#include "models/compute/error.hpp"
#include "models/layers/blocks.hpp"

namespace tw {

std::vector<std::unique_ptr<Block>> build_blocks(const NetworkDescription& network, Precision precision,
                                                 std::int64_t micro_batch, std::int64_t seq_len) {
  if (micro_batch < 1)
    throw Error(Failure::usage, "micro-batch must be at least 1, not " + std::to_string(micro_batch));
  return network.is_tokens() ? build_gpt2_blocks(network.gpt2(), precision, micro_batch, seq_len)
                             : build_resnet_blocks(network.resnet(), precision, micro_batch);
}

}  // namespace tw
