#include "tests/bench/tool/outcome.hpp"

#include <sys/wait.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/tool/built.hpp"

namespace tw::testing {
namespace {

std::string drain(FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

}  // namespace

const std::string fixtures = TRAINWATT_FIXTURES;

Outcome run(std::vector<std::string> arguments, std::vector<std::string> environment, const char* device) {
  FILE* out = device != nullptr ? std::fopen(device, "w") : std::tmpfile();
  FILE* err = std::tmpfile();
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    arguments.insert(arguments.begin(), "trainwatt");
    std::vector<char*> argv, envp;
    for (std::string& a : arguments) argv.push_back(a.data());
    for (std::string& e : environment) envp.push_back(e.data());
    argv.push_back(nullptr), envp.push_back(nullptr);
    execve(built::trainwatt, argv.data(), envp.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, drain(out), drain(err)};
}

std::string validate_json(const std::vector<std::string>& paths) {
  std::vector<std::string> arguments = {"validate", "--json"};
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  const Outcome o = run(arguments);
  const nlohmann::json found = nlohmann::json::parse(o.out);
  EXPECT_EQ(found.at("exit_code"), o.code);
  EXPECT_EQ(found.at("files").size(), paths.size());
  return o.out;
}

}  // namespace tw::testing
