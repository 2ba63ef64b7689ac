#include "results/cost/plausible_prices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace tw::results {
namespace {

/// Units of a currency that a euro was worth in 2025, to a factor of two: the usual ranges are far wider.
constexpr std::pair<const char*, double> per_euro[] = {
    {"EUR", 1},   {"USD", 1},   {"GBP", 1},   {"CHF", 1},   {"€", 1},     {"$", 1},     {"£", 1},     {"AUD", 2},
    {"CAD", 2},   {"NZD", 2},   {"SGD", 1.5}, {"PLN", 4},   {"ILS", 4},   {"SAR", 4},   {"AED", 4},   {"BRL", 6},
    {"CNY", 8},   {"DKK", 7.5}, {"HKD", 9},   {"SEK", 11},  {"NOK", 12},  {"MXN", 20},  {"ZAR", 20},  {"CZK", 25},
    {"TWD", 35},  {"TRY", 45},  {"INR", 95},  {"JPY", 160}, {"HUF", 400}, {"KRW", 1600}};

struct Usual {
  const char* key;
  double low, high;  ///< money in euros
  bool is_money;
  const char* per;
};
constexpr Usual usual[] = {
    {"rent_per_month", 5, 5e5, true, "per node and month"},
    {"capex", 200, 5e6, true, "per node"},
    {"maintenance_per_year", 1, 1e6, true, "per node and year"},
    {"fixed_opex_per_year", 1, 1e6, true, "per node and year"},
    {"network_storage_capex", 5, 5e6, true, "per node"},
    {"electricity_per_kwh", 0.01, 2, true, "per kWh"},
    {"life_years", 1, 10, false, "years"},
    {"network_storage_power_w", 0.1, 2e4, false, "W per node"},
    {"utilisation", 0.05, 1, false, "of the hours paid for"},
    {"pue", 1, 3, false, ""},
    {"carbon_g_per_kwh", 1, 1500, false, "g CO2e/kWh"},
};
constexpr double beyond_all = 100;  // times the highest usual amount

/// "500000000", not "5e+08".
std::string plain(double value) { return value >= 1e4 ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value); }

double value_of(const PriceRow& row, const std::string& key) {
  return key == "rent_per_month"            ? row.rent_per_month.value_or(0)
         : key == "capex"                   ? row.capex.value_or(0)
         : key == "maintenance_per_year"    ? row.maintenance_per_year
         : key == "fixed_opex_per_year"     ? row.fixed_opex_per_year
         : key == "network_storage_capex"   ? row.network_storage_capex
         : key == "electricity_per_kwh"     ? row.electricity_per_kwh
         : key == "life_years"              ? row.life_years.value_or(0)
         : key == "network_storage_power_w" ? row.network_storage_power_w
         : key == "utilisation"             ? row.utilisation
         : key == "pue"                     ? row.pue
                                            : row.carbon_g_per_kwh.value_or(0);
}

/// How many units of the row's currency one unit of the range is; nullopt: nobody knows.
std::optional<double> unit_of(const Usual& one, const std::string& currency) {
  if (!one.is_money) return 1;
  const auto found = std::ranges::find(per_euro, currency, [](const auto& rate) { return std::string(rate.first); });
  return found == std::end(per_euro) ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::string place_of(const PriceRow& row, const std::string& key) {
  return (row.for_all.contains(key) ? "/" : "/systems/" + row.name + "/") + key;
}

std::vector<PriceDoubt> implausible_prices(const PriceRow& row, const std::string& currency) {
  std::vector<PriceDoubt> doubts;
  for (const Usual& one : usual) {
    const double value = value_of(row, one.key);
    const std::optional<double> unit = unit_of(one, currency);
    if (!unit || value == 0 || row.not_given.contains(one.key)) continue;
    if (value >= one.low * *unit && value <= one.high * *unit) continue;
    const std::string of = one.is_money ? fmt::format(" {} {}", currency, one.per)
                                        : (*one.per == '\0' ? "" : " ") + std::string(one.per);
    doubts.push_back(
        {one.key, fmt::format("{}{} is implausible (usual: {} to {}): check the unit and the decimal point",
                              plain(value), of, plain(one.low * *unit), plain(one.high * *unit))});
  }
  return doubts;
}

std::string impossible_price(const PriceRow& row, const std::string& currency) {
  for (const Usual& one : usual) {
    const std::optional<double> unit = unit_of(one, currency);
    if (!one.is_money || !unit) continue;
    const double value = value_of(row, one.key), most = beyond_all * one.high * *unit;
    if (value >= most)
      return fmt::format("{}: must be below {} {} {}, is {}", place_of(row, one.key), plain(most), currency, one.per,
                         plain(value));
  }
  return {};
}

}  // namespace tw::results
