#include "models/export/step_export.hpp"

#include <cstddef>
#include <cstring>

#include "models/compute/error.hpp"

namespace tw::models {
namespace {

template <class T>
std::vector<T> on_host(Device& device, Stream& stream, const void* data, std::size_t bytes) {
  std::vector<T> values(bytes / sizeof(T));
  device.copy_to_host(stream, values.data(), data, bytes);
  stream.synchronize();
  return values;
}

std::vector<std::int64_t> all_of(const Dims& dims) {
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < dims.rank(); ++axis) extents.push_back(dims[axis]);
  return extents;
}

}  // namespace

std::vector<ExportedPart> exported_parts(const ParameterSpec& spec) {
  if (spec.exported_as.empty()) return {{spec, 0}};
  std::vector<ExportedPart> parts;
  std::int64_t first = 0;
  for (const NamedRows& named : spec.exported_as) {
    ParameterSpec part = spec;
    part.name = named.name;
    part.dims = spec.dims.rank() == 2 ? Dims{named.rows, spec.dims[1]} : Dims{named.rows};
    part.exported_as.clear();
    parts.push_back({part, first});
    first += named.rows;
  }
  if (spec.dims.rank() > 2 || first != spec.dims[0]) {
    throw Error(Failure::internal, spec.name + " is exported by " + std::to_string(first) +
                                       " rows of a matrix or elements of a vector, it is " + spec.dims.str());
  }
  return parts;
}

std::vector<std::int64_t> exported_dims(const ParameterSpec& spec) {
  const Dims& d = spec.dims;
  if (spec.export_layout == ParameterSpec::Export::transpose) return {d[1], d[0]};
  if (spec.export_layout == ParameterSpec::Export::nhwc_to_nchw) return {d[0], d[3], d[1], d[2]};
  return all_of(d);
}

std::vector<char> exported_values(Device& device, Stream& stream, const ParameterSpec& spec, Tensor values,
                                  float scale) {
  const std::vector<float> host = on_host<float>(device, stream, values.data, values.bytes());
  std::vector<float> out(host.size());
  // Both permutations swap the last axis with what stands between it and the outermost kept one.
  const Dims& d = spec.dims;
  std::int64_t outer = 1, middle = 1, inner = values.count();
  if (spec.export_layout == ParameterSpec::Export::transpose) {
    middle = d[0];
    inner = d[1];
  } else if (spec.export_layout == ParameterSpec::Export::nhwc_to_nchw) {
    outer = d[0];
    middle = d[1] * d[2];
    inner = d[3];
  }
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t m = 0; m < middle; ++m) {
      for (std::int64_t i = 0; i < inner; ++i) {
        out[static_cast<std::size_t>((o * inner + i) * middle + m)] =
            scale * host[static_cast<std::size_t>((o * middle + m) * inner + i)];
      }
    }
  }
  std::vector<char> bytes(out.size() * sizeof(float));
  std::memcpy(bytes.data(), out.data(), bytes.size());
  return bytes;
}

std::vector<SafeTensor> exported_parameters(Device& device, Stream& stream, const ParameterStore& store,
                                            ExportKind kind, float scale) {
  std::vector<SafeTensor> tensors;
  const std::vector<Parameter>& parameters = store.parameters();
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const Tensor whole = kind == ExportKind::master ? parameter->master : parameter->gradient;
    for (const ExportedPart& part : exported_parts(parameter->spec)) {
      const ParameterSpec spec = part.spec;
      const std::int64_t row = spec.dims.count() / spec.dims[0];
      const Tensor values = whole.slice(part.first * row, spec.dims);
      tensors.push_back(
          {SafeTensor::Type::float32, spec.name, exported_dims(spec),
           [&device, &stream, spec, values, scale] { return exported_values(device, stream, spec, values, scale); }});
    }
  }
  if (kind == ExportKind::master) {
    for (const ParameterStore::Statistic& statistic : store.statistics()) {
      const ParameterSpec spec = statistic.spec;
      const Tensor values = statistic.values;
      tensors.push_back({SafeTensor::Type::float32, spec.name, exported_dims(spec), [&device, &stream, spec, values] {
                           return exported_values(device, stream, spec, values, 1.0f);
                         }});
    }
  }
  return tensors;
}

std::vector<SafeTensor> exported_tables(Device& device, Stream& stream, const ParameterStore& store, const void* rows) {
  std::vector<SafeTensor> tensors;
  const auto* next = static_cast<const char*>(rows);
  for (const Table& table : store.tables()) {
    if (!table.values) continue;
    const char* from = std::exchange(next, next + table.values.bytes());
    tensors.push_back({SafeTensor::Type::float32,
                       table.spec.name,
                       {table.spec.rows, table.spec.width},
                       [&device, &stream, from, bytes = table.values.bytes()] {
                         return on_host<char>(device, stream, from, bytes);
                       }});
  }
  return tensors;
}

std::vector<SafeTensor> exported_relu_sides(Device& device, Stream& stream,
                                            const std::vector<std::pair<std::string, Tensor>>& kept) {
  std::vector<SafeTensor> tensors;
  for (const auto& [name, values] : kept) {
    const std::string tensor = name.substr(name.rfind('/') + 1);
    const bool is_place = tensor.starts_with("argmax");
    if (tensor != "output" && !tensor.starts_with("relu") && !is_place) continue;
    const Tensor v = values;
    tensors.push_back({SafeTensor::Type::uint8, name, all_of(v.dims), [&device, &stream, v, is_place] {
                         std::vector<std::byte> host = on_host<std::byte>(device, stream, v.data, v.bytes());
                         const Tensor values_here{host.data(), v.dtype, v.dims};
                         std::vector<char> sides(static_cast<std::size_t>(v.count()));
                         for (std::size_t i = 0; i < sides.size(); ++i) {
                           sides[i] = is_place ? static_cast<char>(values_here.as<std::int32_t>()[i])
                                      : float_at(values_here, static_cast<std::int64_t>(i)) > 0 ? 1
                                                                                                : 0;
                         }
                         return sides;
                       }});
  }
  return tensors;
}

}  // namespace tw::models
