#include "app/launch/machines/machine_messages.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/environment_variable.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using Says = MachineMessage::Kind;

TEST(MachineMessage, IsReadAsItWasWritten) {
  const MachineMessage said{.kind = Says::kAgain,
                            .generation = 3,
                            .machine = 1,
                            .rank = 7,
                            .ms = 2000,
                            .number = 2,
                            .used = 4,
                            .left = 5,
                            .status = 2,
                            .text = "two lines\nof text\n"};
  const std::optional<MachineMessage> read = to_machine_message(to_message(said));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_bytes(to_message(*read)), to_bytes(to_message(said)));
  EXPECT_EQ(read->text, said.text);
  const std::optional<MachineMessage> least = to_machine_message(to_message({}));
  ASSERT_TRUE(least);
  EXPECT_EQ(least->status, MachineMessage::kAllAgain);
  EXPECT_EQ(least->text, "");
}

// This includes messages of another version.
TEST(MachineMessage, RefusesForeignMessages) {
  const auto text = [](const std::string& key, const std::string& value) {
    return to_machine_message(
        {.operation = meeting::Operation::kSet, .key = key, .value = {value.begin(), value.end()}});
  };
  EXPECT_TRUE(text("launcher 2", "0 0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(text("launcher 1", "0 0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(text("launcher 2", "99 0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(text("launcher 2", "-1 0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(text("launcher 2", "0 0 0 0 0 0 0 0\n"));
  EXPECT_FALSE(text("launcher 2", "0 0 0 0 0 0 0 0 0"));
  EXPECT_FALSE(text("launcher 2", ""));
  meeting::Message other = to_message({});
  other.operation = meeting::Operation::kGet;
  EXPECT_FALSE(to_machine_message(other));
}

TEST(MachineMessage, CountsRestarts) {
  EXPECT_EQ(starting_alone({.ms = 0, .used = 1, .left = 2}), "restarting only this rank (1 of 3, 2 left)");
  EXPECT_EQ(starting_alone({.ms = 4000, .used = 3, .left = 0}), "restarting only this rank in 4 s (3 of 3, 0 left)");
}

// The launchers use the port after the master's.
TEST(MachineMeeting, NeedsTokenAndFreePort) {
  LaunchOptions options;
  options.nodes = 2;
  options.master_port = 29500;
  const EnvironmentVariable token("ZERO_TOKEN", "a token of the tests");
  EXPECT_EQ(machine_meeting(options, "run").port, 29501);
  options.master_port = 65535;
  EXPECT_NE(message_of<ConfigError>([&] { machine_meeting(options, "run"); }).find("--master-port = 65535"),
            std::string::npos);
  options.master_port = 29500;
  const EnvironmentVariable none("ZERO_TOKEN", "");
  EXPECT_NE(message_of<ConfigError>([&] { machine_meeting(options, "run"); }).find("ZERO_TOKEN"), std::string::npos);
}

}  // namespace
}  // namespace zero
