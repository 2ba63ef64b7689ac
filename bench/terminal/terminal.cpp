#include "bench/terminal/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

#include "bench/terminal/error_line.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

std::string without_surrounding_spaces(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
}

/// The bytes of the first, or last, `count` characters.
std::string first_of(const std::string& text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xC0) != 0x80 && count-- == 0) break;
  return text.substr(0, at);
}
std::string last_of(const std::string& text, std::size_t count) {
  std::size_t at = text.size();
  while (count > 0 && at > 0)
    if ((text[--at] & 0xC0) != 0x80) --count;
  return text.substr(at);
}

/// An option with its description, or a paragraph.
struct Entry {
  std::string name;  ///< of an option, as printed; empty: a paragraph
  std::string text;
};

}  // namespace

std::optional<int> terminal_width(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return std::clamp<int>(size.ws_col, 40, 200);
}

void write_stderr_by_lines() { std::setvbuf(stderr, nullptr, _IOLBF, BUFSIZ); }

std::string stdout_fault() {
  std::cout.flush();
  const bool has_arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (has_arrived) return {};
  return with_code("not-written", fmt::format("standard output: {}", std::strerror(errno != 0 ? errno : EIO)));
}

void say_on_stderr(std::string_view line) {
  const std::string text = results::text::printable(std::string(line)) + "\n";
  std::fputs(text.c_str(), stderr);
}

std::string without_middle(const std::string& text, std::size_t width) {
  const std::size_t long_is = results::text::columns(text);
  if (long_is <= width) return text;
  if (width == 0) return "";
  const std::size_t kept = width - 1, front = (kept + 1) / 2;
  return first_of(text, front) + "…" + last_of(text, kept - front);
}

std::string help_within(const std::string& help, std::size_t width, std::size_t column) {
  std::string out;
  std::optional<Entry> entry;
  const auto end_entry = [&] {
    if (!entry) return;
    if (entry->text.empty()) {
      out += entry->name + "\n";
    } else if (entry->name.empty()) {
      out += results::text::wrap(entry->text, width, 0) + "\n";
    } else {
      const std::string padding(column, ' ');
      const bool beside = entry->name.size() < column;
      std::string description = results::text::wrap(entry->text, width - column, 0);
      for (std::size_t at = description.find('\n'); at != description.npos; at = description.find('\n', at + 1))
        description.insert(at + 1, padding);
      out += beside ? results::text::pad_right(entry->name, column) + description
                    : entry->name + "\n" + padding + description;
      out += "\n";
    }
    entry.reset();
  };
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string words = without_surrounding_spaces(line);
    if (indent == line.npos || (indent == 0 && words.ends_with(':'))) {  // between groups, and their titles
      end_entry();
      out += words + "\n";
    } else if (entry && (entry->name.empty() ? indent == 0 && !words.starts_with("Usage:") : indent >= column)) {
      entry->text += (entry->text.empty() ? "" : " ") + words;
    } else if (indent == 0) {
      end_entry();
      entry = Entry{"", words};
    } else {
      end_entry();
      const bool beside =
          line.size() > column && line[column - 1] == ' ' && line.compare(column, line.npos, "...") != 0;
      const std::string name = beside ? line.substr(0, column) : line;
      entry = Entry{name.substr(0, name.find_last_not_of(' ') + 1),
                    beside ? without_surrounding_spaces(line.substr(column)) : ""};
    }
  }
  end_entry();
  return out;
}

std::string help_within_terminal(const std::string& help) {
  return help_within(help, static_cast<std::size_t>(terminal_width(STDOUT_FILENO).value_or(80)));
}

}  // namespace tw::bench
