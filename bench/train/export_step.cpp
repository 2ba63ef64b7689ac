#include "bench/train/export_step.hpp"
#include "bench/train/point/point_config.hpp"

#include <fmt/format.h>

#include "bench/train/job/outcome.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/sweep/folders.hpp"
#include "comm/bucketer.hpp"
#include "comm/registry.hpp"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* option = "--export-step";

/// A sibling of the folder that is asked for, into which everything is written before it gets its name; gone with what
/// it holds where that did not happen.
class Partial {
 public:
  Partial(comm::Job& job, const fs::path& folder) : root_(job.is_root()), folder_(folder), partial_(folder) {
    partial_ += ".partial";
    make_folder(job, partial_, option);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() {
    std::error_code ignored;
    if (root_) fs::remove_all(partial_, ignored);
  }
  const fs::path& path() const { return partial_; }
  void commit() const {
    if (root_) fs::rename(partial_, folder_);  // over the empty folder of that name
  }

 private:
  bool root_;
  fs::path folder_, partial_;
};

}  // namespace

std::string export_one_step(comm::Job& job, models::Device& device, const RunPlan& plan, const std::string& comm,
                            const fs::path& folder) {
  if (plan.points.size() != 1)
    throw Stop(exit_usage, "options-conflict",
               "--export-step: needs exactly one point: give one model, precision and batch");
  const Point& point = plan.points.front();
  if (point.is_automatic)
    throw Stop(exit_usage, "options-conflict",
               "--export-step: needs a number for --micro-batch: auto is found before trials, and this runs none");
  if (!point.setting.empty())
    throw Stop(exit_usage, "options-conflict",
               "--export-step: leave out --gpu-clock and the other options that change clocks and power limits");
  if (const std::string why = job.agree(why_unsupported(point, device)); !why.empty())
    throw Stop(exit_environment, "unsupported", why);
  if (const std::string why = job.agree(why_too_large(point, plan, job, device)); !why.empty())
    throw Stop(exit_code_of_too_large(point, plan, job, device), "out-of-memory", why);
  if (point.ranks > 1 && !point.network.shape->tables().rows.empty())
    throw Stop(exit_usage, "options-conflict",
               fmt::format("--export-step: the tables of {} would lie on {} ranks: run it with one",
                           point.network.name, point.ranks));
  make_folder(job, folder, option);
  const RemovedIfEmpty made(job, folder);
  const Partial partial(job, folder);
  models::Trainer trainer(device, trainer_config(point, plan, job.rank()));
  const std::unique_ptr<comm::Communicator> communicator = comm::create_communicator(comm, job, device);
  trainer.connect(*communicator);
  comm::Bucketer bucketer(*communicator, device, comm::Bucketer::default_bucket_bytes,
                          comm::Bucketer::Start::by_communicator, {}, reduce_type(plan));
  models::GradientSync sync;
  sync.ready = [&](models::Stream& stream, models::Tensor gradients, models::GradientRange range) {
    bucketer.ready(stream, gradients, range.begin, range.end);
  };
  sync.finish = [&](models::Stream& stream, models::Tensor gradients) { bucketer.finish(stream, gradients); };
  trainer.export_step(partial.path().string(), sync);
  together(job, [&] { partial.commit(); });
  const std::string why = trainer.why_no_relu_sides();
  return why.empty() ? "" : "relu.safetensors is left out: " + why;
}

}  // namespace tw::bench
