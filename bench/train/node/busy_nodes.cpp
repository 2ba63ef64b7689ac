#include "bench/train/node/busy_nodes.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "bench/inventory/busy.hpp"

namespace tw::bench {

std::string remedy_beside_others(const std::string& launcher, int ranks, int threads, const std::string& wait_policy) {
  if (threads <= 1 || strcasecmp(wait_policy.c_str(), "passive") == 0) return {};
  std::string command = "OMP_WAIT_POLICY=passive ";
  if (launcher == "mpirun")
    command = fmt::format("mpirun -np {} env {}", ranks, command);  // each MPI's own option has another name
  else if (launcher == "srun")
    command += "srun ";
  return fmt::format(
      "waiting threads spin, which can make this run ten times slower: on a shared machine, start it as "
      "{}trainwatt-train …",
      command);
}

std::vector<std::string> busy_nodes(comm::Job& job, int threads) {
  constexpr std::chrono::milliseconds look(500);
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const std::string remedy = remedy_beside_others(job.launcher(), job.size(), threads, policy ? policy : "");
  std::string line;
  job.meet();
  if (job.is_node_leader()) {
    const ProcessorUse before = read_processor_use();
    std::this_thread::sleep_for(look);
    if (const std::string at_work = others_at_work(before, read_processor_use()); !at_work.empty())
      line = fmt::format("{}: {}: steps take longer and vary more; wait until they end, or use an idle machine{}{}",
                         job.host(), at_work, remedy.empty() ? "" : "; ", remedy);
  }
  job.meet();
  std::vector<std::string> lines = job.gather(line);
  std::erase(lines, "");
  return lines;
}

}  // namespace tw::bench
