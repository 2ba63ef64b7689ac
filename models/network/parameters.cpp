#include "models/network/parameters.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/philox.hpp"
#include "models/data/gaussian.hpp"

namespace tw::models {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Of the flat buffers that a parameter takes, without what aligns the next one.
std::int64_t reserved_elements(const ParameterSpec& spec) {
  return spec.reserved_rows == 0 ? spec.dims.count() : spec.dims.count() / spec.dims[0] * spec.reserved_rows;
}

/// out[i] = bound · (2u − 1), u in [0, 1) with 24 bits of (seed, stream, begin + i), for i in [0, count); begin must be
/// a multiple of 4. Element e comes from word e % 4 of Philox block e / 4.
void fill_uniform(float* out, std::int64_t count, float bound, std::uint64_t seed, std::uint64_t stream,
                  std::int64_t begin, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t block = 0; block < (count + 3) / 4; ++block) {
    const PhiloxWords words = random_block(seed, stream, static_cast<std::uint64_t>(begin / 4 + block));
    for (std::int64_t k = 0; k < 4 && 4 * block + k < count; ++k)
      out[4 * block + k] = bound * (2 * to_uniform(words.word[k]) - 1);  // 2u − 1 is exact
  }
}

std::int64_t statistic_elements(const std::vector<std::unique_ptr<Block>>& blocks) {
  std::int64_t count = 0;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->statistics()) {
      count += round_up(spec.dims.count(), ParameterLayout::align_elements);
    }
  }
  return count;
}

/// Of the tables of this rank: rows, and their width. A rank that holds none has one row, so that there is a tensor.
Dims table_extents(const std::vector<std::unique_ptr<Block>>& blocks) {
  std::int64_t rows = 0, width = 0;
  for (const auto& block : blocks) {
    for (const TableSpec& table : block->tables()) {
      rows += table.is_here ? table.rows : 0;
      width = table.width;
    }
  }
  return width > 0 ? Dims{std::max<std::int64_t>(rows, 1), width} : Dims{};
}

}  // namespace

ParameterLayout::ParameterLayout(const std::vector<std::unique_ptr<Block>>& blocks, int ranks) {
  for (int block = static_cast<int>(blocks.size()) - 1; block >= 0; --block) {
    const std::vector<ParameterSpec> specs = blocks[static_cast<std::size_t>(block)]->parameters();
    for (int index = static_cast<int>(specs.size()) - 1; index >= 0; --index) {
      const ParameterSpec& spec = specs[static_cast<std::size_t>(index)];
      entries.push_back({spec, count, block, index});
      count += round_up(reserved_elements(spec), align_elements);
      parameter_count += spec.dims.count();
    }
  }
  count = round_up(count, ranks * align_elements);
  for (const auto& block : blocks)
    for (const TableSpec& table : block->tables()) table_elements += Dims{table.rows, table.width}.count();
}

std::vector<DecaySegment> ParameterLayout::decay_segments(float weight_decay) const {
  std::vector<DecaySegment> segments;
  for (const Entry& entry : entries) {
    segments.push_back({entry.offset, entry.offset + entry.spec.dims.count(), entry.spec.decay ? weight_decay : 0.0f});
  }
  return segments;
}

ParameterStore::ParameterStore(Device& device, DType precision, const std::vector<std::unique_ptr<Block>>& blocks,
                               int ranks)
    : device_(device), precision_(precision), layout_(blocks, ranks) {
  const auto count = static_cast<std::size_t>(layout_.count);
  if (precision != DType::float32) weights_ = Buffer(device, count * size_of(precision));
  master_ = Buffer(device, count * sizeof(float));
  gradients_ = Buffer(device, count * sizeof(float));
  for (const ParameterLayout::Entry& entry : layout_.entries) {
    Parameter parameter;
    parameter.spec = entry.spec;
    parameter.offset = entry.offset;
    parameter.master = flat_master().slice(entry.offset, entry.spec.dims);
    parameter.gradient = flat_gradients().slice(entry.offset, entry.spec.dims);
    parameter.weight = precision == DType::float32 || entry.spec.keep_float32
                           ? parameter.master
                           : flat_weights().slice(entry.offset, entry.spec.dims);
    parameters_.push_back(parameter);
  }
  if (const Dims extents = table_extents(blocks); extents.rank() > 0) {
    table_memory_ = Buffer(device, static_cast<std::size_t>(extents.count()) * sizeof(float));
    table_rows_ = {table_memory_.data(), DType::float32, extents};
    std::int64_t offset = 0;
    for (const auto& block : blocks) {
      for (const TableSpec& spec : block->tables()) {
        tables_.push_back({spec, spec.is_here ? table_rows_.slice(offset, {spec.rows, spec.width}) : Tensor{}});
        offset += spec.is_here ? spec.rows * spec.width : 0;
      }
    }
  }
  if (const std::int64_t elements = statistic_elements(blocks); elements > 0) {
    statistic_values_ = Buffer(device, static_cast<std::size_t>(elements) * sizeof(float));
    const Tensor all{statistic_values_.data(), DType::float32, {elements}};
    std::int64_t offset = 0;
    for (const auto& block : blocks) {
      for (const ParameterSpec& spec : block->statistics()) {
        statistics_.push_back({spec, all.slice(offset, spec.dims)});
        offset += round_up(spec.dims.count(), ParameterLayout::align_elements);
      }
    }
  }
}

void ParameterStore::initialise_tables(Stream& stream, std::uint64_t seed) {
  constexpr std::int64_t piece = std::int64_t{1} << 22;  // so that a table need not fit the host twice
  if (table_rows_) device_.fill(stream, {table_rows_, 0});
  std::vector<float> host;
  for (const Table& table : tables_) {
    if (!table.values) continue;
    const Initialiser& start = table.spec.initialiser;
    if (start.kind != Initialiser::Kind::uniform)
      throw Error(Failure::internal, table.spec.name + ": tables start as uniform numbers");
    host.resize(static_cast<std::size_t>(std::min(piece, table.values.count())));
    for (std::int64_t begin = 0; begin < table.values.count(); begin += piece) {
      const std::int64_t count = std::min(piece, table.values.count() - begin);
      fill_uniform(host.data(), count, start.value, seed, random_stream("weights." + table.spec.name), begin,
                   std::max(1, device_.info().threads));
      device_.copy_from_host(stream, table.values.slice(begin, {count}).data, host.data(),
                             static_cast<std::size_t>(count) * sizeof(float));
      stream.synchronize();  // `host` is used again
    }
  }
}

void ParameterStore::initialise(Stream& stream, std::uint64_t seed) {
  const int threads = std::max(1, device_.info().threads);
  std::int64_t largest = 0;
  for (const Parameter& parameter : parameters_) largest = std::max(largest, parameter.spec.dims.count());
  std::vector<float> host(static_cast<std::size_t>(largest));
  device_.fill(stream, {flat_master(), 0});  // padding too: it takes part in norms and reductions
  device_.fill(stream, {flat_gradients(), 0});
  for (const Parameter& parameter : parameters_) {
    const ParameterSpec& spec = parameter.spec;
    if (spec.initialiser.kind == Initialiser::Kind::constant) {
      device_.fill(stream, {parameter.master, spec.initialiser.value});
    } else {
      fill_normal_parallel(host.data(), spec.dims.count(), spec.initialiser.value, seed,
                           random_stream("weights." + spec.name), threads);
      device_.copy_from_host(stream, parameter.master.data, host.data(), parameter.master.bytes());
      stream.synchronize();  // `host` is used again
    }
  }
  for (const Statistic& statistic : statistics_)
    device_.fill(stream, {statistic.values, statistic.spec.initialiser.value});
  initialise_tables(stream, seed);
  if (weights_) device_.cast(stream, {flat_master(), flat_weights()});
  stream.synchronize();
}

void ParameterStore::build(std::vector<std::unique_ptr<Block>>& blocks) const {
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& parameter : parameters_) by_name[parameter.spec.name] = &parameter;
  const auto find = [&by_name](const std::string& name) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw Error(Failure::internal, "no block owns the shared parameter " + name);
    return *found->second;
  };
  std::size_t statistic = 0;
  for (const auto& block : blocks) {
    std::vector<Parameter> own, shared;
    for (const ParameterSpec& spec : block->parameters()) own.push_back(find(spec.name));
    for (const std::string& name : block->shared_parameters()) shared.push_back(find(name));
    std::vector<Tensor> statistics;
    for (std::size_t i = block->statistics().size(); i > 0; --i) statistics.push_back(statistics_[statistic++].values);
    block->build(device_, own, shared, statistics);
    if (!block->tables().empty()) block->bind_tables(table_rows_);
  }
}

std::size_t ParameterStore::parameter_bytes(const ParameterLayout& layout, DType precision,
                                            const std::vector<std::unique_ptr<Block>>& blocks) {
  const auto count = static_cast<std::size_t>(layout.count);
  return count * sizeof(float) + (precision == DType::float32 ? 0 : count * size_of(precision)) +
         static_cast<std::size_t>(statistic_elements(blocks) + table_extents(blocks).count()) * sizeof(float);
}

std::size_t ParameterStore::gradient_bytes(const ParameterLayout& layout) {
  return static_cast<std::size_t>(layout.count) * sizeof(float);
}

}  // namespace tw::models
