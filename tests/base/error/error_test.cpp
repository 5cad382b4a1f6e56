#include "zero/base/error/error.h"

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(ConfigError, SaysKeyValueReasonAndRemedy) {
  const ConfigError error("zero.stage", "4", "must be 0 to 3", "use 3");
  EXPECT_STREQ(error.what(), "zero.stage = 4: must be 0 to 3\n  use 3");
  EXPECT_EQ(error.key(), "zero.stage");
}

TEST(ConfigError, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(ConfigError("train.data", "", "is missing", "").what(), "train.data: is missing");
}

TEST(CommError, NamesTheKnownRank) {
  const CommError known(3, "all_gather of unit h.2", "no answer for 60 s");
  EXPECT_STREQ(known.what(), "rank 3: all_gather of unit h.2: no answer for 60 s");
  EXPECT_EQ(known.rank(), 3);
  EXPECT_STREQ(CommError(-1, "rendezvous", "refused").what(), "rendezvous: refused");
}

TEST(IoError, SaysWhatTheSystemSaid) {
  const IoError error("/data/train.bin", "read", ENOENT, "at byte 4096");
  EXPECT_STREQ(error.what(), "/data/train.bin: read: No such file or directory: at byte 4096");
  EXPECT_EQ(error.error_number(), ENOENT);
}

TEST(IoError, NamesTheOwnerOfBytes) {
  const IoError error("/nvme0", "read of 4,096 bytes at 0", EIO, "", 3);
  EXPECT_EQ(error.unit(), 3);
  const IoError told = error.within("rank 1: unit h.2");
  EXPECT_STREQ(told.what(), "rank 1: unit h.2: /nvme0: read of 4,096 bytes at 0: Input/output error");
  EXPECT_EQ(told.error_number(), EIO);
  EXPECT_EQ(told.unit(), 3);
  EXPECT_EQ(IoError("/nvme0", "read", EIO).unit(), -1);
}

TEST(IoError, DamagedFileHasNoErrorNumber) {
  const IoError error("model.safetensors", "header", 0, "ends after 5 of 8 bytes");
  EXPECT_STREQ(error.what(), "model.safetensors: header: ends after 5 of 8 bytes");
  EXPECT_EQ(error.error_number(), 0);
}

TEST(Error, EachKindIsAnError) {
  EXPECT_THROW(throw ConfigError("k", "v", "r", "x"), Error);
  EXPECT_THROW(throw CommError(0, "o", "r"), Error);
  EXPECT_THROW(throw IoError("p", "o", 0), Error);
  EXPECT_THROW(throw InternalError("bug"), Error);
}

}  // namespace
}  // namespace zero
