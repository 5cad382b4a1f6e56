#include "zero/base/files/fatal_io.h"

#include <string>

#include <gtest/gtest.h>

namespace zero {
namespace {

void fail() {
  throw IoError("/nvme", "read", 5);
}

template <typename Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST(FatalIo, GivesWhatTheBodyReturns) {
  FatalIo io;
  EXPECT_EQ(io.run([] { return 7; }), 7);
  EXPECT_FALSE(io.failed());
}

TEST(FatalIo, LaterCallsRethrowTheError) {
  FatalIo io([](const IoError& error) { return error.within("rank 3"); });
  const std::string first = message_of([&] { io.run(fail); });
  EXPECT_TRUE(first.starts_with("rank 3: /nvme: ")) << first;
  bool ran = false;
  EXPECT_EQ(message_of([&] { io.run([&] { ran = true; }); }), first);
  io.run_noexcept([&] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_EQ(message_of([&] { io.rethrow(); }), first);
}

TEST(FatalIo, OneInsideAnotherSaysItOnce) {
  FatalIo io([](const IoError& error) { return error.within("rank 3"); });
  const std::string said = message_of([&] { io.run([&] { io.run(fail); }); });
  EXPECT_EQ(said.find("rank 3"), said.rfind("rank 3")) << said;
}

TEST(FatalIo, NextCallThrowsAHeldError) {
  FatalIo io;
  io.run_noexcept(fail);
  EXPECT_TRUE(io.failed());
  EXPECT_THROW(io.run([] {}), IoError);
}

TEST(FatalIo, AnyOtherErrorIsThrownOnce) {
  FatalIo io;
  EXPECT_THROW(io.run([] { throw Error("no file"); }), Error);
  io.run_noexcept([] { throw Error("first"); });
  io.run_noexcept([] { throw Error("second"); });
  try {
    io.run([] {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

}  // namespace
}  // namespace zero
