#include "models/catalog/families.hpp"

namespace tw::models {

const std::vector<std::pair<std::string, Family>>& families() {
#define TW_FAMILY(name) {#name, family::name::describe()},
  static const std::vector<std::pair<std::string, Family>> all = {
#include TW_FAMILY_LIST
  };
#undef TW_FAMILY
  return all;
}

}  // namespace tw::models
