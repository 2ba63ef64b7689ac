// A site's own commands: words without a shell, refusals by code, by what is said, and by silence.
#include "power/knob/site.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "power/knob/settings.hpp"
#include "tests/power/knob/file_knob.hpp"

namespace tw::power::site {
namespace {

namespace fs = std::filesystem;

class SiteTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trainwatt-site-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    std::ofstream(base / "clock") << "2000\n";
    std::ofstream(base / "tool") << "#!/bin/sh\n"
                                    "cd "
                                 << base.string()
                                 << "\n"
                                    "case $1 in\n"
                                    "  set) echo \"$2\" >clock ;;\n"
                                    "  say) echo 'You are Not Allowed to'; exit 0 ;;\n"
                                    "  fail) echo broken >&2; exit 7 ;;\n"
                                    "  get) echo \"clock: $(cat clock) MHz\" ;;\n"
                                    "esac\n";
    chmod((base / "tool").c_str(), 0755);
  }
  void TearDown() override { fs::remove_all(base); }
  fs::path write(const std::string& knobs) {
    std::string text = "{\"psu\": \"titanium\", \"knobs\": " + knobs + "}";
    for (std::size_t at; (at = text.find("TOOL")) != std::string::npos;) text.replace(at, 4, (base / "tool").string());
    std::ofstream(base / "site.json") << text;
    chmod((base / "site.json").c_str(), 0644);
    return base / "site.json";
  }
  std::unique_ptr<Knob> only(const std::string& knob) {
    auto found = find_knobs(write("[" + knob + "]"));
    EXPECT_EQ(found.size(), 1u);
    return std::move(found.at(0).knob);
  }
  static std::string refusal(Knob& knob, double value, std::string* message = nullptr) {
    try {
      knob.set(value);
    } catch (const NotApplied& error) {
      if (message) *message = error.what();
      return error.reason;
    }
    return "";
  }
  std::string wrong(const std::string& knobs) { return wrong_file(write(knobs)); }
  static std::string wrong_file(const fs::path& file) {
    try {
      find_knobs(file);
    } catch (const SiteError& error) {
      return error.what();
    }
    return "";
  }
  fs::path base;
};

constexpr const char* with_getter =
    R"({"kind": "gpu_clock_mhz", "domain": "nvml:GPU-0", "set": ["TOOL", "set", "{value}"],
  "reset": ["TOOL", "set", "{value}"], "get": ["TOOL", "get"], "minimum": 300, "maximum": 2500})";

TEST_F(SiteTest, SetsReadsBackAndRestores) {
  const auto knob = only(with_getter);
  EXPECT_EQ(knob->domain(), "nvml:GPU-0");
  EXPECT_EQ(knob->get(), 2000);
  EXPECT_EQ(knob->observe(), std::nullopt) << "what the command says is no observation";
  const KnobState found = knob->save();
  const Attempt attempt{1200, knob->set(1200)};
  EXPECT_EQ(file_text(base / "clock"), "1200");
  EXPECT_TRUE(knob->is_ours(1200, 1200));
  EXPECT_TRUE(knob->put_back(found, {&attempt, 1}).changed);
  EXPECT_EQ(file_text(base / "clock"), "2000");
  std::ofstream(base / "clock") << "1500\n";
  EXPECT_EQ(knob->put_back(found, {&attempt, 1}).left, "nvml:GPU-0 gpu_clock_mhz = 1500");
  EXPECT_EQ(refusal(*knob, 2600), "out_of_range");
}

TEST_F(SiteTest, AGovernorIsAName) {
  const auto of = [](const char* name) { return set_point_of_name(KnobKind::cpu_governor, name).value(); };
  const std::string head = R"({"kind": "cpu_governor", "domain": "cpu", "set": ["TOOL", "set", "{value}"],)";
  std::ofstream(base / "clock") << "schedutil\n";
  const auto knob = only(head + R"("reset": ["TOOL", "set", "{value}"], "get": ["TOOL", "get"],
                                   "values": ["powersave", "performance"]})");
  EXPECT_EQ(knob->range().values, (std::vector<double>{of("performance"), of("powersave")}));
  EXPECT_EQ(knob->get(), of("schedutil"));
  const KnobState found = knob->save();
  const Attempt attempt{of("performance"), knob->set(of("performance"))};
  EXPECT_EQ(file_text(base / "clock"), "performance");
  EXPECT_EQ(knob->observe(), of("performance")) << "a state, which its reading shows";
  EXPECT_EQ(refusal(*knob, of("ondemand")), "out_of_range");
  EXPECT_TRUE(knob->put_back(found, {&attempt, 1}).changed);
  EXPECT_EQ(file_text(base / "clock"), "schedutil");
  EXPECT_NE(wrong("[" + head + R"("reset": ["true"], "minimum": 1, "maximum": 2}])").find("\"values\""), std::string::npos);
  EXPECT_NE(wrong("[" + head + R"("reset": ["true"], "values": ["fast"]}])").find("fast"), std::string::npos);
}

TEST_F(SiteTest, WithoutAGetterItIsReset) {
  const auto knob =
      only(R"({"kind": "gpu_clock_mhz", "set": ["TOOL", "set", "{value}"], "reset": ["TOOL", "set", "free"],
                             "values": [1200, 900]})");
  EXPECT_EQ(knob->domain(), "site");
  EXPECT_EQ(knob->range().values, (std::vector<double>{900, 1200}));
  EXPECT_EQ(knob->get(), std::nullopt);
  EXPECT_EQ(refusal(*knob, 1000), "out_of_range");
  const KnobState found = knob->save();
  const Attempt attempt{900, knob->set(900)};
  const PutBack done = knob->put_back(found, {&attempt, 1});
  EXPECT_TRUE(done.reset);
  EXPECT_EQ(file_text(base / "clock"), "free");
}

TEST_F(SiteTest, Refusals) {
  const std::string head = R"({"kind": "gpu_clock_mhz", "reset": ["true"], "minimum": 1, "maximum": 9, "set": )";
  std::string message;
  EXPECT_EQ(refusal(*only(head + R"(["TOOL", "say", "{value}"], "refused": "not allowed|denied"})"), 5, &message),
            "refused");
  EXPECT_NE(message.find("said: You are Not Allowed to"), std::string::npos) << message;
  EXPECT_EQ(refusal(*only(head + R"(["TOOL", "say", "{value}"]})"), 5), "");
  EXPECT_EQ(refusal(*only(head + R"(["TOOL", "fail", "{value}"]})"), 5, &message), "refused");
  EXPECT_NE(message.find("ended with code 7: broken"), std::string::npos) << message;
  // Read back: a command that says nothing and does nothing.
  EXPECT_EQ(refusal(*only(head + R"(["true", "{value}"], "get": ["TOOL", "get"]})"), 5), "clamped");
}

// Also where such a knob's other commands are there: what cannot be put back must not be set.
TEST_F(SiteTest, ProgramsAreLookedForBeforeAnythingIsRun) {
  std::ofstream(base / "text") << "no program\n";
  const auto of = [&](const std::string& set, const std::string& reset) {
    auto found = find_knobs(write(R"([{"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9, "set": [")" + set +
                                  R"(", "{value}"], "reset": [")" + reset + R"("]}])"));
    return std::pair(found.at(0).reason, found.at(0).detail);
  };
  EXPECT_EQ(of("true", "TOOL").first, "");
  EXPECT_EQ(of("true", "/no/such/reset").first, "unsupported");
  const std::string head = (base / "site.json").string() + ": /knobs/0: \"";
  EXPECT_EQ(of("true", "/no/such/reset").second,
            head + "reset\": \"/no/such/reset\" cannot be run: No such file or directory");
  EXPECT_EQ(of((base / "text").string(), "true").second,
            head + "set\": \"" + (base / "text").string() + "\" cannot be run: it is not executable");
  EXPECT_EQ(of(base.string(), "true").second, head + "set\": \"" + base.string() + "\" cannot be run: not a file");
  EXPECT_EQ(of("no-such-site-tool", "true").second,
            head + "set\": \"no-such-site-tool\" cannot be run: no folder in PATH has such a program: name it with its "
                   "path");
}

// A tool that tells its life's story, at each end of it what counts.
TEST_F(SiteTest, LongOutputs) {
  std::ofstream(base / "long") << "#!/bin/sh\n"
                                  "fill() { head -c 1048576 /dev/zero | tr '\\0' \"$1\"; }\n"
                                  "case $1 in\n"
                                  "  letters) fill x ;;\n"
                                  "  first) echo 1234.5 MHz; fill x ;;\n"
                                  "  digits) fill 7 ;;\n"
                                  "  denied) fill x; echo ' was Denied' ;;\n"
                                  "  early) echo denied; fill x ;;\n"
                                  "  lines) fill '\\n' ;;\n"
                                  "esac\n";
  chmod((base / "long").c_str(), 0755);
  const std::string tool = (base / "long").string();
  const auto get = [&](const char* what) {
    return only(R"({"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9, "set": ["true", "{value}"], "reset": ["true"],
                    "get": [")" + tool + "\", \"" + what + "\"]}")
        ->get();
  };
  EXPECT_EQ(get("letters"), std::nullopt);
  EXPECT_EQ(get("first"), 1234.5);
  EXPECT_TRUE(get("digits"));
  for (const char* pattern : {"denied", "^(.|\\\\n)*denied", "(x*)*y|denied$"})
    for (const char* what : {"letters", "lines", "denied", "early"}) {
      if (std::string(pattern).find("(x*)*") == 0 && std::string(what) != "lines") continue;  // it tries everything
      const auto knob = only(R"({"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9, "reset": ["true"], "refused": ")" +
                             std::string(pattern) + R"(", "set": [")" + tool + "\", \"" + what + R"(", "{value}"]})");
      // Of a long line only the first piece has a beginning.
      const bool says_no = (std::string(what) == "denied" && pattern[0] != '^') || std::string(what) == "early";
      EXPECT_EQ(refusal(*knob, 5), says_no ? "refused" : "") << pattern << " in " << what;
    }
}

TEST_F(SiteTest, NoShellSeesTheWords) {
  const auto knob = only(R"({"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9, "reset": ["true"],
                             "set": ["TOOL", "set", "$(touch BASE) ; {value}"]})");
  EXPECT_EQ(knob->set(5), 5);
  EXPECT_EQ(file_text(base / "clock"), "$(touch BASE) ; 5");
}

TEST_F(SiteTest, WhatIsWrongIsNamed) {
  const auto expect = [&](const std::string& knobs, const std::string& what) {
    const std::string message = wrong(knobs);
    EXPECT_NE(message.find(what), std::string::npos) << knobs << " gave: " << message;
    EXPECT_NE(message.find("site.json"), std::string::npos) << message;
  };
  expect("{}", "is not a list");
  expect("[5]", "/knobs/0: is not an object");
  expect("[{\"kind\": \"clock\"}]", "\"kind\"");
  expect("[{\"knid\": \"clock\"}]", "unknown key \"knid\"");
  const std::string head = "[{\"kind\": \"gpu_clock_mhz\", ";
  expect(head + R"("set": "tool {value}"}])", "must be a list of strings");
  expect(head + R"("set": ["tool"], "reset": ["x"]}])", "has no {value}");
  expect(head + R"("set": ["t", "{value}"]}])", "\"reset\" must be");
  expect(head + R"("set": ["t", "{value}"], "reset": ["{value}"]}])", "add \"get\"");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"]}])", "needs \"minimum\"");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "minimum": 5, "maximum": 2}])", "no positive value");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "refused": "("}])", "regular expression");
  expect(std::string("[") + with_getter + "," + with_getter + "]", "/knobs/1: duplicate: ");
  expect("[{\"kind\": 5}]", "\"kind\" must be a string");
  expect(head + R"("set": ["", "{value}"], "reset": ["t"]}])", "\"set\": the first word");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "minimum": "5", "maximum": 9}])",
         "\"minimum\" must be a number");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "values": ["fast"]}])", "\"fast\" is no gpu_clock_mhz");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "values": 5}])", "\"values\" is not a list");
  std::ofstream(base / "site.json") << "[]";
  EXPECT_NE(wrong_file(base / "site.json").find("is not an object"), std::string::npos);
  std::ofstream(base / "site.json") << R"({"psu": "titanium"})";
  EXPECT_EQ(wrong_file(base / "site.json").find((base / "site.json").string() + ": has no list \"knobs\""), 0u);
  std::ofstream(base / "site.json") << "{\n \"knobs\" [";
  EXPECT_EQ(wrong_file(base / "site.json"), (base / "site.json").string() + ": is not JSON: look at line 2");
  for (const char* key : {"knob", "Knobs", "konbs", "knops"}) {
    std::ofstream(base / "site.json") << "{\"" << key << "\": []}";
    EXPECT_NE(wrong_file(base / "site.json").find(": \"" + std::string(key) + "\" is an unknown key"), std::string::npos);
  }
  ASSERT_EQ(mkfifo((base / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(wrong_file(base / "pipe"), (base / "pipe").string() + ": not a regular file");
  EXPECT_EQ(wrong_file("/dev/zero"), "/dev/zero: not a regular file");
  std::ofstream(base / "site.json").seekp(1 << 21).put(' ');
  EXPECT_NE(wrong_file(base / "site.json").find("maximum 1 MiB"), std::string::npos);
  EXPECT_EQ(wrong_file(base / "none.json"), (base / "none.json").string() + ": No such file or directory");
}

TEST_F(SiteTest, RootRunsOnlyWhatRootWrote) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  const fs::path file = write("[]");
  EXPECT_TRUE(find_knobs(file).empty());
  chmod(file.c_str(), 0666);
  EXPECT_THROW(find_knobs(file), std::runtime_error);
  chmod(file.c_str(), 0644);
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_THROW(find_knobs(file), std::runtime_error);
}

TEST_F(SiteTest, RootRunsNoProgramThatOthersMayWrite) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  const std::string tool = (base / "tool").string();
  const auto expect_refused = [&] {
    auto found = find_knobs(write("[" + std::string(with_getter) + "]"));
    EXPECT_EQ(found.at(0).reason, "unsupported");
    EXPECT_NE(found.at(0).detail.find("\"" + tool + "\" is not run as root: it must be owned by root"),
              std::string::npos)
        << found.at(0).detail;
    EXPECT_THROW(found.at(0).knob->get(), NotApplied) << "nor by what puts back, which asks no finding";
  };
  chmod(tool.c_str(), 0777);
  expect_refused();
  chmod(tool.c_str(), 0755);
  ASSERT_EQ(chown(tool.c_str(), 65534, 65534), 0);
  expect_refused();
}

// A guardian works in "/", an epilog with a PATH of its own: each runs what the run had found.
TEST_F(SiteTest, ProgramsAreFoundOnce) {
  const fs::path file = write(R"([{"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9000, "get": ["../tool", "get"],
                                   "set": ["site-tool", "set", "{value}"], "reset": ["site-tool", "set", "{value}"]}])");
  fs::create_directory(base / "bin");
  fs::create_symlink(base / "tool", base / "bin/site-tool");
  const fs::path before = fs::current_path();
  const std::string path = std::getenv("PATH");
  fs::current_path(base / "bin");
  setenv("PATH", (":" + path).c_str(), 1);  // the folder that this is in
  auto found = find_knobs(file);
  fs::current_path("/");
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(found.at(0).reason, "") << found.at(0).detail;
  Knob& knob = *found.at(0).knob;
  EXPECT_EQ(knob.set(1200), 1200);
  const std::map<std::string, std::string> programs = knob.programs();
  EXPECT_EQ(programs.size(), 2u);
  for (const auto& [name, where] : programs) EXPECT_EQ(fs::canonical(where), fs::canonical(base / "tool")) << name;
  EXPECT_NE(find_knobs(file).at(0).reason, "");
  auto again = find_knobs(file, programs);
  EXPECT_EQ(again.at(0).reason, "") << again.at(0).detail;
  again.at(0).knob->restore({{"value", "2000"}});
  EXPECT_EQ(file_text(base / "clock"), "2000");
  fs::current_path(before);
}

// By way of the journal, too.
TEST_F(SiteTest, TheJournalKnowsWhereProgramsWere) {
  const fs::path file = write(R"([{"kind": "gpu_clock_mhz", "minimum": 1, "maximum": 9000, "get": ["./tool", "get"],
                                   "set": ["./tool", "set", "{value}"], "reset": ["./tool", "set", "{value}"]}])");
  const fs::path before = fs::current_path();
  fs::current_path(base);
  const auto only_site = [](const KnobOptions& options) { return find_knobs(options.site, options.programs); };
  SettingsOptions options;
  options.site = file, options.folder = base / "run", options.find = only_site;
  setenv("TRAINWATT_RUN_DIR", options.folder.c_str(), 1);
  {
    Settings settings(only_site({file}), options);
    EXPECT_EQ(settings.apply({{KnobKind::gpu_clock, 1200}}).at(0).accepted, 1200);
    fs::current_path("/");
    // As the guardian does when the run is gone.
    RestoreOptions restore;
    restore.folders = {options.folder}, restore.find = only_site, restore.even_if_held = true;
    const RestoreSummary summary = restore_journals(restore);
    EXPECT_TRUE(summary.complete());
    ASSERT_EQ(summary.reports.size(), 1u);
    EXPECT_EQ(summary.reports[0].settings.at(0).outcome, RestoredSetting::Outcome::put_back)
        << summary.reports[0].settings[0].detail;
  }
  EXPECT_EQ(file_text(base / "clock"), "2000");
  unsetenv("TRAINWATT_RUN_DIR");
  fs::current_path(before);
}

TEST_F(SiteTest, TakesThePlaceOfAFoundKnob) {
  write(R"([{"kind": "cpu_frequency_mhz", "domain": "cpu", "set": ["TOOL", "set", "{value}"], "reset": ["true"],
             "minimum": 1000, "maximum": 2000}])");
  int of_this_kind = 0;
  for (const KnobFinding& finding : tw::power::find_knobs({base / "site.json"}))
    if (finding.kind == KnobKind::cpu_frequency) {
      ++of_this_kind;
      ASSERT_NE(finding.knob, nullptr);
      EXPECT_EQ(finding.knob->range().maximum, 2000);
    }
  EXPECT_EQ(of_this_kind, 1);
}

}  // namespace
}  // namespace tw::power::site
