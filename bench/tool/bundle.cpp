// `trainwatt bundle`: a run's folder as one file to hand in.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "bench/tool/archive.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/signature.hpp"
#include "results/bundle.hpp"
#include "results/text.hpp"

namespace tw::tool {
namespace {

namespace fs = std::filesystem;

/// The files of a run that are there; those of a folder are plain ones.
BundleFiles files_of(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    throw UsageError(folder.string() + ": is no folder: give the one that a run wrote (trainwatt-train --out)");
  BundleFiles files;
  for (const char* name : {report_file, records_file, run_file}) {
    const fs::path file = folder / name;
    const fs::file_status status = fs::status(file, code);
    if (!fs::exists(status)) continue;
    if (!fs::is_regular_file(status)) throw UsageError(file.string() + ": is no plain file");
    files[name] = read_report_file(file.string());
  }
  if (!files.contains(report_file))
    throw UsageError(fmt::format("{}: holds no {}: {}", folder.string(), report_file,
                                 files.contains(run_file)
                                     ? "its run was cut short; `trainwatt-train --resume` goes on with it"
                                     : "give the folder that a run wrote"));
  return files;
}

}  // namespace

int bundle(const BundleCommand& command) {
  refuse_existing(command.out);
  const BundleFiles run = files_of(command.folder);
  const std::string report = (fs::path(command.folder) / report_file).string();
  // As the buyer will: what the files say of each other too.
  const auto check = [&](const std::vector<std::string>& over) {
    return with_named_errors(report, [&] {
      BundleFiles files = make_bundle(run, over);
      return std::pair(std::move(files), validate_bundle(files));
    });
  };
  auto [files, found] = check({});
  if (!found.violations.empty()) {
    std::vector<std::string> over;
    for (const Fault& fault : found.violations) over.push_back(fault_line(fault));
    for (const std::string& line : over)
      fmt::print(stderr, "{}: {}\n", text::printable(command.folder), text::printable(line));
    if (!command.force) {
      fmt::print(stderr,
                 "trainwatt: {}: not bundled, since it is not good as above; --force bundles it, and says so in it\n",
                 text::printable(command.folder));
      return 1;
    }
    files = check(over).first;
  }
  if (!command.sign.empty()) files[signature_file] = sign(files.at(sums_file), command.sign);
  const std::string bytes = pack(files);
  write_out(command.out, bytes);
  fmt::print("{}: {} files, {}{}\nSHA-256 {}\n", text::printable(command.out), files.size(),
             text::bytes(static_cast<double>(bytes.size())), command.sign.empty() ? "" : ", signed", sha256_hex(bytes));
  return 0;
}

}  // namespace tw::tool
