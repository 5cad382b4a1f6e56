#include "app/config/options/with_origins.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

const Origins kOrigins{{"train.dtype", "config.toml:7"}, {"zero.stage", "command line"}, {"run.dir", "ZERO_RUN_DIR"}};

std::string refusal_of(const char* key) {
  return message_of<ConfigError>(
      [&] { with_origins(kOrigins, [&]() -> int { throw ConfigError(key, "x", "is wrong", "use y"); }); });
}

TEST(WithOrigins, RefusalNamesItsKeysOrigin) {
  EXPECT_EQ(refusal_of("train.dtype"), "config.toml:7: train.dtype = x: is wrong\n  use y");
  EXPECT_EQ(refusal_of("run.dir"), "ZERO_RUN_DIR: run.dir = x: is wrong\n  use y");
}

TEST(WithOrigins, UnknownOriginChangesNothing) {
  for (const char* key : {"zero.stage", "train.steps", "RUN"})
    EXPECT_EQ(refusal_of(key), std::string(key) + " = x: is wrong\n  use y");
}

TEST(WithOrigins, WhatComesBackIsTheBodys) {
  EXPECT_EQ(with_origins(kOrigins, [] { return 7; }), 7);
}

}  // namespace
}  // namespace zero
