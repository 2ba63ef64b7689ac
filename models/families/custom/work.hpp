// What one operation of a described network does on a device: a list of these is a block (blocks.cpp).
#pragma once

#include <memory>
#include <vector>

#include "models/families/custom/description.hpp"
#include "models/network/network.hpp"

namespace tw::models::family::custom {

/// The batch that a network is built for.
struct Batch {
  Precision precision = Precision::float32;
  std::int64_t samples = 1, seq_len = 0;
  DType dtype() const { return storage(precision); }
  /// (samples, channels), (samples, tokens, channels) or (samples, height, width, channels).
  Dims dims(const Extent& extent) const;
};

/// Extents of the same values as rows of channels, and as an image of one row where they are no image.
Tensor rows_of(const Tensor& values);
Tensor image_of(const Tensor& values);

class Work {
 public:
  virtual ~Work() = default;
  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<ParameterSpec> statistics() const { return {}; }
  /// Kept from forward to backward besides inputs and output.
  virtual std::vector<ActivationSpec> saved() const { return {}; }
  /// Linear layers, whose backward finds the scratch of add_rounded_gradient() behind all others.
  virtual std::vector<LinearShape> layers() const { return {}; }
  virtual void build(Device& device, std::vector<Parameter> own, std::vector<Tensor> statistics) = 0;
  virtual std::vector<NamedPlan> plans() const { return {}; }

  struct Values {
    std::vector<Tensor> in;
    Tensor out;                     ///< absent of a loss
    const Tensor* saved = nullptr;  ///< of saved()
  };
  virtual void forward(BlockRun& run, const Values& values) = 0;
  /// `d_in`: of each input, overwritten; absent where nobody wants it.
  virtual void backward(BlockRun& run, const Values& values, const Tensor& d_out, const std::vector<Tensor>& d_in) = 0;
  /// Whether backward writes the input's gradient in any case.
  virtual bool always_writes() const { return false; }
};

/// Of operation `place`, which is no view.
std::unique_ptr<Work> make_work(const CustomDescription& network, int place, const Batch& batch);

}  // namespace tw::models::family::custom
