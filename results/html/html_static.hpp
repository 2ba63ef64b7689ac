// The page's own parts, compiled in, and the one that needs no script (previews in mail). Internal to results/.
#pragma once

#include <string>

#include "results/html/page.hpp"

namespace tw::results {

std::string html_template();       ///< results/html/page.html
std::string html_style();          ///< results/html/page.css
std::string html_script();         ///< results/html/charts.js, then page.js
std::string html_chart_library();  ///< Chart.js; empty where the build had none

}  // namespace tw::results

namespace tw::results::page {

/// Text as it may stand between tags and in an attribute's value in double quotes.
std::string for_text(const std::string& raw);

/// Title, answer, cards, what to keep in mind and Page::main_tables as HTML. The page's script replaces it as a whole
/// (#page) by what it draws, so that nothing is there twice. Every text passes for_text().
std::string static_html(const Page& page, const std::string& made_by);

}  // namespace tw::results::page
