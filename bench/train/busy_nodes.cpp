#include "bench/train/busy_nodes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "bench/inventory/busy.hpp"

namespace tw {

std::vector<std::string> busy_nodes(Job& job) {
  constexpr std::chrono::milliseconds look(500);
  std::string line;
  job.meet();
  if (job.is_node_leader()) {
    const ProcessorUse before = read_processor_use();
    std::this_thread::sleep_for(look);
    if (const std::string at_work = others_at_work(before, read_processor_use()); !at_work.empty())
      line = fmt::format("{}: {}: steps take longer and scatter; wait until these are done, or use a machine of your own "
                         "(where it must be shared, OMP_WAIT_POLICY=passive is faster)",
                         job.host(), at_work);
  }
  job.meet();
  std::vector<std::string> lines = job.gather(line);
  std::erase(lines, "");
  return lines;
}

}  // namespace tw
