#include "zero/base/process/fork_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

bool holds_in_child(const std::function<bool()>& claim) {
  const pid_t process = ::fork();
  if (process == 0) ::_exit(claim() ? 0 : 1);
  int status = -1;
  ::waitpid(process, &status, 0);
  return status == 0;
}

TEST(ForkMark, KnowsTheProcessThatMadeIt) {
  const ForkMark mark;
  EXPECT_FALSE(mark.in_child());
  mark.refuse_in_child(3);
  EXPECT_TRUE(holds_in_child([&] {
    const ForkMark own;
    return mark.in_child() && !own.in_child() && holds_in_child([&] { return mark.in_child() && own.in_child(); });
  }));
  EXPECT_FALSE(mark.in_child());
}

TEST(ForkMark, NamesTheParentsRank) {
  const ForkMark mark;
  EXPECT_TRUE(holds_in_child([&] {
    try {
      mark.refuse_in_child(3);
    } catch (const ConfigError& error) {
      return std::string(error.what()).find("this process was forked from rank 3") != std::string::npos;
    }
    return false;
  }));
}

TEST(ForkMark, KeepsObjectsForever) {
  struct Exits {
    ~Exits() { ::_exit(1); }
  };
  EXPECT_TRUE(holds_in_child([] {
    keep_forever(std::make_unique<Exits>());
    keep_forever(std::unique_ptr<Exits>());
    return true;
  }));
}

}  // namespace
}  // namespace zero
