#include "zero/base/files/sha256.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::string hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

// The examples of FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

RC_GTEST_PROP(Sha256, IsIndependentOfPieces, (const std::vector<std::string>& pieces)) {
  Sha256 hash;
  std::string whole;
  for (const std::string& piece : pieces) {
    hash.update(std::as_bytes(std::span(piece)));
    whole += piece;
  }
  RC_ASSERT(hash.finish_hex() == hex(whole));
}

TEST(Sha256, GoesOnAfterAMove) {
  Sha256 first;
  first.update(std::as_bytes(std::span(std::string_view("a"))));
  Sha256 second = std::move(first);
  second.update(std::as_bytes(std::span(std::string_view("bc"))));
  EXPECT_EQ(second.finish_hex(), hex("abc"));
}

TEST(Sha256, IsUsedOnce) {
  Sha256 hash;
  hash.finish_hex();
  EXPECT_THROW(hash.finish_hex(), InternalError);
  EXPECT_THROW(hash.update({}), InternalError);
}

}  // namespace
}  // namespace zero
