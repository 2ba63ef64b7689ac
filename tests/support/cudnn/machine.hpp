// What the stand-in's descriptors hold, and how their graphs are run on the host.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/compute/cuda/dnn/abi.hpp"
#include "tests/support/cudnn/stand_in.hpp"

namespace tw::cudnn {

using models::cuda::dnn::Attribute;
using models::cuda::dnn::DataType;
using models::cuda::dnn::Kind;
using models::cuda::dnn::Type;
using Extents = std::vector<std::int64_t>;

struct Refusal : std::runtime_error {
  int status;
  Refusal(int code, const std::string& what) : std::runtime_error(what), status(code) {}
};
constexpr int bad_parameter = 2000, not_supported = 3000, execution_failed = 5000;
inline void require(bool holds, const char* what) {
  if (!holds) throw Refusal(bad_parameter, what);
}

struct Node;
using NodePointer = std::shared_ptr<Node>;

struct Values {
  Type type{};
  std::int64_t count = 0;
  std::vector<unsigned char> bytes;
  std::vector<NodePointer> nodes;
};

struct Node {
  Kind kind{};
  bool final = false;
  std::map<Attribute, Values> values;
  Proposal proposal;  // of an engine, its configuration and its plan

  bool has(Attribute attribute) const { return values.count(attribute) != 0; }
  template <class T>
  std::vector<T> all(Attribute attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end())
      throw Refusal(bad_parameter, "attribute " + std::to_string(int(attribute)) + " is not set");
    std::vector<T> list(static_cast<std::size_t>(found->second.count));
    require(list.size() * sizeof(T) == found->second.bytes.size(), "an attribute of another type");
    std::memcpy(list.data(), found->second.bytes.data(), found->second.bytes.size());
    return list;
  }
  template <class T>
  T one(Attribute attribute) const {
    const std::vector<T> list = all<T>(attribute);
    require(list.size() == 1, "one value is wanted");
    return list[0];
  }
  /// False where it is not set.
  bool flag(Attribute attribute) const { return has(attribute) && one<unsigned char>(attribute) != 0; }
  NodePointer node(Attribute attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end() || found->second.nodes.size() != 1)
      throw Refusal(bad_parameter, "descriptor " + std::to_string(int(attribute)) + " is not set");
    return found->second.nodes[0];
  }
};

// ---- tensors ----

struct Tensor {
  std::int64_t uid;
  DataType type;
  Extents extents, strides;
  bool is_virtual, by_value;
  std::int64_t alignment;

  explicit Tensor(const Node& node)
      : uid(node.one<std::int64_t>(Attribute::tensor_uid)),
        type(node.one<DataType>(Attribute::tensor_data_type)),
        extents(node.all<std::int64_t>(Attribute::tensor_dims)),
        strides(node.all<std::int64_t>(Attribute::tensor_strides)),
        is_virtual(node.flag(Attribute::tensor_is_virtual)),
        by_value(node.flag(Attribute::tensor_is_by_value)),
        alignment(node.one<std::int64_t>(Attribute::tensor_alignment)) {
    require(node.kind == Kind::tensor, "a tensor is wanted");
    require(extents.size() == strides.size() && !extents.empty(), "as many strides as extents");
  }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents) product *= extent;
    return product;
  }
  /// Where each element lies in memory, in row-major order of the extents.
  std::vector<std::int64_t> offsets() const {
    std::vector<std::int64_t> list(static_cast<std::size_t>(count()));
    Extents at(extents.size(), 0);
    for (std::int64_t& offset : list) {
      offset = 0;
      for (std::size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * strides[axis];
      for (std::size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < extents[axis]) break;
        at[axis] = 0;
      }
    }
    return list;
  }
};

/// Runs the operations in their order. `memory`: the address of each tensor that is not between operations. Returns the
/// uids of those that were used.
std::set<std::int64_t> run_graph(const Proposal& proposal, const std::vector<NodePointer>& operations,
                                 const std::map<std::int64_t, void*>& memory);

}  // namespace tw::cudnn
