#include "results/html/html.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "results/html/page.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::results {
namespace page {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(); }

}  // namespace

// What the library writes these as, alone and in lists.
static void to_json(Json& json, const Words& words) {
  json = {{"text", words.text}, {"look", name_of(words.look)}};
  if (!words.tip.empty() && words.tip != words.text) json["tip"] = words.tip;
  if (!words.more.empty()) json["more"] = words.more;
}
static void to_json(Json& json, const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json& cells = rows.emplace_back(Json::array());
    for (const Words& cell : row) {
      const bool is_plain = cell.look == Look::plain && cell.tip.empty() && cell.more.empty();
      cells.push_back(is_plain ? Json(cell.text) : Json(cell));
    }
  }
  json = {
      {"type", "table"}, {"caption", table.caption}, {"head", table.head}, {"rows", rows}, {"folded", table.folded}};
}
static void to_json(Json& json, const Datum& d) {
  json = {{"x", number(d.x)}, {"y", number(d.y)}};
  if (d.low && d.high) json["low"] = number(d.low), json["high"] = number(d.high);
  if (!d.text.empty()) json["text"] = d.text;
  if (!d.mark.empty()) json["mark"] = d.mark;
  if (!d.counts) json["counts"] = false;
}
static void to_json(Json& json, const DataSet& set) {
  json = {{"label", set.label}, {"color", set.color}, {"style", set.style}, {"data", set.data}};
  if (set.shape) json["shape"] = *set.shape;
}
static void to_json(Json& json, const Chart& chart) {
  json = {{"type", "chart"},
          {"kind", chart.kind},
          {"title", chart.title},
          {"note", chart.note},
          {"x_title", chart.x_title},
          {"y_title", chart.y_title},
          {"categories", chart.categories},
          {"line", number(chart.line)},
          {"line_label", chart.line_label},
          {"from_zero", chart.from_zero},
          {"end", number(chart.end)},
          {"logarithmic", chart.logarithmic},
          {"sets", chart.sets},
          {"table", chart.table}};
}
static void to_json(Json& json, const Choice& choice) {
  json = {{"type", "choice"}, {"label", choice.label}, {"options", Json::array()}};
  for (const auto& [name, charts] : choice.options) json["options"].push_back({{"name", name}, {"charts", charts}});
}
static void to_json(Json& json, const Card& card) {
  json = {{"label", card.label}, {"value", card.value}, {"detail", card.detail}};
}
static void to_json(Json& json, const Section& section) {
  json = {{"id", section.id}, {"title", section.title}, {"lead", section.lead}, {"blocks", Json::array()}};
  for (const Block& block : section.blocks) {
    Json& one = json["blocks"].emplace_back();
    std::visit([&](const auto& is) { one = is; }, block);
    if (!one.contains("type")) one["type"] = "words";
  }
  if (section.absent) json["absent"] = true;
  if (section.folded) json["folded"] = true;
}

namespace {

std::string made_by() {
  const Program program = program_info("trainwatt");
  return program.name + " " + program.version + " (" + program.git_commit + ")";
}

Json json_of(const Page& page) {
  return {{"kind", page.kind},         {"title", page.title},
          {"subtitle", page.subtitle}, {"machines", page.machines},
          {"answer", page.answer},     {"caveats", page.caveats},
          {"grounds", page.grounds},   {"overview", page.overview ? Json(*page.overview) : Json()},
          {"cards", page.cards},       {"sections", page.sections},
          {"records", page.records},   {"made_by", made_by()},
          {"next", page.next}};
}

/// JSON that ends no script element and begins no comment in one (HTML, "script data state"), whatever its strings
/// hold; and no line of JavaScript, whose older versions end one at U+2028 and U+2029.
std::string for_script(const Json& json) {
  std::string text;
  const std::string raw = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '<' || raw[i] == '>' || raw[i] == '&') {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(raw[i]));
    } else if (raw.compare(i, 3, "\xe2\x80\xa8") == 0 || raw.compare(i, 3, "\xe2\x80\xa9") == 0) {
      text += raw[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      text += raw[i];
    }
  }
  return text;
}

/// "sha256-…" of an element's text, as Content-Security-Policy names what may run.
std::string csp_hash(const std::string& element) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256_hex(element);
  std::string base64;
  for (std::size_t i = 0; i < hex.size(); i += 6) {  // three bytes, four digits
    const std::string part = hex.substr(i, 6);
    const std::uint32_t bits = static_cast<std::uint32_t>(std::stoul(part, nullptr, 16)) << 4 * (6 - part.size());
    for (std::size_t d = 0; d < 4; ++d) base64 += d <= part.size() / 2 ? digits[bits >> 6 * (3 - d) & 63] : '=';
  }
  return "sha256-" + base64;
}

/// What comes from the prices' file and from the report; its records are the system's, in their order.
CostReport printable(CostReport cost, const Report& report) {
  using text::printable;
  cost.currency = printable(cost.currency);
  for (std::string* text : {&cost.price.name, &cost.price.note, &cost.price.file, &cost.price.file_note,
                            &cost.price.pue_source, &cost.price.machine_note})
    *text = printable(*text);
  for (std::size_t r = 0; r < cost.records.size(); ++r) {
    RecordCost& one = cost.records[r];
    if (r < report.records.size()) one.id = report.records[r].id;
    for (std::string* text : {&one.basis_note, &one.energy_note, &one.reason, &one.target_note})
      *text = printable(*text);
    for (CostFigure& figure : one.figures) figure.reason = printable(figure.reason);
  }
  return cost;
}

void replace(std::string& text, const std::string& name, const std::string& with) {
  const std::size_t at = text.find(name);
  text.replace(at, name.size(), with);
}

}  // namespace
}  // namespace page

std::string to_html(const std::vector<HtmlSystem>& raw, const Comparison* comparison) {
  std::vector<HtmlSystem> systems;
  for (const HtmlSystem& system : raw) {
    systems.push_back({text::printable(system.name), printable(system.report), {}, system.runs});
    const std::size_t place = systems.size() - 1;
    const std::optional<CostReport>& cost =
        comparison != nullptr && place < comparison->systems.size() ? comparison->systems[place].cost : system.cost;
    if (cost) systems.back().cost = page::printable(*cost, systems.back().report);
    for (const std::string& fault : system.faults) systems.back().faults.push_back(text::printable(fault));
    for (const std::string& note : system.notes) systems.back().notes.push_back(text::printable(note));
  }
  const page::Page page = page::build(systems, comparison);
  const std::string scripts[] = {html_chart_library(), html_script()};
  std::string text = html_template();
  // The first place of each name is the template's own: what comes from a report is filled in last.
  page::replace(text, "@SCRIPT_HASHES@", "'" + page::csp_hash(scripts[0]) + "' '" + page::csp_hash(scripts[1]) + "'");
  page::replace(text, "@STYLE_HASH@", "'" + page::csp_hash(html_style()) + "'");
  page::replace(text, "@STYLE@", html_style());
  page::replace(text, "@CHART_LIBRARY@", scripts[0]);
  page::replace(text, "@SCRIPT@", scripts[1]);
  page::replace(text, "@DATA@", page::for_script(page::json_of(page)));
  page::replace(text, "@STATIC@", page::static_html(page, page::made_by()));
  page::replace(text, "@TITLE@", page::for_text(page.title));
  return text;
}

}  // namespace tw::results
