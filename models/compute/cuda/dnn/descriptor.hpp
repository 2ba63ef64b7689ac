// Thin owners of cuDNN's backend descriptors. Private to models/compute/cuda.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "models/compute/cuda/dnn/library.hpp"

namespace tw::models::cuda::dnn {

template <class T>
constexpr Type type_of = Type::int64;
template <>
inline constexpr Type type_of<Handle> = Type::handle;
template <>
inline constexpr Type type_of<DataType> = Type::data_type;
template <>
inline constexpr Type type_of<bool> = Type::boolean;
template <>
inline constexpr Type type_of<float> = Type::float32;
template <>
inline constexpr Type type_of<void*> = Type::pointer;
template <>
inline constexpr Type type_of<ConvolutionMode> = Type::convolution_mode;
template <>
inline constexpr Type type_of<Heuristics> = Type::heuristic_mode;
template <>
inline constexpr Type type_of<NumericalNote> = Type::numerical_note;
template <>
inline constexpr Type type_of<BehaviorNote> = Type::behavior_note;
template <>
inline constexpr Type type_of<Pointwise> = Type::pointwise_mode;
template <>
inline constexpr Type type_of<Reduction> = Type::reduction_operator;

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
    static_assert(type_of<T> != Type::int64 || sizeof(T) == sizeof(std::int64_t));
    set(attribute, type_of<T>, 1, &value);
  }
  template <class T>
  void set(Attribute attribute, const std::vector<T>& values) {
    set(attribute, type_of<T>, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(Attribute attribute, const Descriptor& other) { set(attribute, Type::descriptor, 1, &other.raw_); }

  void finalize() { TW_DNN(library_, cudnnBackendFinalize(raw_)); }
  /// The status: for what may be refused.
  int try_finalize() { return library_->cudnnBackendFinalize(raw_); }

  template <class T>
  T get(Attribute attribute) const {
    T value{};
    std::int64_t count = 0;
    TW_DNN(library_, cudnnBackendGetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type_of<T>), 1,
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
