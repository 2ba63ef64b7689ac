// Texts of reports that a reader has to recognise. Their words may change: what is compared is a code, or each wording
// that a version of the program has written.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tw::results {

/// A text that reports store and that logic recognises. "{}" is a value (a device, a size): each wording has the same
/// values in the same order.
struct KnownText {
  std::array<std::string_view, 4> wordings;  ///< first as it is written now, then as earlier versions wrote it

  /// As it is written now.
  std::string text(const std::vector<std::string>& values = {}) const;
  /// Whether `stored` is this text with these values, in any of its wordings; or begins with it.
  bool is(std::string_view stored, const std::vector<std::string>& values = {}) const;
  bool begins(std::string_view stored, const std::vector<std::string>& values = {}) const;
  /// Whether it is this text with any values.
  bool is_with_any(std::string_view stored) const;
};

/// A known text with its values.
struct KnownReason {
  KnownText known;
  std::vector<std::string> values{};
  std::string text() const { return known.text(values); }
};

// To improve a text, insert the new wording before the present one.

/// How a warning begins that says that the run was cut short; and that no idle power was measured before or after.
inline constexpr KnownText interrupted{{"interrupted"}}, no_idle_power{{"no idle power {}"}};
/// Reasons of an absent MFU; values: kind or name of the device, precision. What reports from before there was a list
/// of peaks say of every device is `no_list_of_peaks`.
inline constexpr KnownText no_throughput{{"no throughput"}}, no_list_of_peaks{{"no vendor peak known for this device"}},
    no_peak_of_kind{{"device {}: the list of vendor peaks has GPUs only"}},
    no_peak_of_mig{{"{}: a MIG instance has no vendor peak; the vendor's is that of the whole GPU",
                    "{}: a MIG instance, and the vendor's peak is that of the whole GPU"}},
    not_in_the_list{{"{}: not in the list of vendor peaks"}},
    no_dense_peak{{"{}: the vendor states no dense peak for {}"}};
/// How model FLOPs are counted, as models/catalog names it. The wordings count the same.
inline constexpr KnownText rule_of_flops{
    {"model FLOPs: 3x forward, less the first layer's input gradient, of matmuls (6*N a row), convolutions, attention "
     "(6*L*C*T a token if causal, else 12*L*C*T) and dot products of pairs (DLRM)",
     "model FLOPs: matmuls and convolutions 3x forward less the first layer's input gradient, causal attention counted "
     "once (transformer: 6*N_mat + 6*L*C*T a token)"}};
/// Why a search for a micro-batch took no larger size; values: size, percent; size, reason.
inline constexpr KnownText declared_by_option{{"declared by --micro-batch"}},
    doubling_gains_little{{"doubling {} gains less than {} %"}}, no_such_micro_batch{{"micro-batch {}: {}"}};

/// Why a search claims no better setting, although it has measured one again; values: shares in percent.
inline constexpr KnownText again_without_joules{
    {"in the repeated measurement, one of the two settings has no valid joules",
     "measured once more, a setting of the two has no valid joules",
     "measured once more, one of the two has no valid joules"}},
    again_slower{{"in the repeated measurement it is slower by {} (allowed: {})",
                  "measured once more it is slower by {}, and {} are allowed"}},
    again_without_interval{{"fewer than 3 trials give no interval, so no difference can be shown",
                            "fewer than 3 trials give no interval, which could show a difference",
                            "below 3 trials there is no interval that could show a difference"}},
    again_worse{{"in the repeated measurement it is worse than the found settings",
                 "measured once more it is worse than the found settings"}},
    again_no_difference{{"the repeated measurement shows no difference from the found settings",
                         "measured once more it shows no difference to the found settings"}},
    again_speed_without_interval{
        {"the repeated measurement does not show that its slowdown is within {}: its speed has no interval",
         "measured once more its slowdown is not shown to be within {}: its speed has no interval"}},
    again_perhaps_slower{{"the repeated measurement does not show that its slowdown is within {}: it may be {}",
                          "measured once more its slowdown is not shown to be within {}: it may be {}"}};

/// Whether two reasons say the same: both or neither are empty, and their codes are the same. A clause (they are
/// separated by "; ") begins with its codes, which are words, each before ": " or alone ("no_energy_meter: rapl:
/// no_driver"); what follows ("throttled: GPU-1 on node1 for 3 s") is prose, and is not compared.
bool same_reason(std::string_view a, std::string_view b);

}  // namespace tw::results
