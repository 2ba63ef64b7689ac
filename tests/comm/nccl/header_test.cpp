// Compiled only where nccl.h is there: our prototypes against it.
#include <gtest/gtest.h>
#include <nccl.h>

#include "comm/nccl/library.hpp"

namespace tw {

using namespace comm;

namespace {

/// As many parameters, each as large.
template <class... Ours, class Result, class... Theirs>
constexpr bool alike(int (*)(Ours...), Result (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return sizeof(Result) == sizeof(int) && ((sizeof(Ours) == sizeof(Theirs)) && ... && true);
  }
}

#define TW_NCCL(name, parameters) static_assert(alike(decltype(nccl::Library::name){}, decltype(&::name){}), #name);
#include "comm/nccl/functions.def"

TEST(Nccl, ConstantsAreThoseOfItsHeader) {
  EXPECT_EQ(static_cast<int>(ncclSuccess), static_cast<int>(nccl::success));
  EXPECT_EQ(static_cast<int>(ncclSystemError), static_cast<int>(nccl::system_error));
  EXPECT_EQ(static_cast<int>(ncclRemoteError), static_cast<int>(nccl::remote_error));
  EXPECT_EQ(static_cast<int>(ncclInProgress), static_cast<int>(nccl::in_progress));
  EXPECT_EQ(static_cast<int>(ncclFloat32), static_cast<int>(nccl::float32));
  EXPECT_EQ(static_cast<int>(ncclBfloat16), static_cast<int>(nccl::bfloat16));
  EXPECT_EQ(static_cast<int>(ncclSum), static_cast<int>(nccl::sum));
  EXPECT_EQ(static_cast<int>(ncclMax), static_cast<int>(nccl::maximum));
  EXPECT_EQ(sizeof(ncclUniqueId), sizeof(nccl::UniqueId));
}

}  // namespace
}  // namespace tw
