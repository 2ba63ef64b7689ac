#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/read.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

using inventory::file_exists;
using inventory::find_field;
using inventory::read_number;
using inventory::read_text;
using inventory::read_word;
namespace fs = std::filesystem;

struct Name {
  const char* pattern;
  const char* name;
};

/// Names of a folder's entries in a stable order; empty if it cannot be read.
std::vector<std::string> list(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

std::string unquoted(std::string text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return text;
}

/// /proc/cpuinfo has "model name" on x86; on ARM only numbers of implementer and part.
std::string cpu_model(const fs::path& root) {
  const auto text = read_text(root / "proc/cpuinfo");
  if (!text) return {};
  if (const auto model = find_field(*text, "model name")) return *model;
  const auto implementer = find_field(*text, "CPU implementer"), part = find_field(*text, "CPU part");
  if (implementer && part) return "implementer " + *implementer + " part " + *part;
  return {};
}

std::string operating_system(const fs::path& root) {
  for (const char* file : {"etc/os-release", "usr/lib/os-release"})
    if (const auto text = read_text(root / file))
      if (const auto name = find_field(*text, "PRETTY_NAME")) return unquoted(*name);
  return {};
}

/// Governor and the limits in force; the widest range over all CPUs, governors joined where they differ.
void read_frequency(const fs::path& root, results::HostInfo& host) {
  std::set<std::string> governors;
  for (const std::string& cpu : list(root / "sys/devices/system/cpu")) {
    if (!cpu.starts_with("cpu") || cpu.size() < 4 || !std::isdigit(static_cast<unsigned char>(cpu[3]))) continue;
    const fs::path folder = root / "sys/devices/system/cpu" / cpu / "cpufreq";
    if (const auto governor = read_word(folder / "scaling_governor")) governors.insert(*governor);
    if (const auto khz = read_number<double>(folder / "scaling_min_freq"))
      host.cpu_min_mhz = std::min(host.cpu_min_mhz.value_or(*khz / 1000), *khz / 1000);
    if (const auto khz = read_number<double>(folder / "scaling_max_freq"))
      host.cpu_max_mhz = std::max(host.cpu_max_mhz.value_or(*khz / 1000), *khz / 1000);
  }
  if (!governors.empty()) host.cpu_governor = results::text::join(governors, ",");
}

std::string format_cpus(double cpus) {
  std::ostringstream text;
  text << cpus << " CPUs";
  return text.str();
}

/// Whose cloud or machine monitor the firmware names; empty if it names hardware.
std::string dmi_platform(const fs::path& root) {
  // After systemd's detect-virt: vendor strings that only virtual machines carry.
  static constexpr const char* known[] = {"Google Compute Engine",
                                          "Amazon EC2",
                                          "OpenStack",
                                          "KubeVirt",
                                          "VMware",
                                          "VirtualBox",
                                          "Parallels",
                                          "BHYVE",
                                          "Xen",
                                          "KVM",
                                          "QEMU",
                                          "Bochs",
                                          "Apple Virtualization"};
  for (const char* file : {"product_name", "sys_vendor", "board_vendor", "bios_vendor"}) {
    const std::string text = read_word(root / "sys/class/dmi/id" / file).value_or("");
    for (const std::string_view name : known)
      if (text.find(name) != text.npos) return std::string(name == "BHYVE" ? "bhyve" : name);
  }
  if (read_word(root / "sys/class/dmi/id/product_name") == "Virtual Machine") return "Hyper-V";
  return {};
}

/// The line of a wired or wireless interface, empty if it is loopback.
std::string describe_interface(const fs::path& folder, const std::string& name) {
  const auto state = read_word(folder / "operstate");
  if (state && *state == "down") return name + " down";
  const auto speed = read_number<long>(folder / "speed");  // −1 or EINVAL where the driver does not know
  if (!speed || *speed <= 0) return name + " speed unknown";
  return name + " " + std::to_string(*speed) + " Mbit/s";
}

void read_kernel_topology(const fs::path& root, const std::vector<int>& allowed, results::HostInfo& host) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  const std::vector<int> online = inventory::number_list(read_word(cpus / "online").value_or(""));
  std::set<std::string> sockets, cores;
  for (const int cpu : online) {
    const fs::path topology = cpus / ("cpu" + std::to_string(cpu)) / "topology";
    const auto socket = read_word(topology / "physical_package_id"), core = read_word(topology / "core_id");
    if (!socket || !core) continue;
    sockets.insert(*socket);
    // A core's number is its socket's own, and on some its die's.
    cores.insert(*socket + "/" + read_word(topology / "die_id").value_or("") + "/" + *core);
  }
  host.sockets = static_cast<int>(sockets.size()), host.cores = static_cast<int>(cores.size());
  host.hardware_threads = static_cast<int>(online.size());
  host.usable_threads = host.hardware_threads;
  if (!allowed.empty())
    host.usable_threads = static_cast<int>(
        std::ranges::count_if(online, [&](int cpu) { return std::ranges::find(allowed, cpu) != allowed.end(); }));
  host.numa_nodes =
      static_cast<int>(inventory::number_list(read_word(root / "sys/devices/system/node/online").value_or("")).size());
}

}  // namespace

std::optional<std::string> read_cpuid_signature() {
#if defined(__x86_64__) || defined(__i386__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 31))) return std::string();
  __cpuid(0x40000000u, a, b, c, d);
  char letters[13] = {};
  std::memcpy(letters, &b, 4);
  std::memcpy(letters + 4, &c, 4);
  std::memcpy(letters + 8, &d, 4);
  const std::string signature(letters);
  return signature.empty() ? "?" : signature;
#else
  return std::nullopt;
#endif
}

std::optional<std::string> find_hypervisor(const std::optional<std::string>& cpuid_signature, const fs::path& root) {
  static const std::map<std::string, std::string> known = {
      {"KVMKVMKVM", "kvm"},       {"Linux KVM Hv", "kvm"},   {"Microsoft Hv", "hyperv"},
      {"VMwareVMware", "vmware"}, {"XenVMMXenVMM", "xen"},   {"VBoxVBoxVBox", "virtualbox"},
      {"TCGTCGTCGTCG", "qemu"},   {"bhyve bhyve ", "bhyve"}, {" lrpepyh  vr", "parallels"},
      {"ACRNACRNACRN", "acrn"},   {"QNXQVMBSQG", "qnx"},     {"SRESRESRESRE", "lmhs"}};
  const std::string platform = dmi_platform(root);
  if (cpuid_signature) {
    // The CPU's own bit decides: bare-metal cloud machines carry their cloud's DMI strings too.
    if (cpuid_signature->empty()) return std::nullopt;
    const auto found = known.find(*cpuid_signature);
    const std::string name = found == known.end() ? "unknown (" + *cpuid_signature + ")" : found->second;
    const bool says_more = platform == "Amazon EC2" || platform == "Google Compute Engine" || platform == "OpenStack" ||
                           platform == "KubeVirt";
    return says_more ? name + " (" + platform + ")" : name;
  }
  if (const auto type = read_word(root / "sys/hypervisor/type")) return *type;
  if (const auto tree = read_word(root / "proc/device-tree/hypervisor/compatible"))
    return tree->rfind("linux,kvm", 0) == 0 ? "kvm" : *tree;
  if (!platform.empty()) return platform;
  return std::nullopt;
}

std::optional<std::string> find_container(const std::map<std::string, std::string>& environment, const fs::path& root) {
  const auto set = [&](const char* name) {
    const auto found = environment.find(name);
    return found != environment.end() && !found->second.empty();
  };
  // From the inside out: Apptainer runs inside whatever started it.
  if (set("APPTAINER_NAME") || set("APPTAINER_CONTAINER")) return "apptainer";
  if (set("SINGULARITY_NAME") || set("SINGULARITY_CONTAINER") || file_exists(root / ".singularity.d"))
    return "singularity";
  if (set("CH_RUNNING")) return "charliecloud";
  if (set("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  if (const auto text = read_text(root / "run/.containerenv")) {
    const auto engine = find_field(*text, "engine");  // engine="podman-4.3.1"; empty file for an unprivileged reader
    return engine ? unquoted(*engine) : "podman";
  }
  if (file_exists(root / ".dockerenv")) return "docker";
  if (const auto name = read_word(root / "run/systemd/container")) return *name;
  if (const auto first = read_text(root / "proc/1/environ")) {
    std::istringstream entries(*first);
    for (std::string entry; std::getline(entries, entry, '\0');)
      if (entry.starts_with("container=") && entry.size() > 10) return entry.substr(10);
  }
  static constexpr Name groups[] = {{"kubepods", "kubernetes"},
                                    {"docker", "docker"},
                                    {"libpod", "podman"},
                                    {"crio", "cri-o"},
                                    {"containerd", "containerd"},
                                    {"machine.slice/machine-", "systemd-nspawn"},
                                    {"/lxc", "lxc"}};
  std::string text = read_text(root / "proc/self/cgroup").value_or("");
  for (const std::string_view daemon : {"docker.service", "containerd.service"})  // the daemon's own group on the host
    for (std::size_t at; (at = text.find(daemon)) != text.npos;) text.erase(at, daemon.size());
  for (const Name& one : groups)
    if (text.find(one.pattern) != text.npos) return one.name;
  return std::nullopt;
}

std::vector<std::string> find_nics(const fs::path& root) {
  const fs::path folder = root / "sys/class/net";
  std::vector<std::string> hardware, others;
  for (const std::string& name : list(folder)) {
    if (name == "lo" || !file_exists(folder / name / "operstate")) continue;
    const bool real = file_exists(folder / name / "device") || file_exists(folder / name / "bonding");
    (real ? hardware : others).push_back(describe_interface(folder / name, name));
  }
  std::vector<std::string> lines = hardware.empty() ? others : hardware;
  const fs::path rdma = root / "sys/class/infiniband";
  for (const std::string& device : list(rdma)) {
    for (const std::string& port : list(rdma / device / "ports")) {
      const fs::path attributes = rdma / device / "ports" / port;
      std::string line = device + ":" + port + " RDMA";
      if (const auto rate = read_word(attributes / "rate")) line += " " + *rate;          // "400 Gb/sec (4X NDR)"
      if (const auto layer = read_word(attributes / "link_layer")) line += " " + *layer;  // "InfiniBand", "Ethernet"
      if (const auto state = read_word(attributes / "state")) {                           // "4: ACTIVE"
        const auto colon = state->find(": ");
        line += " " + (colon == std::string::npos ? *state : state->substr(colon + 2));
      }
      lines.push_back(line);
    }
  }
  return lines;
}

results::HostInfo inspect_host(const fs::path& root) {
  results::HostInfo host;
  host.name = read_word(root / "proc/sys/kernel/hostname").value_or("");
  host.cpu = cpu_model(root);
  host.kernel = read_word(root / "proc/sys/kernel/osrelease").value_or("");
  host.os = operating_system(root);
  if (const auto memory = read_text(root / "proc/meminfo"))
    if (const auto total = find_field(*memory, "MemTotal"))
      host.memory_bytes = inventory::to_number<std::uint64_t>(*total).value_or(0) * 1024;
  const bool live = root == "/";
  host.hypervisor = find_hypervisor(live ? read_cpuid_signature() : std::nullopt, root);
  host.container = find_container(live ? environment_of(environ) : std::map<std::string, std::string>{}, root);
  read_frequency(root, host);
  host.nics = find_nics(root);
  host.steal_share_since_boot = steal_share(CpuTimes{}, read_cpu_times(root));
  const CgroupLimits limits = read_cgroup_limits(root);
  if (limits.cpus) host.cgroup_cpu_limit = format_cpus(*limits.cpus);
  host.cgroup_memory_limit_bytes = limits.memory_bytes;
  read_kernel_topology(root, limits.allowed_cpus, host);
  return host;
}

}  // namespace tw::bench
