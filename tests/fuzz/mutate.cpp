// A fuzzer without a fuzzing engine: mutations drawn from a seed, the same on every machine, for so many seconds or
// inputs. Half of them change bytes, half change the JSON inside, so that what is deep in a reader is reached.
//
//   fuzz_readers SECONDS INPUTS SEED FILE…     ends with 0, or dies on the input that it has written to fuzz-input.bin
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/target.hpp"

namespace tw::fuzz {
namespace {

using Json = nlohmann::json;
constexpr const char* input_file = "fuzz-input.bin";
constexpr std::size_t largest_input = 1 << 20;

std::string written(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class Mutator {
 public:
  Mutator(std::vector<std::string> inputs, std::uint64_t seed) : inputs_(std::move(inputs)), random_(seed) {}

  std::string next() {
    std::string input = inputs_[below(inputs_.size())];
    const char kind = input[0];
    const bool is_json = kind != packed && kind != tar;
    std::string text = input.substr(1);
    for (std::size_t left = 1 + below(4); left > 0; --left) {
      if (is_json && text.size() < largest_input && below(4) > 0) change_json(text, kind == lines);
      if (below(3) == 0 || !is_json) change_bytes(text);
    }
    return kind + text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  void change_bytes(std::string& text) {
    static const std::vector<std::string> words = {"null",
                                                   "1e999",
                                                   "-1e999",
                                                   "NaN",
                                                   "Infinity",
                                                   "-0",
                                                   "18446744073709551616",
                                                   "9223372036854775807",
                                                   "\"\\u0000\"",
                                                   "\xff\xfe",
                                                   "\xc0\x80",
                                                   "\xed\xa0\x80",
                                                   "\x1b[31m",
                                                   std::string(1, '\0'),
                                                   "{}",
                                                   "[]",
                                                   "[[[[[[[[",
                                                   "\"<script>\"",
                                                   "\\ud800",
                                                   "\"a\":1,\"a\":2",
                                                   "../",
                                                   "\n",
                                                   "true"};
    const std::size_t at = below(text.size() + 1), length = std::min(below(below(4) == 0 ? 4000 : 8), text.size() - at);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, words[below(words.size())]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), length));
        break;
      case 4:
        if (below(8) == 0) text.resize(at);
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
    }
  }

  void change_json(std::string& text, bool by_line) {
    std::size_t begin = 0, end = text.size();
    if (by_line) {
      begin = text.rfind('\n', below(text.size()));
      begin = begin == std::string::npos ? 0 : begin + 1;
      end = std::min(text.find('\n', begin), text.size());
    }
    Json json = Json::parse(text.substr(begin, end - begin), nullptr, false, true);
    if (json.is_discarded()) return;
    change_inside(json);
    text.replace(begin, end - begin, written(json));
  }

  /// Somewhere in the tree, and in the plan that stands in it as text.
  void change_inside(Json& json) {
    Json* place = &json;
    while (place->is_structured() && !place->empty() && below(12) > 0) {
      auto item = place->begin();
      std::advance(item, static_cast<std::ptrdiff_t>(below(place->size())));
      place = &*item;
    }
    if (json.is_object() && json.contains("plan") && below(8) == 0) place = &json["plan"];
    if (place->is_object() && place->contains("canonical_json") && (*place)["canonical_json"].is_string())
      place = &(*place)["canonical_json"];
    if (place->is_string() && place->get_ref<const std::string&>().starts_with('{')) {
      Json inner = Json::parse(place->get<std::string>(), nullptr, false);
      if (!inner.is_discarded()) return change_inside(inner), void(*place = written(inner));
    }
    change(*place);
  }

  void change(Json& place) {
    constexpr double infinite = std::numeric_limits<double>::max();
    if (place.is_structured() && !place.empty() && below(2) == 0) {
      auto item = place.begin();
      std::advance(item, static_cast<std::ptrdiff_t>(below(place.size())));
      if (place.is_object()) {
        if (below(2) == 0)
          place.erase(item);
        else
          place["x" + std::to_string(below(100))] = *item;
      } else if (below(3) == 0) {
        place.erase(item);
      } else {
        const Json copy = *item;
        for (std::size_t left = std::min(below(below(8) == 0 ? 3000 : 5), largest_input / written(copy).size());
             left > 0; --left)
          place.push_back(copy);
      }
      return;
    }
    if (place.is_number() && below(2) == 0) {
      const double value = place.get<double>();
      const double factors[] = {-1, 0, 2, 0.5, 1e-300, 1e300, 1 + 1e-6};
      const double made = value * factors[below(std::size(factors))];
      if (place.is_number_integer() && std::abs(made) < 1e18)
        place = static_cast<std::int64_t>(made);
      else
        place = std::isfinite(made) ? made : infinite;
      return;
    }
    const Json values[] = {nullptr,
                           true,
                           false,
                           0,
                           -1,
                           1,
                           2,
                           std::numeric_limits<std::int64_t>::max(),
                           std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::uint64_t>::max(),
                           infinite,
                           -infinite,
                           1e-308,
                           0.1,
                           "",
                           "\x1b]0;x\x07",
                           "<b onclick=x>",
                           std::string(5000, 'a'),
                           "\xe2\x80\xae",
                           "=1+1",
                           "a,b\"c\nd",
                           "2026-02-30T25:61:61Z",
                           "../../etc/passwd",
                           Json::array(),
                           Json::object(),
                           Json::array({nullptr}),
                           std::string(1, '\0')};
    place = values[below(std::size(values))];
  }

  const std::vector<std::string> inputs_;
  std::mt19937_64 random_;
};

int run(double seconds, std::size_t inputs, std::uint64_t seed, const std::vector<std::string>& files) {
  std::printf("own mutator, not libFuzzer: clang++ was not here when this was built\n");
  const std::vector<std::string> all = seeds(files);
  for (const std::string& input : all) read_one(input[0], input.substr(1));
  Mutator mutator(all, seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  std::size_t done = 0;
  double slowest = 0;
  while (done < inputs && passed() < seconds) {
    const std::string input = mutator.next();
    std::ofstream(input_file, std::ios::binary) << input;  // stays where the reader dies
    const double before = passed();
    LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(input.data()), input.size());
    slowest = std::max(slowest, passed() - before);
    ++done;
  }
  std::remove(input_file);
  std::printf("%zu inputs from %zu seeds in %.0f s, the slowest took %.2f s\n", done, all.size(), passed(), slowest);
  return 0;
}

}  // namespace
}  // namespace tw::fuzz

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: %s SECONDS INPUTS SEED REPORT…\n", argv[0]), 2;
  return tw::fuzz::run(std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10),
                       {argv + 4, argv + argc});
}
