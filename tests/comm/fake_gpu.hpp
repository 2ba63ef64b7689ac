// A "GPU" for tests without one: the reference device under another kind. In its vault no address may be touched but by
// the device's own copies: what reads or writes it from the host crashes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "models/compute/reference/reference.hpp"
#include "tests/comm/support.hpp"

namespace tw {

class FakeGpu : public models::reference::ReferenceDevice {
 public:
  enum class Memory { open, vault };
  FakeGpu(std::string uuid, Memory memory, std::string pci = {})
      : ReferenceDevice(1), uuid_(std::move(uuid)), pci_(std::move(pci)), is_vault_(memory == Memory::vault) {
    device_offset = is_vault_ ? vault_offset : 0;
  }
  ~FakeGpu() override { device_offset = 0; }

  models::DeviceInfo info() const override {
    models::DeviceInfo info = ReferenceDevice::info();
    info.kind = models::DeviceKind::cuda;
    info.uuid = uuid_;
    info.pci = pci_;
    return info;
  }
  void copy_from_host(models::Stream& stream, void* device_data, const void* host, std::size_t bytes) override {
    ReferenceDevice::copy_from_host(stream, opened(device_data), host, bytes);
  }
  void copy_to_host(models::Stream& stream, void* host, const void* device_data, std::size_t bytes) override {
    ReferenceDevice::copy_to_host(stream, host, opened(device_data), bytes);
  }
  /// How often page-locked host memory was asked for.
  int locked = 0;
  void* allocate_host(std::size_t bytes) override {
    ++locked;
    return ReferenceDevice::allocate_host(bytes);
  }
  void* allocate(std::size_t bytes) override { return closed(ReferenceDevice::allocate(bytes)); }
  void free(void* data) noexcept override { ReferenceDevice::free(opened(data)); }
  /// As its kernels do, which a collective algorithm may use.
  void do_add(models::Stream& stream, const models::Add& args) override {
    ReferenceDevice::do_add(stream, {seen(args.a), seen(args.b), seen(args.y)});
  }
  void do_cast(models::Stream& stream, const models::Cast& args) override {
    ReferenceDevice::do_cast(stream, {seen(args.x), seen(args.y)});
  }
  std::unique_ptr<models::Stream> create_stream() override { return std::make_unique<HostStream>(); }
  /// The last urgent stream that was asked for.
  const models::Stream* urgent = nullptr;
  std::unique_ptr<models::Stream> create_urgent_stream() override {
    std::unique_ptr<models::Stream> stream = create_stream();
    urgent = stream.get();
    return stream;
  }

 private:
  // Beyond what user space has mapped (x86-64 and AArch64 with 48 bits).
  static constexpr std::ptrdiff_t vault_offset = std::ptrdiff_t{1} << 47;
  template <class T>
  T* opened(T* data) const {
    return is_vault_ ? reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) - vault_offset) : data;
  }

  models::Tensor seen(models::Tensor tensor) const {
    tensor.data = opened(tensor.data);
    return tensor;
  }
  void* closed(void* data) const {
    return is_vault_ ? reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) + vault_offset) : data;
  }

  std::string uuid_, pci_;
  bool is_vault_;
};

}  // namespace tw
