#include "bench/terminal/error_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "models/compute/error.hpp"
#include "power/knob/journal.hpp"
#include "power/knob/site.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::bench {
namespace {

template <class... Types>
bool is_any_of(const std::exception& error) {
  return ((dynamic_cast<const Types*>(&error) != nullptr) || ...);
}

std::string line(std::string_view program, std::string_view kind, std::string_view text) {
  const std::string_view code = code_of(text);
  return code.empty() ? fmt::format("{}: {}: {}", program, kind, text)
                      : fmt::format("{}: {}[{}]: {}", program, kind, code, without_code(text));
}

}  // namespace

std::string with_code(std::string_view code, std::string_view text) { return fmt::format("[{}] {}", code, text); }

std::string_view code_of(std::string_view text) {
  const std::size_t end = text.find("] ");
  if (!text.starts_with('[') || end == text.npos || end == 1) return {};
  const std::string_view code = text.substr(1, end - 1);
  const bool valid = std::ranges::all_of(
      code, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  return valid ? code : std::string_view();
}

std::string_view without_code(std::string_view text) {
  const std::string_view code = code_of(text);
  return code.empty() ? text : text.substr(code.size() + 3);
}

std::string coded(const std::exception& error) {
  const std::string text = error.what();
  if (!code_of(text).empty()) return text;
  if (is_any_of<power::site::SiteError>(error)) return with_code("bad-site-file", text);
  if (is_any_of<power::SettingsHeld>(error)) return with_code("settings-held", text);
  if (is_any_of<power::JournalError>(error)) return with_code("bad-journal", text);
  if (is_any_of<power::WindowUnknown>(error)) return with_code("no-power-data", text);
  if (is_any_of<std::bad_alloc>(error)) return with_code("out-of-memory", "not enough memory");
  if (is_any_of<std::system_error>(error)) return with_code("system-error", text);
  if (const auto* known = dynamic_cast<const models::Error*>(&error)) {
    if (known->failure() == models::Failure::usage) return with_code("bad-value", text);
    if (known->failure() == models::Failure::environment) return with_code("device-unusable", text);
    if (known->failure() == models::Failure::unsupported) return with_code(unsupported_code, text);
  }
  return with_code("internal", text);
}

bool is_full_disk(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string error_line(std::string_view program, std::string_view text) { return line(program, "error", text); }

std::string warning_line(std::string_view program, std::string_view text) { return line(program, "warning", text); }

}  // namespace tw::bench
