// A site's own commands: words without a shell, refusals by code, by what is said, and by silence.
#include "power/site/site.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "power/site/command.hpp"
#include "tests/power/file_knob.hpp"

namespace tw::site {
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
  EXPECT_EQ(refusal(*only(head + R"(["/no/such/tool", "{value}"]})"), 5), "unsupported");
  // Read back: a command that says nothing and does nothing.
  EXPECT_EQ(refusal(*only(head + R"(["true", "{value}"], "get": ["TOOL", "get"]})"), 5), "clamped");
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
  expect(head + R"("set": "tool {value}"}])", "must be a list of words");
  expect(head + R"("set": ["tool"], "reset": ["x"]}])", "has no {value}");
  expect(head + R"("set": ["t", "{value}"]}])", "\"reset\" must be");
  expect(head + R"("set": ["t", "{value}"], "reset": ["{value}"]}])", "only \"get\" could tell");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"]}])", "needs \"minimum\"");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "minimum": 5, "maximum": 2}])", "no positive value");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "refused": "("}])", "regular expression");
  expect(std::string("[") + with_getter + "," + with_getter + "]", "/knobs/1: stands for the same");
  expect("[{\"kind\": 5}]", "\"kind\" is no text");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "minimum": "5", "maximum": 9}])",
         "\"minimum\" is no number");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "values": ["fast"]}])", "\"fast\" is no gpu_clock_mhz");
  expect(head + R"("set": ["t", "{value}"], "reset": ["t"], "values": 5}])", "\"values\" is not a list");
  std::ofstream(base / "site.json") << "[]";
  EXPECT_NE(wrong_file(base / "site.json").find("is not an object"), std::string::npos);
  std::ofstream(base / "site.json") << "{\n \"knobs\" [";
  EXPECT_EQ(wrong_file(base / "site.json"), (base / "site.json").string() + ": is not JSON: look at line 2");
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

TEST_F(SiteTest, TakesThePlaceOfAFoundKnob) {
  write(R"([{"kind": "cpu_frequency_mhz", "domain": "cpu", "set": ["TOOL", "set", "{value}"], "reset": ["true"],
             "minimum": 1000, "maximum": 2000}])");
  int of_this_kind = 0;
  for (const KnobFinding& finding : tw::find_knobs({base / "site.json"}))
    if (finding.kind == KnobKind::cpu_frequency) {
      ++of_this_kind;
      ASSERT_NE(finding.knob, nullptr);
      EXPECT_EQ(finding.knob->range().maximum, 2000);
    }
  EXPECT_EQ(of_this_kind, 1);
}

TEST(Command, EndsWhatTakesTooLong) {
  const CommandResult result = run_command({"sleep", "1000"}, std::chrono::milliseconds(50));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
}

TEST(Command, KeepsBothStreamsAndInheritsNoFile) {
  const CommandResult result =
      run_command({"sh", "-c", "echo out; echo err >&2; ls /proc/$$/fd; cat"}, std::chrono::seconds(30));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "out\nerr\n0\n1\n2\n");
}

}  // namespace
}  // namespace tw::site
