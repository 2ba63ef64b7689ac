// What split layers exchange inside a step (models/compute/exchange.hpp), by a communicator.
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "models/compute/exchange.hpp"

namespace tw::comm {

/// The communicator must outlive it.
std::unique_ptr<models::Exchange> make_exchange(Communicator& communicator);

}  // namespace tw::comm
