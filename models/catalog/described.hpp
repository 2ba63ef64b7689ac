// Networks that a user describes as a list of layers in a file, instead of choosing one of the catalog.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "models/catalog/description.hpp"

namespace tw::models {

/// What is wrong with a file of layers. what() is "/layers/3/kernel: …"; an empty pointer is the whole file.
class LayersFault : public std::invalid_argument {
 public:
  LayersFault(std::string code, std::string pointer, const std::string& text)
      : std::invalid_argument((pointer.empty() ? "" : pointer + ": ") + text),
        code_(std::move(code)),
        pointer_(std::move(pointer)) {}
  /// Stable: "layers-shape". bench/README.md lists the codes.
  const std::string& code() const { return code_; }
  /// JSON pointer of what is wrong.
  const std::string& pointer() const { return pointer_; }

 private:
  std::string code_, pointer_;
};

/// The names in --model that need a file: families without networks of their own ("custom").
std::vector<std::string> described_models();
bool is_described(const std::string& model);
/// The network of such a name that the JSON text describes. Its name is "custom-NAME", with the name in the file.
/// Throws LayersFault; std::invalid_argument for a name that is_described() denies.
NetworkDescription described_network(const std::string& model, const std::string& layers_json);

}  // namespace tw::models
