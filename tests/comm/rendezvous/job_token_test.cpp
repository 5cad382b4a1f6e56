#include "zero/comm/rendezvous/job_token.h"

#include <map>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

const RankEnvironment kTwoHosts{.world = 4, .local_world = 2}, kOneHost{.world = 4, .local_world = 4};

GetEnvironment from(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string token_of(const RankEnvironment& ranks, const std::map<std::string, std::string>& variables) {
  const GetEnvironment environment = from(variables);
  return rendezvous_token(ranks, environment);
}

TEST(JobToken, SeveralHostsNeedTokenWithRemedy) {
  const auto message = message_of<ConfigError>([] { token_of(kTwoHosts, {}); });
  EXPECT_TRUE(says(message, "ZERO_TOKEN: is not set"));
  EXPECT_TRUE(says(message, "export ZERO_TOKEN=$(openssl rand -hex 32)"));
  EXPECT_THROW(token_of(kTwoHosts, {{"ZERO_TOKEN", ""}, {"ZERO_TOKEN_FILE", ""}}), ConfigError);
}

TEST(JobToken, OneHostOrTorchrunNeedsNone) {
  EXPECT_EQ(token_of(kOneHost, {}), "");
  RankEnvironment torchrun = kTwoHosts;
  torchrun.agent_run = "none";
  EXPECT_EQ(token_of(torchrun, {}), "");
}

TEST(JobToken, WhereItIsGivenItCounts) {
  const std::string token = "0123456789abcdef";
  for (const RankEnvironment& ranks : {kOneHost, kTwoHosts}) {
    EXPECT_EQ(token_of(ranks, {{"ZERO_TOKEN", token}}), token);
    EXPECT_EQ(token_of(ranks, {{"ZERO_TOKEN", token + "\n"}}), token);
  }
}

TEST(JobToken, ReadsOwnersPrivateFileOnly) {
  const TemporaryFolder folder;
  const auto path = folder.write("token", "0123456789abcdef0123\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(token_of(kTwoHosts, {{"ZERO_TOKEN_FILE", path}}), "0123456789abcdef0123");
  for (const mode_t mode : {0640u, 0604u, 0660u, 0644u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto message = message_of<ConfigError>([&] { token_of(kTwoHosts, {{"ZERO_TOKEN_FILE", path}}); });
    EXPECT_TRUE(says(message, "other users may use it"));
    EXPECT_TRUE(says(message, "chmod 600"));
    EXPECT_FALSE(says(message, "0123456789abcdef")) << "the token is told";
  }
}

TEST(JobToken, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"nothing", "pipe", "."})
    EXPECT_THROW(token_of(kOneHost, {{"ZERO_TOKEN_FILE", folder / name}}), ConfigError) << name;
}

TEST(JobToken, RefusesWeakTokenWithoutPrintingIt) {
  for (const std::string& token : {std::string("secret"), std::string(15, 'x'), std::string(5000, 'x'),
                                   std::string("two lines of text\nare not a token")}) {
    const auto message = message_of<ConfigError>([&] { token_of(kOneHost, {{"ZERO_TOKEN", token}}); });
    EXPECT_FALSE(says(message, token));
    EXPECT_TRUE(says(message, "ZERO_TOKEN = (not shown)"));
  }
}

}  // namespace
}  // namespace zero
