// A device that computes nothing and has no memory: it adds up what each operator would compute and move.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/compute/device.hpp"
#include "models/ledger/ledger.hpp"
#include "models/ledger/traffic.hpp"

namespace tw::models {

class CountingDevice final : public Device {
 public:
  DeviceInfo info() const override;
  bool supports(Op, DType dtype) const override { return is_float(dtype); }
  using Device::why_unsupported;
  std::string why_unsupported(DType) const override { return {}; }
  std::string why_no_math(Math) const override { return {}; }

  /// Addresses that nobody may read or write.
  void* allocate(std::size_t bytes) override;
  void free(void*) noexcept override {}
  void copy_from_host(Stream&, void*, const void*, std::size_t) override {}
  void copy_to_host(Stream&, void*, const void*, std::size_t) override {}
  void copy(Stream&, void*, const void*, std::size_t bytes) override;
  std::size_t allocated_bytes() const override { return allocated_; }
  std::size_t peak_allocated_bytes() const override { return allocated_; }
  void reset_peak_allocated_bytes() override {}
  std::unique_ptr<Stream> create_stream() override;
  std::unique_ptr<Event> create_event() override;
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override;
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override;
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override;
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override;

  /// How often each call from here on counts.
  void repeat(double times) { times_ = times; }
  void count(Op op, Math math, const std::string& shape, const Traffic& traffic);
  /// Forgets all calls so far.
  void clear() { rows_.clear(), row_of_.clear(); }
  const std::vector<LedgerRow>& rows() const { return rows_; }

 protected:
#define TW_OPERATOR(op, name, Arguments) void do_##name(Stream&, const Arguments& args) override;
#include "models/compute/operators.def"

 private:
  std::vector<LedgerRow> rows_;
  std::map<std::pair<Op, std::string>, std::size_t> row_of_;
  std::size_t allocated_ = 0;
  double times_ = 1;
};

}  // namespace tw::models
