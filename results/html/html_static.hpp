// The part of the page that needs no script: for previews in mail, and for browsers that run none. Internal to
// results/.
#pragma once

#include <string>

#include "results/html/page.hpp"

namespace tw::results::page {

/// Text as it may stand between tags and in an attribute's value in double quotes.
std::string for_text(const std::string& raw);

/// Title, answer, cards, what to keep in mind and Page::main_tables as HTML. The page's script replaces it as a whole
/// (#page) by what it draws, so that nothing is there twice. Every text passes for_text().
std::string static_html(const Page& page, const std::string& made_by);

}  // namespace tw::results::page
