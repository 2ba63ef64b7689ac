// The page without scripts. Elements and classes are those of results/html/page.js, so that one style serves both.
#include "results/html/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tw::results::page {
namespace {

/// As page.js has them: colour is never all that says it.
const char* sign_of(Look look) {
  constexpr const char* signs[] = {"", "", "✓", "✗", "!", "–", ""};
  return signs[static_cast<std::size_t>(look)];
}

std::string attribute(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format(" {}=\"{}\"", name, for_text(value));
}

/// `classes` are ours.
std::string element(const std::string& tag, const std::string& classes, const std::string& inner,
                    const std::string& more = "") {
  return fmt::format("<{}{}{}>{}</{}>", tag, attribute("class", classes), more, inner, tag);
}

std::string words(const Words& value) {
  const std::string sign = value.text.empty() ? "" : sign_of(value.look);
  return (sign.empty() ? "" : "<span class=\"sign\" aria-hidden=\"true\">" + sign + "</span>") + for_text(value.text);
}

/// A tile's figure and unit as boxes, which stay whole where they fit: browsers break lines after the slash of a unit.
std::string boxes(std::string text) {
  constexpr std::string_view no_break = "\u00a0";
  for (std::size_t at = 0; (at = text.find(no_break, at)) != std::string::npos;) text.replace(at, no_break.size(), " ");
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    out += (at > 0 ? " " : "") + element("span", "word", for_text(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

std::string with_more(const char* tag, const Words& value) {
  if (value.more.empty()) return element(tag, name_of(value.look), words(value), attribute("title", value.tip));
  std::string lines;
  for (const std::string& line : value.more) lines += element("li", "", for_text(line));
  return element(tag, name_of(value.look),
                 "<details><summary>" + words(value) + "</summary>" + element("ul", "more", lines) + "</details>");
}

std::string table(const Table& spec) {
  std::vector<bool> is_number(spec.head.size());
  for (const auto& row : spec.rows)
    for (std::size_t c = 0; c < row.size() && c < is_number.size(); ++c)
      if (row[c].look == Look::number) is_number[c] = true;
  std::string head, body;
  for (std::size_t c = 0; c < spec.head.size(); ++c)
    head += element("th", is_number[c] ? "number" : "", for_text(spec.head[c]), " scope=\"col\" role=\"columnheader\"");
  for (const auto& row : spec.rows) {
    std::string cells;
    for (std::size_t c = 0; c < row.size() && c < spec.head.size(); ++c) {
      std::string classes = row[c].look == Look::number ? "" : name_of(row[c].look);
      if (is_number[c]) classes += " number";
      if (row[c].text.empty()) classes += " empty";
      if (c > 0 && !is_number[c] && row[c].text.size() > 40) classes += " prose";
      classes.erase(0, classes.find_first_not_of(' '));
      const std::string role = c == 0 ? " role=\"rowheader\" scope=\"row\"" : " role=\"cell\"";
      cells +=
          element(c == 0 ? "th" : "td", classes, element("span", "cell", words(row[c]), attribute("title", row[c].tip)),
                  role + attribute("data-head", spec.head[c]));
    }
    body += element("tr", "", cells, " role=\"row\"") + "\n";
  }
  const std::string whole =
      element("div", "scroll",
              "<table role=\"table\">" + element("caption", "", for_text(spec.caption)) +
                  element("thead", "", element("tr", "", head, " role=\"row\""), " role=\"rowgroup\"") +
                  element("tbody", "", body, " role=\"rowgroup\"") + "</table>");
  return element("div", "block",
                 spec.folded ? fmt::format("<details><summary>{} ({})</summary>{}</details>", for_text(spec.caption),
                                           spec.rows.size(), whole)
                             : whole) +
         "\n";
}

}  // namespace

const char* name_of(Look look) {
  constexpr const char* names[] = {"", "number", "good", "bad", "note", "quiet", "small"};
  return names[static_cast<std::size_t>(look)];
}

std::string for_text(const std::string& raw) {
  std::string text;
  for (const char c : raw)
    text += c == '&'    ? "&amp;"
            : c == '<'  ? "&lt;"
            : c == '>'  ? "&gt;"
            : c == '"'  ? "&quot;"
            : c == '\'' ? "&#39;"
                        : std::string(1, c);
  return text;
}

std::string static_html(const Page& page, const std::string& made_by) {
  std::string head = element("p", "kind", for_text("trainwatt " + page.kind)) + element("h1", "", for_text(page.title));
  std::string machines;
  for (const std::string& one : page.machines) machines += element("li", "", for_text(one));
  if (!machines.empty()) machines = element("ul", "machines", machines);
  if (!page.overview) head += machines;  // of a comparison the answer comes first
  std::string answer, grounds, cards, caveats, tables;
  for (const Words& line : page.grounds) grounds += with_more("p", line);
  for (const Words& line : page.answer) answer += with_more("p", line);
  for (const Card& card : page.cards)
    cards += element("div", "card",
                     element("dt", "", for_text(card.label)) + element("dd", "value", boxes(card.value)) +
                         element("dd", "detail", for_text(card.detail)));
  for (const Words& line : page.caveats) caveats += with_more("li", line);
  for (const Table& one : page.main_tables) tables += table(one);
  return element("header", "", head) + "\n<main>" + element("div", "answer", answer) + "\n" +
         (page.overview ? element("div", "overview", table(*page.overview)) : element("dl", "cards", cards)) + "\n" +
         element("p", "next", for_text(page.next)) + "\n" +
         (grounds.empty() ? "" : element("div", "grounds", grounds) + "\n") + element("ul", "caveats", caveats) + "\n" +
         (page.overview ? machines : "") + element("p", "subtitle", for_text(page.subtitle)) + "\n" +
         element("section", "", tables, " id=\"static\"") + "</main>\n" +
         element("footer", "",
                 element("p", "", for_text("Made by " + made_by + ".")) +
                     element("p", "",
                             "Charts and all other tables are drawn by this page's own script: open the file in "
                             "a browser that runs it. The page loads nothing.")) +
         "\n";
}

}  // namespace tw::results::page
