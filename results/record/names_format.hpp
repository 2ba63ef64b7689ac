// A named value in fmt's "{}".
#pragma once

#include <fmt/core.h>

#include "results/record/names.hpp"

template <tw::results::Named E>
struct fmt::formatter<E> : fmt::formatter<fmt::string_view> {
  auto format(E value, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(tw::results::to_string(value), context);
  }
};
