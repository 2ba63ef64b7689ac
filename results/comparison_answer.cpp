// The first lines of a comparison: one sentence for each system.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "results/comparison_words.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

/// Whether it holds of any ratio to the reference.
template <class Holds>
bool of_any_ratio(const Comparison& comparison, Holds holds) {
  return std::ranges::any_of(comparison.figures, [&](const FigureComparison& figure) {
    return std::ranges::any_of(figure.overall, holds) || std::ranges::any_of(figure.rows, [&](const ComparedRow& row) {
             return std::ranges::any_of(row.systems, [&](const ComparedCell& cell) { return holds(cell.ratio); });
           });
  });
}

/// How the sentences of a figure are built.
struct Phrase {
  const char* figure;
  const char *now, *then;  ///< verbs: "costs", "cost"
  const char* noun;        ///< "speed": what no difference is shown in
  const char* of;  ///< what is more or less without figures of one workload: "a million samples"; empty: the unit
};
constexpr Phrase phrases[] = {
    {"throughput", "trains", "trained", "speed", ""},
    {"samples-per-joule", "gives", "gave", "samples per joule", ""},
    {"efficiency", "gives", "gave", "FLOP per joule", ""},
    {"time-to-target", "takes", "took", "time to the target", "time to the target"},
    {"energy-to-target", "takes", "took", "energy to the target", "energy to the target"},
    {"steps-to-target", "takes", "took", "steps to the target", "steps to the target"},
    {"cost", "costs", "cost", "the cost of a million samples", "for a million samples"},
    {"cost-to-target", "costs", "cost", "the cost of a model", "for a model"},
};
const Phrase& phrase_of(const FigureComparison& figure) {
  return *std::ranges::find(phrases, figure.figure.name, [](const Phrase& one) { return std::string(one.figure); });
}

/// 24.7, 4.70: of a share, without its sign.
std::string percent(double ratio) { return text::significant(100 * std::abs(ratio - 1), 3); }
bool is_much(double ratio) { return ratio >= 2 || ratio <= 0.5; }

/// "24.7 % more, 24.1 to 25.3"; "2.31 times as much, 2.10 to 2.53". The signs are words, so that only intervals that
/// hold 1 have any.
std::string plain_change_in_words(const Ratio& r, const char* more, const char* less) {
  if (is_much(*r.value))
    return fmt::format("{} times as much, {} to {}", text::significant(*r.value), text::significant(*r.low),
                       text::significant(*r.high));
  const bool is_more = *r.value >= 1, is_one_way = (*r.low - 1) * (*r.high - 1) > 0;
  const double near = is_more ? *r.low : *r.high, far = is_more ? *r.high : *r.low;
  if (!is_one_way) {
    Ratio interval = r;
    interval.is_range = false;
    const std::string ends = words::interval(interval);
    return words::change(*r.value) + ", " + ends.substr(1, ends.size() - 2);
  }
  return fmt::format("{} % {}, {} to {}", percent(*r.value), is_more ? more : less, percent(near), percent(far));
}

/// What both ends are of, where it is not runs.
const char* ends_over(const Ratio& r) {
  return r.is_range ? "worst to best" : r.verdict == "single_run" ? "over trials" : "";
}
/// The same, and what the interval is over where it is not runs: "24.7 % more, 24.1 to 25.3, over trials".
std::string change_in_words(const Ratio& r, const char* more, const char* less) {
  const std::string over = ends_over(r);
  return plain_change_in_words(r, more, less) + (over.empty() ? "" : ", " + over);
}

/// Rounded up to one significant digit, or to two where the first is 1, so that no uncertainty is made smaller: how many
/// decimals that takes.
int decimals_of(double half) {
  if (!(half > 0)) return 3;
  const int exponent = static_cast<int>(std::floor(std::log10(half)));
  return std::clamp(half / std::pow(10, exponent) < 2 ? 1 - exponent : -exponent, 0, 6);
}

/// "1.25 ± 0.02 times as fast as A"; where the interval lies unevenly about the ratio, or the rounded one would hold 1
/// and the interval does not, "1.50 times as fast as A (1.02 to 2.20)".
std::string times_as_fast(const Ratio& r, const std::string& as) {
  const double up = *r.high - *r.value, down = *r.value - *r.low, half = std::max(up, down);
  const int decimals = decimals_of(half);
  const double unit = std::pow(10, -decimals), shown = std::ceil(half / unit - 1e-9) * unit;
  constexpr double uneven = 1.2;
  if (half > uneven * std::min(up, down) || std::abs(*r.value - 1) <= shown)
    return fmt::format("{0:.{3}f} times as fast as {4} ({1:.{3}f} to {2:.{3}f})", *r.value, *r.low, *r.high,
                       std::max(decimals, 2), as);
  return fmt::format("{:.{}f} ± {:.{}f} times as fast as {}", *r.value, decimals, shown, decimals, as);
}

class Sentences {
 public:
  explicit Sentences(const Comparison& comparison) : c_(comparison), reference_(c_.systems[c_.reference].name) {}

  std::vector<std::string> write() {
    if (c_.figures.empty()) return {"Nothing to compare: the reports have no figure in common."};
    if (c_.systems.size() > 2)
      for (const FigureComparison& figure : c_.figures) add_order(figure);
    for (std::size_t s = 0; s < c_.systems.size(); ++s)
      if (s != c_.reference) add_system(s);
    add_learned();
    add_workloads();
    return std::move(lines_);
  }

 private:
  bool is_single(const FigureComparison& figure) const {
    return std::ranges::any_of(figure.overall, [](const Ratio& r) { return r.verdict == "single_run"; });
  }
  void add_order(const FigureComparison& figure) {
    if (figure.ranking.size() < 3) return;
    const std::string order = words::ranking(figure, c_);
    std::vector<std::size_t> once;
    for (std::size_t s = 0; s < c_.systems.size(); ++s)
      if (c_.systems[s].started_at.size() == 1) once.push_back(s);
    if (!is_single(figure))
      lines_.push_back(fmt::format("By {}: {}.", figure.figure.name, order));
    else if (once.size() == c_.systems.size())
      lines_.push_back(fmt::format("In this one run of each, by {}: {}.", figure.figure.name, order));
    else
      lines_.push_back(fmt::format("With one run of {}, by {}: {}.", words::names(c_, once), figure.figure.name, order));
  }

  /// "costs 6.14 instead of 6.52 EUR a million samples (5.9 % less, 4.7 to 7.1)"
  std::string clause(const FigureComparison& figure, std::size_t s, bool is_now) const {
    const Ratio& r = figure.overall[s];
    const Phrase& phrase = phrase_of(figure);
    const char* verb = is_now ? phrase.now : phrase.then;
    if (figure.figure.name == "throughput") {
      if (is_now) return "trains " + times_as_fast(r, reference_);
      return fmt::format("was {} {} {} ({} {})", faster(*r.value), is_much(*r.value) ? "as" : "than", reference_,
                         ends_of_faster(r), ends_over(r));
    }
    const std::string note = figure.note.empty() ? "" : " (" + figure.note + ")";
    const std::string change = change_in_words(r, "more", "less");
    if (figure.rows.size() == 1) {
      const std::vector<ComparedCell>& cells = figure.rows[0].systems;
      const std::optional<Estimate>&of_reference = cells[c_.reference].figure, &of_system = cells[s].figure;
      if (of_reference && of_system)
        return fmt::format("{} {} instead of {} {}{} ({})", verb, text::significant(of_system->value),
                           text::significant(of_reference->value), words::unit(figure), note, change);
    }
    const std::size_t comma = change.find(", ");
    const std::string of = *phrase.of != 0 ? phrase.of : words::unit(figure);
    return fmt::format("{} {} {}{} ({})", verb, change.substr(0, comma), of, note, change.substr(comma + 2));
  }
  static std::string faster(double ratio) {
    if (is_much(ratio)) return text::significant(ratio) + " times as fast";
    return fmt::format("{} % {}", percent(ratio), ratio >= 1 ? "faster" : "slower");
  }
  /// "24.1 to 25.3"; of both ways "2.0 slower to 3.1 % faster".
  static std::string ends_of_faster(const Ratio& r) {
    if (is_much(*r.value)) return fmt::format("{} to {}", text::significant(*r.low), text::significant(*r.high));
    if ((*r.low - 1) * (*r.high - 1) <= 0)
      return fmt::format("{} % slower to {} % faster", percent(*r.low), percent(*r.high));
    const bool is_more = *r.value >= 1;
    return fmt::format("{} to {}", percent(is_more ? *r.low : *r.high), percent(is_more ? *r.high : *r.low));
  }
  static std::string joined(const std::vector<std::string>& parts) {
    if (parts.size() < 2) return parts.empty() ? "" : parts[0];
    return fmt::format("{} and {}", fmt::join(parts.begin(), parts.end() - 1, ", "), parts.back());
  }

  void add_system(std::size_t s) {
    const std::string& name = c_.systems[s].name;
    std::vector<std::string> shown, once, same, open;
    std::vector<std::pair<std::string, std::vector<std::string>>> absent;  // by reason, figures
    bool names_reference = false, names_once = false;
    std::string not_decided, why_open;
    for (const FigureComparison& figure : c_.figures) {
      const Ratio& r = figure.overall[s];
      const bool is_speed = figure.figure.name == "throughput";
      if (r.names_one()) {
        names_reference = names_reference || is_speed;
        shown.push_back(clause(figure, s, true));
      } else if (r.verdict == "single_run") {
        names_once = names_once || is_speed;
        once.push_back(clause(figure, s, false));
      } else if (r.verdict == "no difference shown") {
        same.push_back(fmt::format("no difference in {} is shown between {} and {}: {}; {}", phrase_of(figure).noun,
                                   name, reference_, words::change(r), words::open_points(r, c_.replicates)));
      } else if (r.verdict == "no claim") {
        if (!why_open.empty() && why_open != r.reason) {
          open.push_back(not_decided + ", but " + why_open);
          not_decided.clear();
        }
        why_open = r.reason;
        not_decided += not_decided.empty() ? name : "; in";
        not_decided += is_speed ? fmt::format(" looked {} than {}", range_of_faster(r), reference_)
                                : fmt::format("{} {} {}", not_decided == name ? " against " + reference_ + ", in" : "",
                                              phrase_of(figure).noun, words::change(r));
      } else {
        const std::string why = r.reason.empty() ? r.verdict : r.reason;
        auto found = std::ranges::find(absent, why, [](const auto& one) { return one.first; });
        if (found == absent.end()) found = absent.insert(absent.end(), {why, {}});
        found->second.push_back(phrase_of(figure).noun);
      }
    }
    if (!not_decided.empty()) open.push_back(not_decided + ", but " + why_open);
    std::vector<std::string> sentences;
    if (!shown.empty())
      sentences.push_back(
          fmt::format("{}{} {}", names_reference ? "" : "Against " + reference_ + ", ", name, joined(shown)));
    if (!once.empty())
      sentences.push_back(fmt::format("{}, {}{} {}. That decides nothing: {}", runs_of(s),
                                      names_once ? "" : "against " + reference_ + ", ", name, joined(once),
                                      words::single_run().substr(std::string("one run: ").size())));
    for (const std::string& one : same) sentences.push_back(text::sentence(one));
    for (const std::string& one : open) sentences.push_back("Not decided: " + one);
    for (const auto& [why, figures] : absent)
      sentences.push_back(fmt::format("{} and {} are not compared in {}: {}", name, reference_, joined(figures), why));
    std::string line;
    for (const std::string& one : sentences) line += (line.empty() ? "" : " ") + one + (one.ends_with('.') ? "" : ".");
    lines_.push_back(std::move(line));
  }
  /// "In this one run of each"; "In one run of B" against several of the other.
  std::string runs_of(std::size_t s) const {
    const bool has_one = c_.systems[s].started_at.size() == 1,
               reference_has_one = c_.systems[c_.reference].started_at.size() == 1;
    if (has_one && reference_has_one) return "In this one run of each";
    return "In one run of " + (has_one ? c_.systems[s].name : reference_);
  }
  /// "4.00 to 94.0 % faster": worst and best case.
  static std::string range_of_faster(const Ratio& r) {
    const auto end = [](double ratio) { return percent(ratio); };
    if (*r.low >= 1) return fmt::format("{} to {} % faster", end(*r.low), end(*r.high));
    if (*r.high <= 1) return fmt::format("{} to {} % slower", end(*r.high), end(*r.low));
    return fmt::format("{} % slower to {} % faster", end(*r.low), end(*r.high));
  }

  void add_learned() {
    for (const LearnedSpread& one : c_.learned) {
      std::vector<std::string> without;
      for (const FigureComparison& figure : c_.figures)
        if (is_single(figure)) without.push_back(phrase_of(figure).noun);
      lines_.push_back(fmt::format("How runs of {} differ is learned from {} earlier runs: {}.{}",
                                   words::names(c_, one.systems), one.paths.size(), fmt::join(one.paths, ", "),
                                   without.empty() ? "" : fmt::format(" No verdict is given in {}: not every system has earlier runs with it.", joined(without))));
    }
  }
  /// In how many workloads who is better, and which are in no mean.
  void add_workloads() {
    const auto add = [&](const std::string& line) {
      if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
    };
    for (const FigureComparison& figure : c_.figures)
      for (std::size_t s = 0; s < c_.systems.size(); ++s) {
        const std::string split = s == c_.reference ? "" : words::split(figure, s);
        if (!split.empty()) add(fmt::format("By {}, {}: {}.", figure.figure.name, c_.systems[s].name, split));
      }
    for (const FigureComparison& figure : c_.figures)
      if (const std::string left = words::left_out(figure, c_); !left.empty()) add(text::sentence("means are " + left));
  }

  const Comparison& c_;
  const std::string& reference_;
  std::vector<std::string> lines_;
};

}  // namespace

bool Comparison::decided() const {
  return of_any_ratio(*this, [](const Ratio& r) { return r.is_decided(); });
}
bool Comparison::names_one() const {
  return of_any_ratio(*this, [](const Ratio& r) { return r.names_one(); });
}

std::vector<std::string> answer_of(const Comparison& comparison) { return Sentences(comparison).write(); }

}  // namespace tw
