// The line that a program ends with when something went wrong: "trainwatt-train: error[launcher-mismatch]: …".
#pragma once

#include <string>
#include <string_view>

namespace tw {

/// `text` with a stable code in front, which error_line() prints and scripts may test: "[launcher-mismatch] …". The code
/// travels inside the text, so that it survives exceptions of every type and the ranks' agreement. Codes are lower-case
/// words joined by hyphens; they never change, while the text may.
std::string with_code(std::string_view code, std::string_view text);

/// "PROGRAM: error[CODE]: TEXT" of a text made by with_code(); "PROGRAM: error: TEXT" of any other.
std::string error_line(std::string_view program, std::string_view text);

/// error_line() of a text that carries a code; "PROGRAM: TEXT" of any other, which need be no error.
std::string line_of(std::string_view program, std::string_view text);

/// `text` less its code.
std::string_view without_code(std::string_view text);

/// The code that `text` carries; empty where it carries none.
std::string_view code_of(std::string_view text);

}  // namespace tw
