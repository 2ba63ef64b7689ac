// A folder of small files, as the kernel shows them, that goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "power/meter/energy_meter.hpp"
#include "tests/power/write_in_place.hpp"

namespace tw {

class FakeTree {
 public:
  FakeTree() {
    std::string name = (std::filesystem::temp_directory_path() / "trainwatt-tree-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be made");
    root_ = name;
    chmod(root_.c_str(), 0755);
  }
  ~FakeTree() {
    std::error_code none;
    std::filesystem::remove_all(root_, none);
  }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path at(const std::string& file) const { return root_ / file; }
  /// A line, as the kernel changes a file (write_in_place).
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(at(file).parent_path());
    write_in_place(at(file), text);
  }
  /// Another file under the same name, as programs are installed.
  void replace(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(at(file).parent_path());
    std::ofstream(at(file + ".new")) << text << '\n';
    std::filesystem::rename(at(file + ".new"), at(file));
  }
  void append(const std::string& file, const std::string& text) const {
    std::ofstream(at(file), std::ios::app) << text << std::flush;
  }
  void remove(const std::string& file) const { take_away(at(file)); }
  void deny(const std::string& file) const { chmod(at(file).c_str(), 0); }
  void allow(const std::string& file) const { chmod(at(file).c_str(), 0644); }

 private:
  std::filesystem::path root_;
};

/// By domain; checks what holds for each finding of a source.
inline std::map<std::string, power::MeterFinding> by_domain(std::vector<power::MeterFinding> findings) {
  std::map<std::string, power::MeterFinding> found;
  for (power::MeterFinding& finding : findings) {
    const std::string domain = finding.domain;
    EXPECT_EQ(found.count(domain), 0u) << domain << " appears twice";
    EXPECT_EQ(finding.meter == nullptr, !finding.reason.empty()) << domain << ": " << finding.reason;
    if (!finding.meter) {
      EXPECT_FALSE(finding.detail.empty()) << domain;
    } else {
      EXPECT_EQ(finding.meter->domain(), domain);
      EXPECT_EQ(finding.meter->scope(), finding.scope) << domain;
    }
    if (finding.reason == "permission") {
      EXPECT_FALSE(finding.grant.empty()) << domain;
    }
    found.emplace(domain, std::move(finding));
  }
  return found;
}

}  // namespace tw
