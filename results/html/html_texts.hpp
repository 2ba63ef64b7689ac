// The page's own parts, compiled in: results/html/ and the chart library of the build. Internal to results/.
#pragma once

#include <string>

namespace tw::results {

std::string html_template();       ///< results/html/page.html
std::string html_style();          ///< results/html/page.css
std::string html_script();         ///< results/html/charts.js, then page.js
std::string html_chart_library();  ///< Chart.js; empty where the build had none

}  // namespace tw::results
