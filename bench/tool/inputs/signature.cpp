#include "bench/tool/inputs/signature.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "bench/plan/options/input_kind.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "power/meter/descriptor.hpp"
#include "power/meter/program.hpp"
#include "results/export/bundle.hpp"
#include "results/record/report_io.hpp"
#include "results/record/temporary_folder.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* space = "trainwatt";

power::Descriptor opened(const std::string& path, int flags) {
  power::Descriptor file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (file.get() < 0) throw std::system_error(errno, std::generic_category(), path);
  return file;
}

struct Answer {
  int code = 0;
  std::string out, err;
  /// The first line of what it says is wrong.
  std::string what() const {
    const std::string& text = err.empty() ? out : err;
    const std::string line = text.substr(0, text.find_first_of("\r\n"));
    return results::text::printable(line.empty() ? fmt::format("ssh-keygen ended with {}", code) : line);
  }
};

/// Runs ssh-keygen with a file as its standard input.
Answer ssh_keygen(std::vector<std::string> words, const std::string& input, const results::TemporaryFolder& folder) {
  words.insert(words.begin(), "ssh-keygen");
  const std::string out = folder.file("out"), err = folder.file("err");
  const power::Descriptor from = opened(input, O_RDONLY), to = opened(out, O_WRONLY | O_CREAT | O_TRUNC),
                          errors = opened(err, O_WRONLY | O_CREAT | O_TRUNC);
  pid_t child = 0;
  try {
    child = power::start_program(words, {.input = from.get(), .output = to.get(), .error = errors.get()});
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
    throw EnvironmentError("no-ssh-keygen",
                           "ssh-keygen is not installed: install the OpenSSH client, or leave out --sign and "
                           "--signers");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {power::exit_code_of(status), folder.read("out"), folder.read("err")};
}

}  // namespace

std::string sign(const std::string& text, const std::string& key) {
  if (!fs::is_regular_file(key))
    throw UsageError("cannot-sign", fmt::format("--sign {}: not a file: give a private key", key));
  check_kind("--sign", key, {InputKind::key});
  const results::TemporaryFolder folder;
  const std::string file = folder.file(results::sums_file);
  results::write_atomically(file, text);
  const Answer answer = ssh_keygen({"-Y", "sign", "-f", key, "-n", space, file}, "/dev/null", folder);
  const std::string signature = folder.read(results::signature_file);
  if (answer.code != 0 || signature.empty())
    throw UsageError("cannot-sign", fmt::format("--sign {}: {}", key, answer.what()));
  return signature;
}

void check_signers(const std::string& signers) {
  if (!std::ifstream(signers) || fs::is_directory(signers))
    throw UsageError("cannot-read",
                     fmt::format("--signers {}: cannot be read: give a file with a line NAME KEY per signer", signers));
  check_kind("--signers", signers, {InputKind::signers});
}

Signed verify(const std::string& text, const std::string& signature, const std::string& signers) {
  const results::TemporaryFolder folder;
  const std::string file = folder.file(results::sums_file), signature_path = folder.file(results::signature_file);
  results::write_atomically(file, text), results::write_atomically(signature_path, signature);
  const Answer good = ssh_keygen({"-Y", "check-novalidate", "-n", space, "-s", signature_path}, file, folder);
  if (good.code != 0) return {"", "is not valid: " + good.what()};
  const Answer found = ssh_keygen({"-Y", "find-principals", "-s", signature_path, "-f", signers}, "/dev/null", folder);
  const std::string who = found.out.substr(0, found.out.find_first_of("\r\n"));
  const std::string key = results::text::printable(good.out.substr(0, good.out.find_first_of("\r\n")));
  if (found.code != 0 || who.empty())
    return {"", fmt::format("was made with a key that {} does not list: {}", results::text::printable(signers), key)};
  const Answer answer =
      ssh_keygen({"-Y", "verify", "-f", signers, "-I", who, "-n", space, "-s", signature_path}, file, folder);
  if (answer.code != 0)
    return {"", fmt::format("is not valid for {}: {}", results::text::printable(who), answer.what())};
  return {who, results::text::printable(answer.out.substr(0, answer.out.find_first_of("\r\n")))};
}

}  // namespace tw::bench::tool
