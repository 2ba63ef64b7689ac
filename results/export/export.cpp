#include "results/export/export.hpp"

#include <algorithm>

namespace tw::results {
namespace {

constexpr ExportFormat formats[] = {
#define TRAINWATT_EXPORT(name, file, takes_cost, write) {name, file, takes_cost, write},
#include "results/export/exports.def"
};

}  // namespace

std::span<const ExportFormat> export_formats() { return formats; }

const ExportFormat* find_export_format(const std::string& name) {
  const auto found = std::ranges::find(formats, name, &ExportFormat::name);
  return found == std::end(formats) ? nullptr : &*found;
}

}  // namespace tw::results
