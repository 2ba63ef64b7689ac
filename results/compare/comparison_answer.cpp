// The first lines of a comparison: one sentence for each system, and short lines of what it rests on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "results/compare/comparison_words.hpp"
#include "results/record/text.hpp"

namespace tw::results {
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
  const char *up, *down;   ///< what a system looked that has more of it, and less: "faster", "slower"
};
constexpr Phrase phrases[] = {
    {"throughput", "trains", "trained", "speed", "faster", "slower"},
    {"samples-per-joule", "gives", "gave", "samples per joule", "better in samples per joule",
     "worse in samples per joule"},
    {"efficiency", "gives", "gave", "FLOP per joule", "better in FLOP per joule", "worse in FLOP per joule"},
    {"time-to-target", "takes", "took", "time to the target", "slower to the target", "faster to the target"},
    {"energy-to-target", "takes", "took", "energy to the target", "worse in energy to the target",
     "better in energy to the target"},
    {"steps-to-target", "takes", "took", "steps to the target", "worse in steps to the target",
     "better in steps to the target"},
    {"cost", "costs", "cost", "the cost of a million samples", "more expensive", "cheaper"},
    {"cost-to-target", "costs", "cost", "the cost of a model", "more expensive per model", "cheaper per model"},
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
  return r.is_range ? "worst to best" : r.verdict == Claim::single_run ? "over trials" : "";
}
/// The same, and what the interval is over where it is not runs: "24.7 % more, 24.1 to 25.3, over trials".
std::string change_in_words(const Ratio& r, const char* more, const char* less) {
  const std::string over = ends_over(r);
  return plain_change_in_words(r, more, less) + (over.empty() ? "" : ", " + over);
}

/// How many decimals a half width needs, rounded up to one significant digit, or to two if the first is 1, so that no
/// uncertainty becomes smaller.
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

/// Worst to best case in whole per cent, away from the middle: "4 to 94 % faster", "3 % slower to 10 % faster".
std::string looked(const Ratio& r, const Phrase& phrase) {
  const auto end = [](double ratio, bool is_far) {
    const double share = 100 * std::abs(ratio - 1), slack = 1e-6;
    if (share < 1) return text::significant(share, 1);
    return fmt::format("{:.0f}", is_far ? std::ceil(share - slack) : std::floor(share + slack));
  };
  if (*r.low >= 1) return fmt::format("{} to {} % {}", end(*r.low, false), end(*r.high, true), phrase.up);
  if (*r.high <= 1) return fmt::format("{} to {} % {}", end(*r.high, false), end(*r.low, true), phrase.down);
  return fmt::format("{} % {} to {} % {}", end(*r.low, true), phrase.down, end(*r.high, true), phrase.up);
}

struct Answer {
  std::vector<std::string> sentences, rests_on;
  std::size_t first_of_systems = 0, first_detail = 0;
};

class Sentences {
 public:
  explicit Sentences(const Comparison& comparison) : c_(comparison), reference_(c_.systems[c_.reference].name) {}

  Answer write() {
    if (c_.figures.empty()) return {{why_no_figure()}, {}, 1};
    const bool are_several = c_.systems.size() > 2;
    if (are_several) add_conclusion();
    answer_.first_of_systems = answer_.sentences.size();
    for (std::size_t s = 0; s < c_.systems.size(); ++s)
      if (s != c_.reference) add_system(s);
    for (std::string& line : words::grounds(c_)) add_line(std::move(line));
    if (are_several) answer_.first_detail = answer_.rests_on.size();
    for (std::string& line : would_show_) add_line(std::move(line));
    if (!are_several) {
      answer_.first_detail = answer_.rests_on.size();
      answer_.first_of_systems = answer_.sentences.size();
    }
    add_learned();
    add_workloads();
    return std::move(answer_);
  }

 private:
  /// Of a comparison without any figure.
  std::string why_no_figure() const {
    std::vector<std::string> reasons;
    for (const ComparedSystem& system : c_.systems) {
      if (system.records == 0) reasons.push_back(system.name + " has no point");
      if (system.records > 0 && system.valid == 0)
        reasons.push_back(fmt::format("no point of {} is valid (trainwatt show prints why)", system.name));
    }
    return text::sentence(reasons.empty() ? "the reports have no figure in common" : text::join(reasons, "; "));
  }
  bool is_single(const FigureComparison& figure) const {
    return std::ranges::any_of(figure.overall, [](const Ratio& r) { return r.verdict == Claim::single_run; });
  }
  void add_line(std::string line) {
    if (std::ranges::find(answer_.rests_on, line) == answer_.rests_on.end())
      answer_.rests_on.push_back(std::move(line));
  }
  /// The systems that were run once.
  std::vector<std::size_t> run_once() const {
    std::vector<std::size_t> once;
    for (std::size_t s = 0; s < c_.systems.size(); ++s)
      if (c_.systems[s].started_at.size() == 1) once.push_back(s);
    return once;
  }
  std::string one_run_decides_nothing() const {
    const bool is_each = run_once().size() == c_.systems.size();
    return fmt::format("one run{} decides nothing: it does not show how much runs of a machine differ",
                       is_each ? " of each" : "");
  }

  /// " (399 against 305 and 295 samples/s)": the first of a ranking against all others, of many against the next one
  std::string against_others(const FigureComparison& figure) const {
    constexpr std::size_t most = 3;
    std::vector<std::string> figures;
    for (const RankedSystem& one : figure.ranking) {
      const std::optional<double> own = words::geometric_mean(figure, one.system);
      if (!own) return {};
      figures.push_back(text::si(*own));
    }
    const std::string first = figures.front();
    figures.erase(figures.begin());
    const bool are_many = figures.size() > most;
    const std::string unit = figure.figure.is_cost() ? c_.currency : words::unit(figure);
    return fmt::format(" ({} against {} {}{})", first, are_many ? figures.front() : words::listed(figures), unit,
                       are_many ? " of the next" : "");
  }
  /// Of several systems, which is better than all others, and in what; which only looked so in single runs; and in
  /// what none is shown to be.
  void add_conclusion() {
    std::vector<std::pair<std::string, std::vector<std::string>>> best, looked_best;  // who, figures
    const auto add_to = [](auto& all, const std::string& who, const std::string& what) {
      auto found = std::ranges::find(all, who, [](const auto& one) { return one.first; });
      if (found == all.end()) found = all.insert(all.end(), {who, {}});
      found->second.push_back(what);
    };
    std::vector<std::string> open, orders;
    std::set<std::size_t> compared;
    for (const FigureComparison& figure : c_.figures) {
      if (figure.ranking.size() < 2) continue;
      const RankedSystem& first = figure.ranking.front();
      const std::string noun = phrase_of(figure).noun;
      std::vector<std::string> others;
      for (const RankedSystem& one : figure.ranking) {
        compared.insert(one.system);
        if (one.system != first.system) others.push_back(c_.systems[one.system].name);
      }
      if (first.beats == others.size())
        add_to(best, fmt::format("{} is better than {}", c_.systems[first.system].name, words::listed(others)),
               noun + against_others(figure));
      else if (is_single(figure))
        add_to(looked_best, c_.systems[first.system].name, noun + against_others(figure));
      else
        open.push_back(noun);
      const bool is_partly_open =
          figure.ranking.back().rank > 1 && std::ranges::any_of(figure.ranking, &RankedSystem::tied);
      if (is_partly_open) orders.push_back(fmt::format("By {}: {}.", figure.figure.name, words::ranking(figure, c_)));
    }
    std::vector<std::string> parts, said;
    for (const auto& [who, figures] : best) parts.push_back(fmt::format("{} in {}", who, words::listed(figures)));
    if (!parts.empty()) said.push_back(text::join(parts, "; ") + ".");
    parts.clear();
    for (const auto& [who, figures] : looked_best)
      parts.push_back(fmt::format("{} was best in {}", who, words::listed(figures)));
    if (!parts.empty()) {
      const std::vector<std::size_t> once = run_once();
      said.push_back(fmt::format(
          "Not decided: {}, which decides nothing, {}.",
          once.size() == c_.systems.size() ? "in this one run of each" : "with one run of " + words::names(c_, once),
          text::join(parts, "; ")));
    }
    if (!open.empty())
      said.push_back(
          fmt::format("Not decided: none is shown to be better than all others in {}.", words::listed(open, "or")));
    for (std::size_t s = 0; s < c_.systems.size() && !said.empty(); ++s)
      if (!compared.contains(s)) said.push_back(c_.systems[s].name + " is not compared.");
    if (!said.empty()) answer_.sentences.push_back(text::join(said, " "));
    for (std::string& order : orders) answer_.sentences.push_back(std::move(order));
  }

  /// "6.14 instead of 6.52 EUR per million samples"; empty if there is none.
  std::string absolute_words(const FigureComparison& figure, std::size_t s, const char* beside,
                             const std::string& unit) const {
    const std::optional<double> own = words::geometric_mean(figure, s),
                                other = words::geometric_mean(figure, c_.reference);
    if (!own || !other) return {};
    return fmt::format("{} {} {} {}{}", text::significant(*own), beside, text::significant(*other), unit,
                       figure.note.empty() ? "" : " (" + figure.note + ")");
  }

  /// "costs 6.14 instead of 6.52 EUR per million samples (5.9 % less, 4.7 to 7.1)"
  std::string clause(const FigureComparison& figure, std::size_t s, bool is_now) const {
    const Ratio& r = figure.overall[s];
    const Phrase& phrase = phrase_of(figure);
    const char* verb = is_now ? phrase.now : phrase.then;
    if (figure.figure.kind == FigureKind::throughput) {
      if (is_now) return "trains " + times_as_fast(r, reference_);
      return fmt::format("was {} {} {} ({} {})", faster(*r.value), is_much(*r.value) ? "as" : "than", reference_,
                         ends_of_faster(r), ends_over(r));
    }
    const std::string change = change_in_words(r, "more", "less"),
                      figures = absolute_words(figure, s, "instead of", words::unit(figure));
    if (!figures.empty()) return fmt::format("{} {} ({})", verb, figures, change);
    const std::size_t comma = change.find(", ");
    return fmt::format("{} {}{} ({})", verb, change.substr(0, comma),
                       figure.figure.is_cost() ? "" : std::string(" ") + phrase.noun,
                       change.substr(comma + 2));
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
  /// How a system looked whose interval includes no change: "6.00 % faster (-1.00 to +13.0)", "5.90 % cheaper (6.14
  /// against 6.52 EUR per million samples, -9.00 to +0.50)", "2.93 times as fast (0.741 to 11.6)".
  std::string looked_about(const FigureComparison& figure, std::size_t s) const {
    const Ratio& r = figure.overall[s];
    const Phrase& phrase = phrase_of(figure);
    const bool is_speed = figure.figure.kind == FigureKind::throughput;
    const std::string figures = is_speed ? "" : absolute_words(figure, s, "against", words::unit(figure)),
                      ends = words::interval(r),
                      how = *r.value == 1 ? std::string("equal in ") + phrase.noun
                            : !is_much(*r.value)
                                ? fmt::format("{} % {}", percent(*r.value), *r.value > 1 ? phrase.up : phrase.down)
                            : is_speed
                                ? faster(*r.value)
                                : fmt::format("{} times as high in {}", text::significant(*r.value), phrase.noun);
    return fmt::format("{} ({}{}{})", how, figures, figures.empty() ? "" : ", ", ends.substr(1, ends.size() - 2));
  }

  /// A sentence of what is shown, of what was seen, and of why nothing is compared.
  void add_system(std::size_t s) {
    const std::string& name = c_.systems[s].name;
    std::vector<std::string> shown, won, lost, once, same, after, sentences;
    std::string why_same;
    using Reasons = std::vector<std::pair<std::string, std::vector<std::string>>>;
    Reasons open, absent;  // by reason, figures
    const auto add_to = [](Reasons& reasons, const std::string& why, std::string what) {
      auto found = std::ranges::find(reasons, why, [](const auto& one) { return one.first; });
      if (found == reasons.end()) found = reasons.insert(reasons.end(), {why, {}});
      found->second.push_back(std::move(what));
    };
    bool names_reference = false, names_once = false;
    for (const FigureComparison& figure : c_.figures) {
      const Ratio& r = figure.overall[s];
      const Phrase& phrase = phrase_of(figure);
      const bool is_speed = figure.figure.kind == FigureKind::throughput;
      if (r.names_one()) {
        names_reference = names_reference || is_speed;
        shown.push_back(clause(figure, s, true));
        (r.verdict == Claim::better ? won : lost).push_back(phrase.noun);
      } else if (r.verdict == Claim::single_run) {
        names_once = names_once || is_speed;
        once.push_back(clause(figure, s, false));
      } else if (r.verdict == Claim::no_difference) {
        same.push_back(looked_about(figure, s));
        why_same = same.size() > 1 ? "the intervals include no change" : words::why_open(r);
        if (const std::string would = words::open_points(r, c_.replicates); !would.empty())
          would_show_.push_back(c_.systems.size() > 2 ? fmt::format("{}, {}: {}.", name, phrase.noun, would)
                                                      : text::sentence(fmt::format("{}: {}", phrase.noun, would)));
      } else if (r.verdict == Claim::no_claim) {
        const std::string figures = is_speed ? "" : absolute_words(figure, s, "instead of", words::unit(figure));
        add_to(open, r.reason, looked(r, phrase) + (figures.empty() ? "" : " (" + figures + ")"));
      } else {
        add_to(absent, r.reason.empty() ? to_string(r.verdict) : r.reason, phrase.noun);
      }
    }
    const std::string against = names_reference || names_once ? "" : "against " + reference_ + ", ";
    if (!shown.empty()) {
      const std::string who = winner(s, won, lost, names_reference);
      sentences.push_back(fmt::format("{}: {} {}.", who, lost.empty() ? "it" : name, words::listed(shown)));
    }
    if (!once.empty()) {
      sentences.push_back(
          fmt::format("Not decided: {}, {}{} {}.", runs_of(s), names_once ? "" : against, name, words::listed(once)));
      if (c_.systems.size() == 2) after.push_back(text::sentence(one_run_decides_nothing()));
    }
    const auto add_open = [&](const std::string& why, const std::vector<std::string>& figures) {
      sentences.push_back(fmt::format("Not decided: {} looked {}{}, but {}.", name, words::listed(figures),
                                      c_.systems.size() > 2 ? " against " + reference_ : "", why));
    };
    if (!same.empty()) add_open(why_same, same);
    for (const auto& [why, figures] : open) add_open(why, figures);
    for (const auto& [why, figures] : absent)
      sentences.push_back(fmt::format("{} and {} are not compared in {}: {}{}", name, reference_,
                                      words::listed(figures), why, why.ends_with('.') ? "" : "."));
    if (sentences.empty()) return;
    answer_.sentences.push_back(sentences.front());
    for (std::string& sentence : after) answer_.sentences.push_back(std::move(sentence));
    for (std::size_t i = 1; i < sentences.size(); ++i) answer_.sentences.push_back(sentences[i]);
  }
  /// "B is better"; where not all figures show it "B is better in speed, A in the cost of a million samples". Who of
  /// two is better than whom goes without saying where the clause names the other.
  std::string winner(std::size_t s, const std::vector<std::string>& won, const std::vector<std::string>& lost,
                     bool names_reference) const {
    const std::string& name = c_.systems[s].name;
    const std::string &first = won.empty() ? reference_ : name, &second = won.empty() ? name : reference_;
    const bool is_all = won.size() == c_.figures.size() || lost.size() == c_.figures.size();
    std::string text = first + " is better";
    if (c_.systems.size() > 2 || !names_reference) text += " than " + second;
    if (!is_all) text += " in " + words::listed(won.empty() ? lost : won);
    if (!won.empty() && !lost.empty()) text += fmt::format(", {} in {}", second, words::listed(lost));
    return text;
  }
  /// "in this one run of each"; "in one run of B" against several of the other.
  std::string runs_of(std::size_t s) const {
    const bool has_one = c_.systems[s].started_at.size() == 1,
               reference_has_one = c_.systems[c_.reference].started_at.size() == 1;
    if (has_one && reference_has_one) return "in this one run of each";
    return "in one run of " + (has_one ? c_.systems[s].name : reference_);
  }

  void add_learned() {
    for (const LearnedSpread& one : c_.learned) {
      std::vector<std::string> without;
      for (const FigureComparison& figure : c_.figures)
        if (is_single(figure)) without.push_back(phrase_of(figure).noun);
      add_line(fmt::format("The spread between runs of {} is learned from {} earlier runs: {}.{}",
                           words::names(c_, one.systems), one.paths.size(), fmt::join(one.paths, ", "),
                           without.empty()
                               ? ""
                               : fmt::format(" No verdict is given in {}: not every system has earlier runs with it.",
                                             words::listed(without))));
    }
  }
  /// In how many workloads who is better, and which are in no mean.
  void add_workloads() {
    for (const FigureComparison& figure : c_.figures)
      for (std::size_t s = 0; s < c_.systems.size(); ++s) {
        const std::string split = s == c_.reference ? "" : words::split(figure, s);
        if (!split.empty()) add_line(fmt::format("By {}, {}: {}.", figure.figure.name, c_.systems[s].name, split));
      }
    for (const FigureComparison& figure : c_.figures)
      if (const std::string left = words::left_out(figure, c_); !left.empty())
        add_line(text::sentence("means are " + left));
  }

  const Comparison& c_;
  const std::string& reference_;
  Answer answer_;
  std::vector<std::string> would_show_;  ///< what a verdict leaves open, a line for each figure
};

}  // namespace

bool Comparison::decided() const {
  return of_any_ratio(*this, [](const Ratio& r) { return r.is_decided(); });
}
bool Comparison::names_one() const {
  return of_any_ratio(*this, [](const Ratio& r) { return r.names_one(); });
}

void add_answer(Comparison& comparison) {
  Answer answer = Sentences(comparison).write();
  comparison.answer = std::move(answer.sentences), comparison.rests_on = std::move(answer.rests_on);
  comparison.first_detail = answer.first_detail, comparison.first_of_systems = answer.first_of_systems;
  comparison.next_step = words::next_step(comparison);
  if (const std::string not_one = words::not_an_award(comparison); comparison.compared && !not_one.empty()) {
    comparison.answer.insert(comparison.answer.begin(), not_one);
    ++comparison.first_of_systems;
  }
}

}  // namespace tw::results
