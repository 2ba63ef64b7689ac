#include "power/meter/sysfs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace tw::power::sysfs {
namespace {

[[noreturn]] void fail(int error, const std::filesystem::path& file) {
  throw std::system_error(error, std::generic_category(), file.string());
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  const Descriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) fail(errno, file);
  std::string text;
  char buffer[4096];
  ssize_t bytes = 0;
  while ((bytes = ::read(descriptor.get(), buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(bytes));
  if (bytes < 0) fail(errno, file);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.pop_back();
  return text;
}

double read_number(const std::filesystem::path& file) { return NumberFile(file).read_number(); }
std::uint64_t read_integer(const std::filesystem::path& file) { return NumberFile(file).read_integer(); }

std::vector<int> read_list(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  std::vector<int> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int first = 0, last = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) fail(EINVAL, file);
    last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec != std::errc() || first < 0 || last < first || last > 1 << 20) fail(EINVAL, file);
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (parsed.ptr == end) return numbers;
    if (*parsed.ptr != ',') fail(EINVAL, file);
    at = parsed.ptr + 1;
  }
}

std::string text_or_empty(const std::filesystem::path& file) {
  try {
    return read_text(file);
  } catch (const std::system_error&) {
    return {};
  }
}

std::optional<double> number_or_none(const std::filesystem::path& file) { return NumberFile(file).number_or_none(); }

/// The kernel answers with all of so short a file at once.
struct NumberFile::Text {
  char bytes[128];
  std::size_t size = 0;
};

int NumberFile::read_text(Text& text) noexcept {
  if (descriptor_.get() < 0) descriptor_ = Descriptor(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor_.get() < 0) return errno;
  const ssize_t bytes = ::pread(descriptor_.get(), text.bytes, sizeof text.bytes, 0);
  if (bytes < 0) return errno;
  text.size = static_cast<std::size_t>(bytes);
  while (text.size > 0 && static_cast<unsigned char>(text.bytes[text.size - 1]) <= ' ') --text.size;
  return text.size > 0 ? 0 : ENODATA;
}

template <typename Number>
int NumberFile::read(Number& number, Text& text) noexcept {
  const bool was_open = descriptor_.get() >= 0;
  int error = read_text(text);
  if (error != 0) close();
  if (error != 0 && was_open) error = read_text(text);
  if (error != 0) return error;
  const char* last = text.bytes + text.size;
  const auto [end, failure] = std::from_chars(text.bytes, last, number);
  return failure == std::errc() && (end == last || *end == ' ' || *end == '\n') ? 0 : EINVAL;
}

template <typename Number>
Number NumberFile::read_or_throw() {
  Number number{};
  Text text;
  const int error = read(number, text);
  if (error == 0) return number;
  if (error != EINVAL) fail(error, file_);
  const std::size_t shown = std::min<std::size_t>(text.size, 40);
  throw std::system_error(EINVAL, std::generic_category(),
                          file_.string() + " holds \"" + std::string(&text.bytes[0], shown) + "\"");
}

double NumberFile::read_number() { return read_or_throw<double>(); }
std::uint64_t NumberFile::read_integer() { return read_or_throw<std::uint64_t>(); }

std::optional<double> NumberFile::number_or_none() noexcept {
  double number = 0;
  Text text;
  return read(number, text) == 0 ? std::optional(number) : std::nullopt;
}

std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::string pci_address(const std::filesystem::path& device) {
  std::error_code error;
  const std::string name = std::filesystem::canonical(device, error).filename().string();
  const bool is_address =
      !error && name.size() >= 12 && name[name.size() - 2] == '.' && std::ranges::count(name, ':') == 2;
  return is_address ? name : std::string();
}

void explain(const std::system_error& error, MeterFinding& finding) {
  const int code = error.code().value();
  finding.explain(code == EACCES || code == EPERM ? "permission" : "unsupported", error.what());
}

}  // namespace tw::power::sysfs
