// Set points in percent of a range.
#include "bench/plan/shares.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/plan/options/axes.hpp"

namespace tw {

using namespace bench;
using namespace power;

namespace {

KnobAbility knob(KnobKind kind, double minimum, double maximum, std::vector<double> values = {}, bool writable = true) {
  KnobAbility one;
  one.kind = kind, one.domain = "a", one.writable = writable;
  one.minimum = minimum, one.maximum = maximum, one.values = std::move(values);
  if (!writable) one.reason = "permission";
  return one;
}

Request request_with(KnobKind kind, std::vector<std::string> texts) {
  Request request;
  Axes& axes = request.axes.emplace_back();
  axes.model = {"gpt2-tiny"};
  axes.setting[kind] = std::move(texts);
  return request;
}

std::vector<std::string> resolved(KnobKind kind, std::vector<std::string> texts, const std::vector<KnobAbility>& knobs) {
  Request request = request_with(kind, std::move(texts));
  resolve_shares(request, "cpu", unpack_ranges(pack_ranges(knobs)));
  return request.axes[0].setting[kind];
}

using Texts = std::vector<std::string>;

TEST(Shares, AreOfTheRangeFromItsLeastToItsGreatest) {
  const std::vector<KnobAbility> cpu = {knob(KnobKind::cpu_frequency, 800, 3800)};
  EXPECT_EQ(resolved(KnobKind::cpu_frequency, {"0%", "60%", "100%"}, cpu), (Texts{"800", "2600", "3800"}));
  EXPECT_EQ(resolved(KnobKind::cpu_frequency, {"50%:100%:25%"}, cpu), (Texts{"2300", "3050", "3800"}));
  EXPECT_EQ(resolved(KnobKind::cpu_frequency, {"found", "1000:1200:100", "33.3%"}, cpu), (Texts{"found", "1000:1200:100", "1799"}));
}

TEST(Shares, AreTheNearestValueThatIsListed) {
  const std::vector<KnobAbility> gpu = {knob(KnobKind::gpu_clock, 210, 1980, {210, 600, 1095, 1110, 1980})};
  EXPECT_EQ(resolved(KnobKind::gpu_clock, {"50%"}, gpu), Texts{"1095"});
  EXPECT_EQ(resolved(KnobKind::gpu_clock, {"50%", "50.3%"}, gpu), Texts{"1095"}) << "none twice";
}

TEST(Shares, AreOfWhatAllDevicesTake) {
  const std::vector<KnobAbility> caps = {knob(KnobKind::gpu_power_limit, 100, 400), knob(KnobKind::gpu_power_limit, 200, 700),
                                         knob(KnobKind::gpu_power_limit, 0, 0)};
  EXPECT_EQ(resolved(KnobKind::gpu_power_limit, {"50%"}, caps), Texts{"300"});
}

TEST(Shares, ThatAreNoneAreRefused) {
  const auto refusal = [](const char* text, const std::vector<KnobAbility>& knobs) -> std::string {
    try {
      resolved(KnobKind::gpu_clock, {text}, knobs);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<KnobAbility> gpu = {knob(KnobKind::gpu_clock, 200, 2000)};
  EXPECT_TRUE(refusal("60%", {}).starts_with("[range-unknown] --gpu-clock 60%: ")) << refusal("60%", {});
  EXPECT_NE(refusal("120%", gpu).find("[bad-value] --gpu-clock 120%: "), std::string::npos);
  EXPECT_NE(refusal("40%:80%", gpu).find("[bad-value] --gpu-clock 40%:80%: "), std::string::npos);
  EXPECT_NE(refusal("40%:80:20%", gpu).find("[bad-value] "), std::string::npos);
  EXPECT_NE(refusal("80%:40%:20%", gpu).find("[bad-value] "), std::string::npos);
  EXPECT_NE(refusal("40%:80%:0%", gpu).find("[bad-value] "), std::string::npos);
  EXPECT_THROW(make_plan(request_with(KnobKind::gpu_clock, {"60%"}), 1, "cpu"), UsageError) << "not resolved";
}

TEST(Shares, ProcurementHasTwoLowerClocksOfWhatTrainsWhereItTellsItsRange) {
  const auto plan = [](const std::string& device, const std::vector<KnobAbility>& knobs) {
    Request request = suite_request("procurement");
    EXPECT_TRUE(has_shares(request));
    resolve_shares(request, device, knobs);
    return make_plan(request, 1, device);
  };
  const std::vector<KnobAbility> both = {knob(KnobKind::cpu_frequency, 800, 3800, {}, false), knob(KnobKind::gpu_clock, 200, 2000)};
  const auto set = [](const RunPlan& made, KnobKind kind, double value) {
    return std::ranges::count_if(made.points, [&](const Point& point) {
      return point.setting == std::map<KnobKind, double>{{kind, value}};
    });
  };
  const RunPlan cpu = plan("cpu", both), cuda = plan("cuda", both), neither = plan("cpu", {});
  EXPECT_EQ(cpu.points.size(), 34u);
  EXPECT_EQ(set(cpu, KnobKind::cpu_frequency, 2300), 6);
  EXPECT_EQ(set(cpu, KnobKind::cpu_frequency, 3050), 6);
  EXPECT_EQ(set(cuda, KnobKind::gpu_clock, 1100), 4) << "without bert-large and llama3.1-8b, to end within 4 h";
  EXPECT_EQ(neither.points.size(), 22u);
  ASSERT_EQ(neither.left_out.size(), 1u);
  EXPECT_NE(neither.left_out[0].find("50% and 75%"), std::string::npos);
  // What the user may not set is marked before, and fails nothing.
  Abilities node;
  node.knobs = both;
  const auto at = std::ranges::find_if(cpu.points, [](const Point& point) { return !point.setting.empty(); });
  EXPECT_NE(setting_obstacle(*at, node).find("is not writable: permission"), std::string::npos);
}

}  // namespace
}  // namespace tw
