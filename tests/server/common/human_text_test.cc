#include "server/common/human_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace kinora {
namespace {

TEST(HumanText, SecondsHaveTheUnitsThatPeopleUse) {
  EXPECT_EQ(HumanSeconds(0), "0.00 s");
  EXPECT_EQ(HumanSeconds(0.04), "0.04 s");
  EXPECT_EQ(HumanSeconds(0.096), "0.1 s");
  EXPECT_EQ(HumanSeconds(2.94), "2.9 s");
  EXPECT_EQ(HumanSeconds(9.96), "10 s");
  EXPECT_EQ(HumanSeconds(42.4), "42 s");
  EXPECT_EQ(HumanSeconds(59.6), "1 min 00 s");
  EXPECT_EQ(HumanSeconds(245), "4 min 05 s");
  EXPECT_EQ(HumanSeconds(3599.7), "1 h 00 min");
  EXPECT_EQ(HumanSeconds(3840), "1 h 04 min");
  EXPECT_EQ(HumanSeconds(86399), "1 d 00 h");
  EXPECT_EQ(HumanSeconds(2 * 86400 + 3 * 3600), "2 d 03 h");
  EXPECT_EQ(HumanSeconds(66 * 86400), "66 d");
}

TEST(HumanText, SecondsThatAreNoTimeAreUnknown) {
  EXPECT_EQ(HumanSeconds(-1), "unknown");
  EXPECT_EQ(HumanSeconds(std::numeric_limits<double>::quiet_NaN()), "unknown");
  EXPECT_EQ(HumanSeconds(std::numeric_limits<double>::infinity()), "11574074074 d");  // no overflow
}

TEST(HumanText, AnAgeIsRoundedDownToOneUnit) {
  EXPECT_EQ(HumanAge(-3), "0 s");
  EXPECT_EQ(HumanAge(59.9), "59 s");
  EXPECT_EQ(HumanAge(119), "1 min");
  EXPECT_EQ(HumanAge(7199), "1 h");
  EXPECT_EQ(HumanAge(66 * 86400 + 5), "66 d");
}

TEST(HumanText, TheTimeLeftIsRoundedToTheNearestUnit) {
  EXPECT_EQ(HumanTimeLeft(-3), "0 s");
  EXPECT_EQ(HumanTimeLeft(41.6), "42 s");
  EXPECT_EQ(HumanTimeLeft(59.6), "1 min");
  EXPECT_EQ(HumanTimeLeft(89), "1 min");
  EXPECT_EQ(HumanTimeLeft(91), "2 min");
  EXPECT_EQ(HumanTimeLeft(3599), "1 h");
  EXPECT_EQ(HumanTimeLeft(86399), "1 d");
  EXPECT_EQ(HumanTimeLeft(7 * 86400 - 2), "7 d");
  EXPECT_EQ(HumanTimeLeft(6.4 * 86400), "6 d");
  EXPECT_EQ(HumanTimeLeft(std::numeric_limits<double>::infinity()), "11574074074 d");  // no overflow
}

TEST(HumanText, BytesAreBinaryUnits) {
  EXPECT_EQ(HumanBytes(17), "17 bytes");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{45} << 20), "45.0 MiB");
  EXPECT_EQ(HumanBytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(HumanBytesLike(int64_t{512} << 20, int64_t{2} << 30), "0.50 GiB");
}

}  // namespace
}  // namespace kinora
