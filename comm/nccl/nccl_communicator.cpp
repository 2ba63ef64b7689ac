// Collectives between GPUs by NCCL, one rank for each GPU. All are enqueued on the caller's stream and return at once.
//
// A lost peer shows as an asynchronous error of the communicator, while the host waits for a stream that will never
// end: a thread asks for it once a second, and ends the job with the reason. Within a host NCCL reports no such error
// (NVIDIA/nccl issue 279): there the thread sees that a collective does not end. Calls that wait for other ranks
// themselves are watched too: the one that makes the communicator, and those that make connections when they are first
// needed. The job ends there without ncclCommAbort: nothing goes on after it, and so any NCCL will do, as none must be
// told not to block (ncclCommInitRankConfig, since 2.14).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "comm/checks.hpp"
#include "comm/nccl/library.hpp"
#include "comm/registry.hpp"
#include "models/compute/error.hpp"

namespace tw::comm {
namespace {

using nccl::Library;

constexpr int lost_peer_exit = 3;  // environment

/// What a collective may take is this, or so many times the longest that one has taken, whichever is more.
constexpr const char* patience_variable = "TRAINWATT_NCCL_TIMEOUT";
constexpr double default_patience_seconds = 60, patience_steps = 100;

/// The call that makes the communicator.
constexpr const char* making = "ncclCommInitRank(";
constexpr const char* what_to_check =
    "run with NCCL_DEBUG=INFO, which shows the network of each rank, and choose another with NCCL_SOCKET_IFNAME";

double patience_seconds() {
  const char* text = std::getenv(patience_variable);
  if (text == nullptr || *text == '\0') return default_patience_seconds;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && std::isfinite(seconds) && seconds > 0) return seconds;
  throw models::Error(models::Failure::usage,
                      std::string(patience_variable) + "=" + text + ": must be a number of seconds above 0");
}

nccl::Type type_of(const models::Tensor& tensor) {
  return tensor.dtype == models::DType::bf16 ? nccl::bfloat16 : nccl::float32;
}
nccl::Operation operation(Reduction reduction) { return reduction == Reduction::sum ? nccl::sum : nccl::maximum; }
std::size_t count_of(const models::Tensor& tensor) { return static_cast<std::size_t>(tensor.count()); }

#define TW_NCCL_CALL(expression) \
  check(watched([&] { return expression; }, #expression), #expression, __FILE__, __LINE__)

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<const Library> library, Job& job, models::Device& device)
      : library_(std::move(library)), job_(job) {
    nccl::UniqueId id{};
    std::string failure;
    try {
      patience_seconds_ = patience_seconds();
      mark_ = device.create_event();
      // Urgent: backward fills the GPUs, and a collective that waits for room on one of them holds up all ranks. This
      // makes the device the calling thread's current one, which NCCL takes.
      side_stream_ = device.create_urgent_stream();
      if (job.is_root()) TW_NCCL_CALL(library_->ncclGetUniqueId(&id));
    } catch (const std::exception& error) {  // the others are about to wait for the identity
      failure = error.what();
    }
    failure = job.agree(failure);
    if (!failure.empty()) throw models::Error(models::Failure::environment, "NCCL: " + failure);
    const std::string bytes = job.broadcast(std::string(id.internal, sizeof id.internal));
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    watch_ = std::thread([this] { watch(); });
    try {
      start(id);
    } catch (...) {
      end_watch();
      throw;
    }
  }
  ~NcclCommunicator() override {
    end_watch();
    // Destroying waits for what is enqueued, which never ends where a peer is gone or left out of a collective.
    const bool aborts = std::uncaught_exceptions() > exceptions_ || error_now() != nccl::success;
    const int result = aborts ? library_->ncclCommAbort(comm_) : library_->ncclCommDestroy(comm_);
    if (result != nccl::success)
      std::fprintf(stderr, "NCCL: %s in %s\n", library_->text(result).c_str(),
                   aborts ? "ncclCommAbort" : "ncclCommDestroy");
  }

  int rank() const override { return job_.rank(); }
  int size() const override { return job_.size(); }
  std::string name() const override { return "nccl"; }
  std::string route() const override { return "NCCL " + library_->version(); }
  models::Stream* side_stream() override { return side_stream_.get(); }

  void all_reduce(models::Stream& stream, models::Tensor values, Reduction reduction) override {
    check_values(values, "all_reduce");
    if (values.count() == 0) return;
    TW_NCCL_CALL(library_->ncclAllReduce(values.data, values.data, count_of(values), type_of(values),
                                         operation(reduction), comm_, stream.native()));
    mark(stream);
  }
  void reduce_scatter(models::Stream& stream, models::Tensor input, models::Tensor output,
                      Reduction reduction) override {
    check_blocks(input, output, size(), 1, "reduce_scatter");
    if (output.count() == 0) return;
    TW_NCCL_CALL(library_->ncclReduceScatter(input.data, output.data, count_of(output), type_of(output),
                                             operation(reduction), comm_, stream.native()));
    mark(stream);
  }
  void all_gather(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, 1, size(), "all_gather");
    if (input.count() == 0) return;
    TW_NCCL_CALL(
        library_->ncclAllGather(input.data, output.data, count_of(input), type_of(input), comm_, stream.native()));
    mark(stream);
  }
  void broadcast(models::Stream& stream, models::Tensor values, int root) override {
    check_values(values, "broadcast");
    check_peer(root, size(), "broadcast");
    if (values.count() == 0) return;
    TW_NCCL_CALL(library_->ncclBroadcast(values.data, values.data, count_of(values), type_of(values), root, comm_,
                                         stream.native()));
    mark(stream);
  }
  void all_to_all(models::Stream& stream, models::Tensor input, models::Tensor output) override {
    check_blocks(input, output, size(), size(), "all_to_all");
    const std::int64_t n = input.count() / size();
    if (n == 0) return;
    TW_NCCL_CALL(library_->ncclGroupStart());
    for (int peer = 0; peer < size(); ++peer) {
      TW_NCCL_CALL(library_->ncclSend(input.slice(peer * n, {n}).data, static_cast<std::size_t>(n), type_of(input),
                                      peer, comm_, stream.native()));
      TW_NCCL_CALL(library_->ncclRecv(output.slice(peer * n, {n}).data, static_cast<std::size_t>(n), type_of(output),
                                      peer, comm_, stream.native()));
    }
    TW_NCCL_CALL(library_->ncclGroupEnd());
    mark(stream);
  }
  void send(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "send");
    check_peer(peer, size(), "send");
    if (values.count() == 0) return;
    TW_NCCL_CALL(library_->ncclSend(values.data, count_of(values), type_of(values), peer, comm_, stream.native()));
    mark(stream);
  }
  void receive(models::Stream& stream, models::Tensor values, int peer) override {
    check_values(values, "receive");
    check_peer(peer, size(), "receive");
    if (values.count() == 0) return;
    TW_NCCL_CALL(library_->ncclRecv(values.data, count_of(values), type_of(values), peer, comm_, stream.native()));
    mark(stream);
  }
  void barrier(models::Stream& stream) override {
    stream.synchronize();
    job_.barrier();
  }

 private:
  /// Waits for all ranks.
  void start(nccl::UniqueId id) {
    nccl::Handle made = nullptr;
    const int result = watched([&] { return library_->ncclCommInitRank(&made, job_.size(), id, job_.rank()); }, making);
    if (result != nccl::success)
      throw models::ApiError("NCCL", result, library_->text(result) + "; " + what_to_check, "ncclCommInitRank",
                             __FILE__, __LINE__, models::Failure::environment);
    const std::lock_guard lock(mutex_);
    comm_ = made;
  }
  /// A call, at whose length the watch looks.
  template <class Call>
  int watched(Call&& call, const char* expression) {
    {
      const std::lock_guard lock(mutex_);
      call_ = expression;
      call_seconds_ = 0;
    }
    const int result = call();
    const std::lock_guard lock(mutex_);
    call_ = nullptr;
    return result;
  }
  void check(int result, const char* expression, const char* file, int line) const {
    if (result == nccl::success || result == nccl::in_progress) return;
    const bool is_network = result == nccl::system_error || result == nccl::remote_error;
    throw models::ApiError("NCCL", result, library_->text(result), expression, file, line,
                           is_network ? models::Failure::environment : models::Failure::internal);
  }
  /// The communicator's asynchronous error.
  int error_now() const {
    int error = nccl::success;
    const int asked = library_->ncclCommGetAsyncError(comm_, &error);
    if (asked != nccl::success) error = asked;
    return error == nccl::in_progress ? nccl::success : error;
  }
  /// Behind a collective that was enqueued: the watch sees when it has ended. One at a time is enough, as streams keep
  /// order.
  void mark(models::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (is_marked_) return;
    mark_->record(stream);
    is_marked_ = true;
    waited_seconds_ = 0;
  }
  /// What a collective or a call may take. Under the lock.
  double most_seconds() const { return std::max(patience_seconds_, patience_steps * longest_seconds_); }
  /// Whether the marked collective takes longer than it may. Under the lock.
  bool is_stuck(double seconds) {
    if (!is_marked_) return false;
    bool is_done = true;
    try {
      is_done = mark_->is_done();
    } catch (const std::exception&) {  // of the device, which whoever waits for the stream learns
    }
    if (is_done) {
      longest_seconds_ = std::max(longest_seconds_, waited_seconds_);
      is_marked_ = false;
      return false;
    }
    waited_seconds_ += seconds;
    return waited_seconds_ > most_seconds();
  }
  /// Ends the job where a call takes longer than it may. Under the lock.
  void look_at_call(double seconds) {
    if (call_ == nullptr) return;
    call_seconds_ += seconds;
    if (call_seconds_ <= most_seconds()) return;
    const std::string call = call_, waited = std::to_string(std::lround(call_seconds_)) + " s";
    const std::size_t name = call.find("nccl");
    end_job((call_ == making ? "no communicator after " + waited
                             : call.substr(name, call.find('(') - name) + " has not returned for " + waited) +
            ": a rank has ended or hangs, or the network between the ranks does not work; see the other ranks' "
            "messages; " +
            what_to_check + "; if it may take that long, set " + patience_variable + " to more seconds");
  }
  void watch() {
    using Clock = std::chrono::steady_clock;
    std::unique_lock lock(mutex_);
    const auto pause = std::chrono::seconds(1);
    for (auto last = Clock::now(); !wake_.wait_for(lock, pause, [this] { return ends_; });) {
      const auto now = Clock::now();
      // A job that was suspended has not waited meanwhile.
      const double seconds =
          std::min(std::chrono::duration<double>(now - last), 2 * std::chrono::duration<double>(pause)).count();
      last = now;
      look_at_call(seconds);
      if (comm_ == nullptr) continue;
      if (const int error = error_now(); error != nccl::success)
        end_job(library_->text(error) + " (code " + std::to_string(error) +
                "): a rank is gone, or the network between the GPUs has failed; see the other ranks' messages, or set "
                "NCCL_DEBUG=WARN and run again with --resume");
      if (is_stuck(seconds))
        end_job("no progress for " + std::to_string(std::lround(waited_seconds_)) +
                " s: a rank has ended or hangs, or a GPU has failed; see the other ranks' messages and dmesg, and run "
                "again with --resume; if collectives may take that long, set " +
                patience_variable + " to more seconds");
    }
  }
  void end_watch() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    watch_.join();
  }
  [[noreturn]] void end_job(const std::string& why) {
    std::fprintf(stderr, "trainwatt-train: error[rank-lost]: rank %d on %s: NCCL: %s\n", job_.rank(),
                 job_.host().c_str(), why.c_str());
    job_.abort(lost_peer_exit);
  }

  std::shared_ptr<const Library> library_;
  Job& job_;
  std::unique_ptr<models::Stream> side_stream_;
  nccl::Handle comm_ = nullptr;                  // set once, under mutex_
  int exceptions_ = std::uncaught_exceptions();  // in flight when this was made
  std::thread watch_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool ends_ = false;
  std::unique_ptr<models::Event> mark_;
  bool is_marked_ = false;
  double patience_seconds_ = 0, waited_seconds_ = 0, longest_seconds_ = 0;
  const char* call_ = nullptr;  // into NCCL, that this thread's owner is in
  double call_seconds_ = 0;
};

/// What NCCL takes for one GPU, over all ranks: two MIG instances are one to it, and containers of one machine, which
/// have hosts' names of their own, may see the same.
std::string physical_gpu(const Job& job, const models::DeviceInfo& info) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return (boot.empty() ? job.host() : boot) + " " + (info.pci.empty() ? info.uuid : info.pci);
}

}  // namespace

std::string nccl_why_not(Job& job, models::Device& device) {
  const models::DeviceInfo info = device.info();
  std::map<std::string, int> owners;
  std::string shared;
  const std::vector<std::string> gpus = job.gather(physical_gpu(job, info));
  const std::vector<std::string> names = job.gather(info.uuid);
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [owner, is_new] = owners.emplace(gpus[rank], static_cast<int>(rank));
    if (!is_new && shared.empty())
      shared = "ranks " + std::to_string(owner->second) + " and " + std::to_string(rank) + " share a GPU (" +
               names[rank] + "), which NCCL refuses";
  }
  if (info.kind != models::DeviceKind::cuda)
    return std::string("NCCL exchanges the memory of GPUs, and this run trains on ") + models::to_string(info.kind);
  if (!shared.empty()) return shared;
  std::string why;
  Library::open(&why);
  return why;
}

std::unique_ptr<Communicator> nccl_create(Job& job, models::Device& device) {
  std::string why;
  std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) throw models::Error(models::Failure::environment, why);
  return std::make_unique<NcclCommunicator>(std::move(library), job, device);
}

}  // namespace tw::comm
