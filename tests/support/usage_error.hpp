// That an operator refuses an argument.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "models/compute/error.hpp"

namespace tw::test {

template <class Call>
void expect_usage_error(Call&& call, const char* argument) {
  try {
    call();
    ADD_FAILURE() << argument << ": nothing was thrown";
  } catch (const models::Error& error) {
    EXPECT_EQ(error.failure(), models::Failure::usage);
    EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << error.what();
  }
}

}  // namespace tw::test
