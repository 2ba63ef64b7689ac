// The file of --layers-file: a network as a list of layers.
#pragma once

#include <string>

#include "models/catalog/description.hpp"

namespace tw::bench {

/// The content of a file of layers as JSON with sorted keys and without spaces. Throws UsageError, which names the file
/// and the config that names it (empty: the command line), if it describes no network (layers-…) or cannot be read.
std::string read_layers_file(const std::string& path, const std::string& config = "");

/// The network `model` that the content of a file of layers describes. Its name ends with the beginning of the
/// content's SHA-256, so that two networks have two names: "custom-unet-3fa9c1d2e0b1". Throws UsageError with the
/// reader's code (layers-…).
models::NetworkDescription network_of_layers(const std::string& model, const std::string& layers);

/// Whether a record's name of a network is one that network_of_layers() gives.
bool is_name_of_layers(const std::string& name);
/// The network of a record with such a name, of the plan's file of layers. Throws std::invalid_argument where the file
/// is another one, or none.
models::NetworkDescription recorded_network(const std::string& name, const std::string& layers);

}  // namespace tw::bench
