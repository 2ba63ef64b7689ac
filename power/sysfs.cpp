#include "power/sysfs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace tw::sysfs {
namespace {

[[noreturn]] void fail(int error, const std::filesystem::path& file) {
  throw std::system_error(error, std::generic_category(), file.string());
}

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& file) : number_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number_ < 0) fail(errno, file);
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// One reading, which the kernel answers with all of so short a file: telemetry reads dozens of them ten times a
/// second.
template <typename Number>
Number parse(const std::filesystem::path& file) {
  const Descriptor descriptor(file);
  char text[128];
  const ssize_t bytes = ::read(descriptor.number(), text, sizeof text);
  if (bytes < 0) fail(errno, file);
  const char* last = text + bytes;
  while (last != text && static_cast<unsigned char>(last[-1]) <= ' ') --last;
  Number number{};
  const auto [end, error] = std::from_chars(text, last, number);
  if (error != std::errc() || (end != last && *end != ' '))
    throw std::system_error(EINVAL, std::generic_category(),
                            file.string() + " holds \"" +
                                std::string(&text[0], static_cast<std::size_t>(last - text)).substr(0, 40) + "\"");
  return number;
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  const Descriptor descriptor(file);
  std::string text;
  char buffer[4096];
  ssize_t bytes = 0;
  while ((bytes = ::read(descriptor.number(), buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(bytes));
  if (bytes < 0) fail(errno, file);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.pop_back();
  return text;
}

double read_number(const std::filesystem::path& file) { return parse<double>(file); }
std::uint64_t read_integer(const std::filesystem::path& file) { return parse<std::uint64_t>(file); }

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

std::optional<double> number_or_none(const std::filesystem::path& file) noexcept {
  try {
    return read_number(file);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string pci_address(const std::filesystem::path& device) {
  std::error_code error;
  const std::string name = std::filesystem::canonical(device, error).filename().string();
  const bool is_address =
      !error && name.size() >= 12 && name[name.size() - 2] == '.' && std::count(name.begin(), name.end(), ':') == 2;
  return is_address ? name : std::string();
}

void explain(const std::system_error& error, MeterFinding& finding) {
  const int code = error.code().value();
  finding.reason = code == EACCES || code == EPERM ? "permission" : "unsupported";
  finding.detail = error.what();
}

}  // namespace tw::sysfs
