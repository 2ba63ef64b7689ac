// A file that stays open: what it shows now, and what becomes of it when the device goes and comes back.
#include <gtest/gtest.h>

#include <filesystem>
#include <system_error>

#include "power/meter/sysfs.hpp"
#include "tests/power/fake_tree.hpp"

namespace tw {

using namespace power;

namespace {

std::size_t open_descriptors(const std::filesystem::path& file) {
  std::size_t number = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    number += std::filesystem::read_symlink(entry.path(), none) == file;
  return number;
}

TEST(NumberFile, StaysOpenAndShowsWhatIsThereNow) {
  FakeTree tree;
  tree.write("energy", "1000");
  sysfs::NumberFile file(tree.at("energy"));
  EXPECT_EQ(open_descriptors(tree.at("energy")), 0u) << "not before it is read";
  for (const char* text : {"1000", "18446744073709551615", "7", "123 J 1700000000 us"}) {
    tree.write("energy", text);
    EXPECT_EQ(file.read_integer(), std::stoull(text));
    EXPECT_EQ(open_descriptors(tree.at("energy")), 1u);
  }
  tree.write("energy", "-2.5");
  EXPECT_EQ(file.read_number(), -2.5);
  EXPECT_EQ(file.number_or_none(), -2.5);
  sysfs::NumberFile moved(std::move(file));
  EXPECT_EQ(moved.read_number(), -2.5);
  EXPECT_EQ(open_descriptors(tree.at("energy")), 1u);
  moved.close();
  EXPECT_EQ(open_descriptors(tree.at("energy")), 0u);
  EXPECT_EQ(moved.read_number(), -2.5);
}

TEST(NumberFile, FindsADeviceThatCameBack) {
  FakeTree tree;
  tree.write("hwmon0/energy", "5");
  sysfs::NumberFile file(tree.at("hwmon0/energy"));
  EXPECT_EQ(file.read_integer(), 5u);
  tree.remove("hwmon0");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(file.number_or_none(), std::nullopt);
    try {
      file.read_integer();
      FAIL() << "read what is not there";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), ENOENT);
      EXPECT_NE(std::string(error.what()).find(tree.at("hwmon0/energy").string()), std::string::npos) << error.what();
    }
  }
  tree.write("hwmon0/energy", "6");
  EXPECT_EQ(file.read_integer(), 6u);

  tree.remove("hwmon0");  // and back before anybody looked
  tree.write("hwmon0/energy", "7");
  EXPECT_EQ(file.read_integer(), 7u);
}

TEST(NumberFile, SaysWhatIsNoNumber) {
  FakeTree tree;
  tree.write("power", "n/a");
  sysfs::NumberFile file(tree.at("power"));
  for (const char* text : {"n/a", "12x", "- 3"}) {
    tree.write("power", text);
    EXPECT_EQ(file.number_or_none(), std::nullopt) << text;
    try {
      file.read_number();
      FAIL() << text;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
      EXPECT_NE(std::string(error.what()).find("holds \"" + std::string(text) + "\""), std::string::npos)
          << error.what();
    }
  }
  tree.write("power", "-3");
  EXPECT_THROW(file.read_integer(), std::system_error) << "a sign";
  EXPECT_EQ(file.read_number(), -3);
}

}  // namespace
}  // namespace tw
