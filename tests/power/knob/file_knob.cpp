#include "tests/power/knob/file_knob.hpp"

#include <chrono>
#include <fstream>
#include <thread>

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;

class FileKnob : public Knob {
 public:
  FileKnob(fs::path folder, KnobKind kind) : folder_(std::move(folder)), kind_(kind) {}
  KnobKind kind() const override { return kind_; }
  std::string domain() const override {
    return kind_ == KnobKind::cpu_power_limit ? "rapl:package-0" : has_getter() ? "cpu" : "nvml:GPU-0";
  }
  KnobRange range() const override {
    if (kind_ == KnobKind::cpu_power_limit) return {50, 400, {}};
    return has_getter() ? KnobRange{1000, 3000, {}} : KnobRange{300, 2000, {}};
  }
  std::optional<double> get() override {
    if (!has_getter()) return std::nullopt;
    return std::stod(file_text(file()));
  }
  double set(double value) override {
    const bool clamped = has_getter() && fs::exists(folder_ / "clamp");
    write_file_text(file(), clamped ? file_text(folder_ / "clamp") : std::to_string(static_cast<int>(value)));
    if (has_getter()) wait_for("hold-set");
    if (fs::exists(folder_ / "locked")) throw NotApplied("locked", "the file says locked");
    if (clamped) throw NotApplied("clamped", "another value reads back");
    return value;
  }
  std::optional<double> observe() override { return std::stod(file_text(file())) - 10; }
  KnobState save() override {
    if (!has_getter()) return {};
    return {{"value", file_text(file())}};
  }
  bool is_ours(double requested, double accepted) override {
    const auto now = get();
    return !now || *now == requested || *now == accepted;
  }
  void restore(const KnobState& found) override {
    wait_for("hold");
    if (!has_getter()) return write_file_text(file(), "reset");
    const double value = std::stod(found.at("value"));
    if (value < range().minimum || value > range().maximum)
      throw NotApplied("out_of_range", "not a saved state of ours");
    write_file_text(file(), found.at("value"));
  }

 private:
  bool has_getter() const { return kind_ != KnobKind::gpu_clock; }
  void wait_for(const char* file) const {
    while (fs::exists(folder_ / file)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fs::path file() const { return folder_ / to_string(kind_); }
  fs::path folder_;
  KnobKind kind_;
};

}  // namespace

std::string file_text(const fs::path& file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text;
}

void write_file_text(const fs::path& file, const std::string& text) {
  const fs::path temporary = file.string() + ".new";
  std::ofstream(temporary) << text << '\n';
  fs::rename(temporary, file);
}

void make_file_knobs(const fs::path& folder) {
  fs::create_directories(folder);
  write_file_text(folder / to_string(KnobKind::cpu_frequency), "2500");
  write_file_text(folder / to_string(KnobKind::gpu_clock), "reset");
}

KnobFinder file_knobs(const fs::path& folder) {
  return [folder](const KnobOptions&) {
    std::vector<KnobFinding> findings;
    for (const KnobKind kind : {KnobKind::cpu_frequency, KnobKind::gpu_clock, KnobKind::cpu_power_limit}) {
      if (kind == KnobKind::cpu_power_limit && !fs::exists(folder / to_string(kind))) continue;
      KnobFinding& finding = findings.emplace_back();
      finding.kind = kind;
      finding.knob = std::make_unique<FileKnob>(folder, kind);
      finding.domain = finding.knob->domain();
    }
    return findings;
  };
}

}  // namespace tw
