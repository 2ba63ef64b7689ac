// Where cuBLASLt, cuDNN and NCCL are looked for, and what is said where they are not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "models/compute/vendor_library.hpp"

namespace tw {

using namespace models;

namespace {

TEST(VendorLibrary, WithoutItWhereWasLookedIsSaid) {
  std::string why;
  EXPECT_EQ(open_vendor_library("libmade-up.so.3", "Made-Up 3", &why), nullptr);
  for (const char* part : {"libmade-up.so.3: cannot open", "; /usr/local/cuda/lib64/libmade-up.so.3: cannot open",
                           "; install Made-Up 3, or put its folder into LD_LIBRARY_PATH"}) {
    EXPECT_NE(why.find(part), std::string::npos) << why;
  }
}

TEST(VendorLibrary, OneThatTheLoaderIsNotToldOfIsFound) {
  Dl_info libc{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&std::abort), &libc), 0);
  const std::filesystem::path folder = testing::TempDir() + "trainwatt-vendor-library-test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(std::filesystem::canonical(libc.dli_fname), folder / "libmade-up.so.3");
  std::string why;
  void* const handle = open_vendor_library("libmade-up.so.3", "Made-Up 3", &why, folder.string());
  std::filesystem::remove_all(folder);
  ASSERT_NE(handle, nullptr) << why;
  EXPECT_EQ(why, "");
  EXPECT_NE(dlsym(handle, "abort"), nullptr);
  dlclose(handle);
}

}  // namespace
}  // namespace tw
