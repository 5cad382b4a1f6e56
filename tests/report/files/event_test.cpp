#include "app/report/files/event.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/files/crc32c.h"

namespace zero {
namespace {

using namespace std::string_literals;

// 1.5 is 3FF8000000000000, 2.5F is 40200000.
const std::string kTime = "\x09\0\0\0\0\0\0\xF8\x3F"s;

TEST(Event, ScalarsMatchMessageBytes) {
  const std::array values{Scalar{"loss", 2.5}, Scalar{"lr", 0}};
  EXPECT_EQ(scalars_event({.time = 1.5, .step = 300}, values), kTime + "\x10\xAC\x02"s  // step: 300, 7 bits per byte
                                                                   + "\x2A\x18"s        // summary, 24 bytes
                                                                   + "\x0A\x0B"s        // value
                                                                   + "\x0A\x04loss"s + "\x15\0\0\x20\x40"s +
                                                                   "\x0A\x09"s + "\x0A\x02lr"s + "\x15\0\0\0\0"s);
}

TEST(Event, AFileBeginsWithItsVersion) {
  EXPECT_EQ(version_event(1.5), kTime + "\x1A\x0D" + "brain.Event:2");
}

TEST(Event, ASessionStartsAtAStep) {
  EXPECT_EQ(start_event({.time = 1.5, .step = 41}), kTime + "\x10\x29" + "\x3A\x02\x08\x01");
}

// A tensor with one string, for TensorBoard's text plug-in.
TEST(Event, TextIsStringTensor) {
  const std::string tensor = "\x08\x07\x12\0"s + "\x42\x05" + "a = 1";  // a string, no dimensions, the text
  const std::string metadata = std::string("\x0A\x06") + "\x0A\x04" + "text";
  const std::string value = std::string("\x0A\x01") + "c" + "\x42\x0B" + tensor + "\x4A\x08" + metadata;
  EXPECT_EQ(text_event({.time = 1.5, .step = 1}, "c", "a = 1"), kTime + "\x10\x01" + "\x2A\x1C" + "\x0A\x1A" + value);
}

// Length and data have a checksum each.
TEST(Event, RecordHasLengthAndChecksums) {
  EXPECT_EQ(crc32c("abc"), 0x364B3FB7U);
  // 0x364B3FB7 rotated right by 15 bits is 0x7F6E6C96; 0xA282EAD8 is added.
  EXPECT_EQ(masked_crc32c("abc"), 0x21F1576EU);
  const std::string record = framed("abc");
  ASSERT_EQ(record.size(), 19U);
  EXPECT_EQ(record.substr(0, 8), "\x03\0\0\0\0\0\0\0"s);
  EXPECT_EQ(record.substr(12), "abc\x6E\x57\xF1\x21"s);
}

}  // namespace
}  // namespace zero
