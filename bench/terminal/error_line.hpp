// Errors and warnings as a program prints them: "trainwatt-train: error[launcher-mismatch]: …". bench/README.md lists
// the codes.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tw::bench {

/// `text` with a stable code in front: "[launcher-mismatch] …". The code travels inside the text, so that it survives
/// exceptions of every type and the ranks' agreement. Codes are lower-case words joined by hyphens; they never change,
/// while the text may.
std::string with_code(std::string_view code, std::string_view text);

/// `text` less its code.
std::string_view without_code(std::string_view text);

/// The code that `text` carries; empty if it carries none.
std::string_view code_of(std::string_view text);

/// The code of models::Failure::unsupported.
inline constexpr std::string_view unsupported_code = "unsupported";

/// what() with its code; of an exception that carries none, that of its type.
std::string coded(const std::exception& error);

/// Whether an error of the operating system means that no more can be written: a full disk, a quota, a limit of a file.
bool is_full_disk(int error);

/// "PROGRAM: error[CODE]: TEXT" and "PROGRAM: warning[CODE]: TEXT" of a text made by with_code().
std::string error_line(std::string_view program, std::string_view text);
std::string warning_line(std::string_view program, std::string_view text);

}  // namespace tw::bench
