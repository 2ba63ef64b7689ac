// Points, machines and missing energy as the HTML page names them; internal to results/.
#pragma once

#include <string>
#include <vector>

#include "results/html/html.hpp"
#include "results/html/page.hpp"

namespace tw::results::page {

/// What tells points apart, and what they share, in words. An id is read as the plan writes it, parts joined by '/':
/// "gpt2-tiny/bf16/mb8/t128/acc4/np2/gpu_clock=810"; a part of another form stays as it is.
struct ShortNames {
  std::vector<std::string> names;  ///< one for each id: "bf16, accumulate 4"; different ids have different names
  std::string shared;              ///< "micro-batch 8, 128 tokens, 2 processes"; empty where nothing is left out
};
/// `keep_network`: the first part is said even where all share it.
ShortNames short_names(const std::vector<std::string>& ids, bool keep_network);

/// "A: " where there are several systems; empty of one.
std::string whose(const std::vector<HtmlSystem>& systems, const HtmlSystem& system);

/// For each system, for each record: the short name with the whole id (Words::tip), both after whose() they are.
std::vector<std::vector<Words>> point_names(const std::vector<HtmlSystem>& systems);

/// "2 nodes (AMD EPYC 7502P, 8 x NVIDIA H100), 8 processes"; empty where the report does not say.
std::string machine_words(const Report& report);

/// Whether something was run and no point has joules of any scope.
bool lacks_energy(const Report& report);
bool all_lack_energy(const std::vector<HtmlSystem>& systems);
/// That of these systems energy was not measured, and why in a sentence; the reason of each meter behind it
/// (Words::more). One for all systems of which the same is said; none where all have joules.
std::vector<Words> missing_energy(const std::vector<HtmlSystem>& systems);

/// Whether a search over settings could be run on the machine: some device accepted a set point.
bool has_knob(const Report& report);

}  // namespace tw::results::page
