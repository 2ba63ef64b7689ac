// Settings over knobs whose hardware is a file, and runs of settings_run on them, to be killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "power/knob/settings.hpp"
#include "tests/power/knob/file_knob.hpp"

#ifndef SETTINGS_RUN  // the targets that run it say where it is
#define SETTINGS_RUN "settings_run"
#endif

namespace tw {

/// Waits for what another process does; false only where it hangs.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// settings_run, with its stdout in a pipe.
class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      std::vector<char*> argv;
      for (std::string& word : command) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Process() {
    if (pid_ > 0) end(SIGKILL);
    std::fclose(output_);
  }
  std::string line() {
    char text[512] = {};
    if (!std::fgets(text, sizeof text, output_)) return "";
    return std::string(text).substr(0, std::string(text).find('\n'));
  }
  /// Waits until the settings are applied.
  pid_t guardian() {
    const std::string text = line();
    EXPECT_EQ(text.rfind("ready ", 0), 0u) << text;
    return text.size() > 6 ? std::stoi(text.substr(6)) : -1;
  }
  pid_t pid() const { return pid_; }
  int end(int signal) {
    int status = 0;
    if (signal != 0) kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
};

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trainwatt-settings-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    knobs = base / "knobs";
    make_file_knobs(knobs);
    setenv("TRAINWATT_RUN_DIR", (base / "run").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TRAINWATT_RUN_DIR");
    std::filesystem::remove_all(base);
  }
  std::vector<std::string> command(const std::string& then = "wait") const {
    return {SETTINGS_RUN, knobs.string(), then};
  }
  std::string cpu() const { return file_text(knobs / "cpu_frequency_mhz"); }
  std::string gpu() const { return file_text(knobs / "gpu_clock_mhz"); }
  bool journal() const { return std::filesystem::exists(base / "run/settings.json"); }
  void expect_applied() const {
    EXPECT_EQ(cpu(), "1500");
    EXPECT_EQ(gpu(), "900");
    EXPECT_TRUE(journal());
  }
  void expect_put_back() const {
    EXPECT_TRUE(eventually([&] { return !journal(); })) << "the journal stays";
    EXPECT_EQ(cpu(), "2500");
    EXPECT_EQ(gpu(), "reset");
  }
  power::Settings make_settings() const {
    power::SettingsOptions options;
    options.find = file_knobs(knobs);
    return power::Settings(options.find({}), options);
  }
  power::RestoreSummary restore() const {
    power::RestoreOptions options;
    options.find = file_knobs(knobs);
    return power::restore_journals(options);
  }
  /// A run, then its guardian and it killed: nobody is left to put back.
  void leave_behind() {
    Process run(command());
    const pid_t guardian = run.guardian();
    ASSERT_GT(guardian, 0);
    ASSERT_EQ(kill(guardian, SIGKILL), 0);
    run.end(SIGKILL);
    expect_applied();
  }
  std::filesystem::path base, knobs;
};

}  // namespace tw
