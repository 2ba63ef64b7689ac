#include <nlohmann/json.hpp>

#include "bench/inventory/inventory.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

/// Writes or reads every field of a struct through one list, so that the two cannot disagree.
struct Writer {
  Json json;
  template <class T>
  void operator()(const char* key, const T& value) {
    json[key] = value;
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    json[key] = value ? Json(*value) : Json();
  }
};
struct Reader {
  const Json& json;
  template <class T>
  void operator()(const char* key, T& value) {
    json.at(key).get_to(value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const Json& found = json.at(key);
    value = found.is_null() ? std::nullopt : std::optional<T>(found.get<T>());
  }
};

template <class Visitor, class Host>
void visit_host(Visitor& visit, Host& host) {
  visit("name", host.name);
  visit("cpu", host.cpu);
  visit("hypervisor", host.hypervisor);
  visit("container", host.container);
  visit("sockets", host.sockets);
  visit("cores", host.cores);
  visit("hardware_threads", host.hardware_threads);
  visit("numa_nodes", host.numa_nodes);
  visit("usable_threads", host.usable_threads);
  visit("memory_bytes", host.memory_bytes);
  visit("kernel", host.kernel);
  visit("os", host.os);
  visit("cpu_governor", host.cpu_governor);
  visit("cpu_min_mhz", host.cpu_min_mhz);
  visit("cpu_max_mhz", host.cpu_max_mhz);
  visit("nics", host.nics);
  visit("steal_share_since_boot", host.steal_share_since_boot);
  visit("cgroup_cpu_limit", host.cgroup_cpu_limit);
  visit("cgroup_memory_limit_bytes", host.cgroup_memory_limit_bytes);
  visit("topology_xml_sha256", host.topology_xml_sha256);
}

template <class Visitor, class Entry>
void visit_device(Visitor& visit, Entry& device) {
  visit("rank", device.rank);
  visit("host", device.host);
  visit("kind", device.kind);
  visit("name", device.name);
  visit("uuid", device.uuid);
  visit("instruction_set", device.instruction_set);
  visit("threads", device.threads);
  visit("affinity", device.affinity);
  visit("libraries", device.libraries);
}

/// Text from sysfs may hold any byte; JSON may not.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw std::runtime_error("inventory: a rank sent text that is not a packed inventory");
  return json;
}

}  // namespace

std::string pack(const results::HostInfo& host) {
  Writer writer;
  visit_host(writer, host);
  return dump(writer.json);
}
std::string pack(const results::DeviceEntry& device) {
  Writer writer;
  visit_device(writer, device);
  return dump(writer.json);
}
results::HostInfo unpack_host(const std::string& text) try {
  const Json json = parse(text);
  Reader reader{json};
  results::HostInfo host;
  visit_host(reader, host);
  return host;
} catch (const Json::exception& error) {
  throw std::runtime_error(std::string("inventory: ") + error.what());
}
results::DeviceEntry unpack_device(const std::string& text) try {
  const Json json = parse(text);
  Reader reader{json};
  results::DeviceEntry device;
  visit_device(reader, device);
  return device;
} catch (const Json::exception& error) {
  throw std::runtime_error(std::string("inventory: ") + error.what());
}

}  // namespace tw::bench
