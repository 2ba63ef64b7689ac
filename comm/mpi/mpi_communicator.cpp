// Collectives over host memory through MPI.
//
// Everything goes in pieces: Open MPI 4.1.4's all-reduce between two ranks of one host reaches 6-7 GB/s from 256 KiB to
// 16 MiB and 2 GB/s from 64 MiB up; counts stay far from INT_MAX, and scratch memory stays small. bf16 values travel as
// bf16 and are summed in float32: each rank receives one block of all ranks' values, sums it and rounds once. The order
// of summation depends on rank count and element count alone, so that repeated runs agree bit by bit; all ranks get the
// same bits.
#if __has_include(<mpi-ext.h>)
#include <mpi.h>
// Needs mpi.h before it.
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/checks.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/pieces.hpp"
#include "comm/mpi/staged_communicator.hpp"
#include "comm/registry.hpp"

namespace tw::comm {
namespace {

MPI_Op operation(Reduction reduction) { return reduction == Reduction::sum ? MPI_SUM : MPI_MAX; }
MPI_Datatype datatype(models::DType dtype) { return dtype == models::DType::bf16 ? MPI_UINT16_T : MPI_FLOAT; }

/// `count` elements that repeat every `stride` elements: a piece of each rank's block.
class BlockType {
 public:
  BlockType(MPI_Datatype element, std::int64_t count, std::int64_t stride, std::size_t element_bytes) {
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    TW_MPI(MPI_Type_contiguous(static_cast<int>(count), element, &piece));
    const int code =
        MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(stride) * static_cast<MPI_Aint>(element_bytes), &type_);
    TW_MPI_NOTHROW(MPI_Type_free(&piece));
    TW_MPI(code);
    TW_MPI(MPI_Type_commit(&type_));
  }
  ~BlockType() { TW_MPI_NOTHROW(MPI_Type_free(&type_)); }
  BlockType(const BlockType&) = delete;
  BlockType& operator=(const BlockType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm world) {
    TW_MPI(MPI_Comm_dup(world, &comm_));  // its own, so that no message meets the job's
    TW_MPI(MPI_Comm_rank(comm_, &rank_));
    TW_MPI(MPI_Comm_size(comm_, &size_));
  }
  ~MpiCommunicator() override {
    int finalised = 0;
    TW_MPI_NOTHROW(MPI_Finalized(&finalised));
    if (!finalised) TW_MPI_NOTHROW(MPI_Comm_free(&comm_));
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "mpi"; }
  std::string route() const override { return "host memory"; }

  void all_reduce(models::Stream& stream, models::Tensor values, Reduction reduction) override {
    check_values(values, "all_reduce");
    stream.synchronize();
    for_pieces(values.count(), all_reduce_piece, [&](std::int64_t begin, std::int64_t count) {
      if (values.dtype == models::DType::float32) {
        TW_MPI(MPI_Allreduce(MPI_IN_PLACE, values.as<float>() + begin, static_cast<int>(count), MPI_FLOAT,
                             operation(reduction), comm_));
        return;
      }
      const std::int64_t n = (count + size_ - 1) / size_;  // of a rank's block; the last ones may be padded
      models::bf16* const piece = values.as<models::bf16>() + begin;
      models::bf16* const blocks = scratch(packed_, n * size_);
      std::fill(std::copy_n(piece, count, blocks), blocks + n * size_, models::bf16{});
      models::bf16* const block = scratch(block_, n);
      reduce_blocks(blocks, block, n, reduction);
      TW_MPI(MPI_Allgather(block, static_cast<int>(n), MPI_UINT16_T, blocks, static_cast<int>(n), MPI_UINT16_T, comm_));
      std::copy_n(blocks, count, piece);
    });
  }

  void reduce_scatter(models::Stream& stream, models::Tensor input, models::Tensor output,
                      Reduction reduction) override {
    check_blocks(input, output, size_, 1, "reduce_scatter");
    stream.synchronize();
    const std::int64_t n = output.count();
    const std::int64_t most = std::max<std::int64_t>(1, all_reduce_piece / size_);
    for_pieces(n, most, [&](std::int64_t begin, std::int64_t count) {
      // The piece of each rank's block, one behind the other; the whole input is laid out like that.
      const auto packed = [&](const auto* from, auto& memory) {
        if (count == n) return from;
        auto* const to = scratch(memory, count * size_);
        for (int r = 0; r < size_; ++r) std::copy_n(from + r * n + begin, count, to + r * count);
        return static_cast<decltype(from)>(to);
      };
      if (input.dtype == models::DType::bf16)
        reduce_blocks(packed(input.as<models::bf16>(), packed_), output.as<models::bf16>() + begin, count, reduction);
      else
        TW_MPI(MPI_Reduce_scatter_block(packed(input.as<float>(), wide_), output.as<float>() + begin,
                                        static_cast<int>(count), MPI_FLOAT, operation(reduction), comm_));
    });
  }

  void all_gather(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, 1, size_, "all_gather");
    stream.synchronize();
    const std::size_t element = models::size_of(input.dtype);
    for_pieces(input.count(), copy_piece_bytes / static_cast<std::int64_t>(element),
               [&](std::int64_t begin, std::int64_t count) {
                 const BlockType blocks(datatype(input.dtype), count, input.count(), element);
                 TW_MPI(MPI_Allgather(at(input, begin), static_cast<int>(count), datatype(input.dtype),
                                      at(output, begin), 1, blocks.get(), comm_));
               });
  }

  void broadcast(models::Stream& stream, models::Tensor values, int root) override {
    check_values(values, "broadcast");
    check_peer(root, size_, "broadcast");
    stream.synchronize();
    for_bytes(values, [&](void* data, int bytes) { TW_MPI(MPI_Bcast(data, bytes, MPI_BYTE, root, comm_)); });
  }

  void all_to_all(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, size_, size_, "all_to_all");
    stream.synchronize();
    const std::size_t element = models::size_of(input.dtype);
    const std::int64_t n = input.count() / size_;
    for_pieces(n, copy_piece_bytes / static_cast<std::int64_t>(element), [&](std::int64_t begin, std::int64_t count) {
      const BlockType blocks(datatype(input.dtype), count, n, element);
      TW_MPI(MPI_Alltoall(at(input, begin), 1, blocks.get(), at(output, begin), 1, blocks.get(), comm_));
    });
  }

  void send(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "send");
    check_peer(peer, size_, "send");
    stream.synchronize();
    for_bytes(values, [&](void* data, int bytes) { TW_MPI(MPI_Send(data, bytes, MPI_BYTE, peer, 0, comm_)); });
  }

  void receive(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "receive");
    check_peer(peer, size_, "receive");
    stream.synchronize();
    for_bytes(values, [&](void* data, int bytes) {
      MPI_Status status;
      TW_MPI(MPI_Recv(data, bytes, MPI_BYTE, peer, 0, comm_, &status));
      int received = 0;
      TW_MPI(MPI_Get_count(&status, MPI_BYTE, &received));
      if (received != bytes)
        throw models::Error(models::Failure::internal, "receive: rank " + std::to_string(peer) + " sent " +
                                                           std::to_string(received) + " bytes where " +
                                                           std::to_string(bytes) + " were expected");
    });
  }

  void barrier(models::Stream& stream) override {
    stream.synchronize();
    TW_MPI(MPI_Barrier(comm_));
  }

 private:
  static char* at(const models::Tensor& tensor, std::int64_t element) {
    return static_cast<char*>(tensor.data) + static_cast<std::size_t>(element) * models::size_of(tensor.dtype);
  }
  template <class F>
  static void for_bytes(const models::Tensor& values, F&& call) {
    for_pieces(static_cast<std::int64_t>(values.bytes()), copy_piece_bytes,
               [&](std::int64_t begin, std::int64_t bytes) {
                 call(static_cast<char*>(values.data) + begin, static_cast<int>(bytes));
               });
  }
  /// `result` (n): this rank's block of `blocks` (size × n), reduced over the ranks in their order.
  void reduce_blocks(const models::bf16* blocks, models::bf16* result, std::int64_t n, Reduction reduction) {
    models::bf16* const received = scratch(received_, n * size_);
    const int count = static_cast<int>(n);
    TW_MPI(MPI_Alltoall(blocks, count, MPI_UINT16_T, received, count, MPI_UINT16_T, comm_));
    float* const wide = scratch(wide_, n);
    for (std::int64_t i = 0; i < n; ++i) wide[i] = models::to_float(received[i]);
    for (int r = 1; r < size_; ++r) {
      const models::bf16* const theirs = received + r * n;
      if (reduction == Reduction::sum)
        for (std::int64_t i = 0; i < n; ++i) wide[i] += models::to_float(theirs[i]);
      else
        for (std::int64_t i = 0; i < n; ++i) wide[i] = std::max(wide[i], models::to_float(theirs[i]));
    }
    for (std::int64_t i = 0; i < n; ++i) result[i] = models::to_bf16(wide[i]);
  }
  /// Grows on first use to at most one piece, then stays.
  template <class T>
  static T* scratch(std::vector<T>& memory, std::int64_t count) {
    if (memory.size() < static_cast<std::size_t>(count)) memory.resize(static_cast<std::size_t>(count));
    return memory.data();
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<float> wide_;
  std::vector<models::bf16> packed_, received_, block_;
};

/// Whether this MPI was built to read device memory, and says at run time that it does (Open MPI's extension).
DirectMemory direct_memory() {
#if defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
  if (MPIX_Query_cuda_support() == 1) return DirectMemory::copies_and_float_reductions;
#endif
  return DirectMemory::none;
}

}  // namespace

std::string mpi_why_not(Job&, models::Device&) { return {}; }

std::unique_ptr<Communicator> mpi_create(Job& job, models::Device& device) {
  auto host = std::make_unique<MpiCommunicator>(JobAccess::world(job));
  if (device.info().kind != models::DeviceKind::cuda) return host;
  return make_staged_communicator(device, std::move(host), direct_memory());
}

}  // namespace tw::comm
