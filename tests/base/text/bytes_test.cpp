#include "zero/base/text/bytes.h"

#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(Bytes, BinaryAndDecimalSuffixes) {
  EXPECT_EQ(parse_bytes("512B", "k"), 512);
  EXPECT_EQ(parse_bytes("64KiB", "k"), 65536);
  EXPECT_EQ(parse_bytes("1.5GiB", "k"), 1610612736);
  EXPECT_EQ(parse_bytes("2TiB", "k"), std::int64_t{2} << 40);
  EXPECT_EQ(parse_bytes("64kB", "k"), 64000);
  EXPECT_EQ(parse_bytes("64KB", "k"), 64000);
  EXPECT_EQ(parse_bytes("1.5 GB", "k"), 1500000000);
}

TEST(Bytes, FractionsAreRoundedNotCut) {
  EXPECT_EQ(parse_bytes("1.001kB", "k"), 1001);  // 1.001 * 1000 is 1000.9999999999999 in double
  EXPECT_EQ(parse_duration("1.001s", "k").count(), 1001);
}

TEST(Bytes, RefusesWrongSizesByKey) {
  for (const char* text : {"", "64", "MiB", "64mib", "64 M iB", "-1MiB", "nanMiB", "infB", "1e400B", "9e18TiB", "0x10B",
                           "64MiB ", "1,5MiB"}) {
    try {
      parse_bytes(text, "zero.device_memory");
      ADD_FAILURE() << "accepted \"" << text << '"';
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.device_memory");
      EXPECT_NE(std::string(error.what()).find("64MiB"), std::string::npos)
          << "shows how to write one: " << error.what();
    }
  }
}

TEST(Bytes, DurationsHaveFourUnits) {
  EXPECT_EQ(parse_duration("500ms", "k").count(), 500);
  EXPECT_EQ(parse_duration("60s", "k").count(), 60000);
  EXPECT_EQ(parse_duration("1.5 min", "k").count(), 90000);
  EXPECT_EQ(parse_duration("2h", "k").count(), 7200000);
  EXPECT_THROW(parse_duration("2d", "k"), ConfigError);
}

TEST(Bytes, PrintsThreeDigitsInLargestUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1610612736), "1.50 GiB");
  EXPECT_EQ(format_bytes(15 << 20), "15.0 MiB");
  EXPECT_EQ(format_bytes(150 << 20), "150 MiB");
  EXPECT_EQ(format_bytes(-(std::int64_t{3} << 30)), "-3.00 GiB");
}

TEST(Bytes, RoundingNeverPrints1024) {
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes((std::int64_t{1} << 40) - 1), "1.00 TiB");
  EXPECT_EQ(format_bytes(10235), "10.0 KiB");  // 9.995 KiB
}

TEST(Bytes, TheExtremesOf64BitsArePrinted) {
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::max()), "8.00 EiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::min()), "-8.00 EiB");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Bytes, CountsAreGroupedByThreeDigits) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-999), "-999");
  EXPECT_EQ(format_count(-123456), "-123,456");
}

TEST(FormatCount, OneOfANounIsSingular) {
  EXPECT_EQ(format_count(1, "rank"), "1 rank");
  EXPECT_EQ(format_count(0, "rank"), "0 ranks");
  EXPECT_EQ(format_count(1234, "step"), "1,234 steps");
}

RC_GTEST_PROP(Bytes, ReadsBackWholeMebibytes, ()) {
  const auto mib = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 40);
  RC_ASSERT(parse_bytes(std::to_string(mib) + "MiB", "k") == mib << 20);
}

RC_GTEST_PROP(Bytes, ReadsBackWithinHalfAPercent, ()) {
  const auto bytes = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  const auto back = parse_bytes(format_bytes(bytes), "k");
  RC_ASSERT(std::abs(static_cast<double>(back - bytes)) <= 0.005 * static_cast<double>(bytes) + 0.5);
}

TEST(Seconds, ReadsTheFittingUnit) {
  EXPECT_EQ(format_seconds(0), "0 ms");
  EXPECT_EQ(format_seconds(0.00021), "0.2 ms");
  EXPECT_EQ(format_seconds(0.0065), "6.5 ms");
  EXPECT_EQ(format_seconds(0.0124), "12 ms");
  EXPECT_EQ(format_seconds(0.25), "250 ms");
  EXPECT_EQ(format_seconds(1.5), "1.50 s");
  EXPECT_EQ(format_seconds(42), "42.0 s");
  EXPECT_EQ(format_seconds(1183.165), "19.7 min");
  EXPECT_EQ(format_seconds(7200), "2.00 h");
  EXPECT_EQ(format_seconds(1e6), "278 h");
}

TEST(Seconds, UnitChangesBeforeRoundingUp) {
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(59.97), "1.00 min");
  EXPECT_EQ(format_seconds(3599), "1.00 h");
}

}  // namespace
}  // namespace zero
