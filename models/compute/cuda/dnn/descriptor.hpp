// Thin owners of cuDNN's backend descriptors. Private to models/compute/cuda.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/compute/cuda/dnn/library.hpp"

namespace tw::models::cuda::dnn {

constexpr Type type_of(std::int64_t) { return Type::int64; }
constexpr Type type_of(Handle) { return Type::handle; }
constexpr Type type_of(DataType) { return Type::data_type; }
constexpr Type type_of(bool) { return Type::boolean; }
constexpr Type type_of(float) { return Type::float32; }
constexpr Type type_of(void*) { return Type::pointer; }
constexpr Type type_of(ConvolutionMode) { return Type::convolution_mode; }
constexpr Type type_of(Heuristics) { return Type::heuristic_mode; }
constexpr Type type_of(Pointwise) { return Type::pointwise_mode; }
constexpr Type type_of(Reduction) { return Type::reduction_operator; }

/// Owns one descriptor: create, set, finalize, then read or use. Errors are ApiError. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Library* library, Kind kind) : library_(library) {
    TW_DNN(library_, cudnnBackendCreateDescriptor(static_cast<int>(kind), &raw_));
  }
  Descriptor(Descriptor&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor() {
    if (raw_) TW_DNN_NOTHROW(library_, cudnnBackendDestroyDescriptor(raw_));
  }

  void set(Attribute attribute, Type type, std::int64_t count, const void* values) {
    TW_DNN(library_,
           cudnnBackendSetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type), count, values));
  }
  template <class T>
  void set(Attribute attribute, const T& value) {
    set(attribute, type_of(value), 1, &value);
  }
  template <class T>
  void set(Attribute attribute, const std::vector<T>& values) {
    set(attribute, type_of(T{}), static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(Attribute attribute, const Descriptor& other) { set(attribute, Type::descriptor, 1, &other.raw_); }

  /// Attributes and their values, one behind the other.
  template <class T, class... Rest>
  void set_all(Attribute attribute, const T& value, const Rest&... rest) {
    set(attribute, value);
    if constexpr (sizeof...(rest) > 0) set_all(rest...);
  }

  void finalize() { TW_DNN(library_, cudnnBackendFinalize(raw_)); }
  /// The status: for what may be refused.
  int try_finalize() { return library_->cudnnBackendFinalize(raw_); }

  template <class T>
  T get(Attribute attribute) const {
    T value{};
    std::int64_t count = 0;
    TW_DNN(library_, cudnnBackendGetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type_of(T{})), 1,
                                              &count, &value));
    return value;
  }
  /// At most `most` values.
  template <class T>
  std::vector<T> get_all(Attribute attribute, Type type, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    TW_DNN(library_, cudnnBackendGetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type), most, &count,
                                              values.data()));
    values.resize(static_cast<std::size_t>(count < most ? count : most));
    return values;
  }
  RawDescriptor raw() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  const Library* library_ = nullptr;
  RawDescriptor raw_ = nullptr;
};

}  // namespace tw::models::cuda::dnn
