#include "tests/power/sandbox.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/power/write_in_place.hpp"

namespace fs = std::filesystem;

namespace tw {
namespace {

const fs::path class_folder = "/sys/class/powercap", cpu_folder = "/sys/devices/system/cpu";
constexpr const char* marker = "TW_TEST_POWERCAP_TREE";  // "1" inside, else why not

/// Exit status of a program, 127 where it cannot be started.
int run(std::vector<std::string> command, bool quiet) {
  const pid_t child = fork();
  if (child == 0) {
    if (quiet) {
      (void)!freopen("/dev/null", "w", stdout);
      (void)!freopen("/dev/null", "w", stderr);
    }
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string why_no_sandbox() {
  const char* text = std::getenv(marker);
  if (!text) return "not started through its own main()";
  return std::strcmp(text, "1") == 0 ? "" : text;
}

void clear_tree() {
  for (const fs::directory_entry& entry : fs::directory_iterator(class_folder)) fs::remove_all(entry.path());
  fs::remove_all(cpu_folder / "cpufreq");
  for (const fs::directory_entry& entry : fs::directory_iterator(cpu_folder))
    if (entry.is_directory()) fs::remove(entry.path() / "cpufreq");
}

std::string zone_folder(const std::string& path) {
  return (class_folder / path.substr(0, path.find(':')) / path).string();
}

void write_zone_file(const std::string& path, const std::string& file, const std::string& text) {
  write_in_place(fs::path(zone_folder(path)) / file, text);
}

void make_zone(const std::string& path, const std::string& name, std::uint64_t energy_uj, std::uint64_t range_uj) {
  fs::create_directories(zone_folder(path));
  write_zone_file(path, "name", name);
  write_zone_file(path, "energy_uj", std::to_string(energy_uj));
  write_zone_file(path, "max_energy_range_uj", std::to_string(range_uj));
  write_zone_file(path, "enabled", "1");
}

void make_policy(unsigned cpu, unsigned long min_khz, unsigned long max_khz) {
  const fs::path policy = cpu_folder / "cpufreq" / ("policy" + std::to_string(cpu));
  const fs::path link = cpu_folder / ("cpu" + std::to_string(cpu)) / "cpufreq";
  fs::create_directories(policy);
  fs::create_directories(link.parent_path());
  if (!fs::exists(link)) fs::create_directory_symlink("../cpufreq/" + policy.filename().string(), link);
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(policy / file) << text << '\n'; };
  write("affected_cpus", std::to_string(cpu));
  write("related_cpus", std::to_string(cpu));
  write("cpuinfo_min_freq", "1200000");
  write("cpuinfo_max_freq", "3800000");
  write("scaling_min_freq", std::to_string(min_khz));
  write("scaling_max_freq", std::to_string(max_khz));
  write("scaling_cur_freq", std::to_string(min_khz));
  write("scaling_governor", "schedutil");
  write("scaling_available_governors", "schedutil powersave ");
}

std::string policy_file(unsigned cpu, const std::string& file) {
  return (cpu_folder / "cpufreq" / ("policy" + std::to_string(cpu)) / file).string();
}

std::string read_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line.substr(0, line.find('\0'));  // libpowercap writes its whole buffer, of which the kernel sees the text
}

}  // namespace tw

/// Starts itself again inside bubblewrap; the cases then skip or run.
int main(int argc, char** argv) {
  using namespace tw;
  const bool listing = argc > 1 && std::strncmp(argv[1], "--gtest_list", 12) == 0;
  if (listing || std::getenv(marker)) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  char folder[] = "/tmp/trainwatt-powercap-XXXXXX";
  if (!mkdtemp(folder)) {
    std::perror(folder);
    return 1;
  }
  chmod(folder, 0755);
  const fs::path powercap = fs::path(folder) / "powercap", cpus = fs::path(folder) / "cpu";
  fs::create_directory(powercap);
  fs::create_directory(cpus);
  // What the C library and others ask for stays.
  for (const char* file : {"online", "possible", "present"}) {
    std::string text;
    std::getline(std::ifstream(cpu_folder / file), text);
    std::ofstream(cpus / file) << text << '\n';
  }
  std::vector<std::string> mount = {"bwrap", "--dev-bind", "/", "/", "--tmpfs", "/sys/class"};
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator("/sys/class", none))
    if (entry.path() != class_folder) mount.insert(mount.end(), {"--ro-bind", entry.path(), entry.path()});
  mount.insert(mount.end(), {"--bind", powercap, class_folder, "--bind", cpus, cpu_folder, "--"});

  std::vector<std::string> probe = mount, command = mount;
  probe.push_back("true");
  const int status = run(probe, true);
  if (status == 0) {
    setenv(marker, "1", 1);
  } else {
    command.clear();
    setenv(marker,
           status == 127 ? "bubblewrap (bwrap) is not installed"
                         : "bubblewrap may not mount here (a chroot or container without mount rights)",
           1);
  }
  command.push_back(fs::read_symlink("/proc/self/exe"));
  for (int i = 1; i < argc; ++i) command.push_back(argv[i]);
  const int result = run(command, false);
  fs::remove_all(folder);
  return result;
}
