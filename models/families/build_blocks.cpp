#include "models/families/build_blocks.hpp"

#include "models/compute/error.hpp"

namespace tw::models {

std::vector<std::unique_ptr<Block>> build_blocks(const NetworkDescription& network, Precision precision,
                                                 std::int64_t micro_batch, std::int64_t seq_len) {
  if (micro_batch < 1)
    throw Error(Failure::usage, "micro-batch must be at least 1, not " + std::to_string(micro_batch));
  const std::string name = network.shape->family();
#define TW_FAMILY(listed) \
  if (name == #listed) return family::listed::blocks(network, precision, micro_batch, seq_len);
#include TW_FAMILY_LIST
#undef TW_FAMILY
  throw Error(Failure::usage, network.name + ": its family " + name + " is not in families.def");
}

}  // namespace tw::models
