#include "zero/comm/rendezvous/tcp_store.h"

#include <cstdlib>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/comm/rendezvous/fake_tcp_store.h"
#include "tests/support/command_end.h"
#include "tests/support/expect_contains.h"
#include "tests/support/torchrun_path.h"
#include "tests/support/unclaimed_port.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return "no error";
  } catch (const CommError& error) {
    return error.what();
  }
}

TEST(TcpStore, WhatOneSetsAnotherGets) {
  FakeTcpStore server;
  TcpStore a("127.0.0.1", server.port(), seconds(10)), b("localhost", server.port(), seconds(10));
  a.set("zero/none/rank 0", "10.0.0.1 41234");
  EXPECT_EQ(b.get("zero/none/rank 0"), "10.0.0.1 41234");
  b.set("zero/none/rank 0", "another");
  EXPECT_EQ(b.get("zero/none/rank 0"), "another");
}

TEST(TcpStore, SpeaksAsPyTorchsOwnClient) {
  FakeTcpStore server;
  TcpStore store("127.0.0.1", server.port(), seconds(10));
  store.set("k", "v");
  EXPECT_EQ(store.get("k"), "v");
  EXPECT_EQ(server.value("/k"), "v");
  ASSERT_TRUE(server.wait_for("get /k"));
  EXPECT_EQ(server.requests(), (std::vector<std::string>{"validate", "set /k", "wait /k", "get /k"}));
}

TEST(TcpStore, AGetWaitsForTheSet) {
  FakeTcpStore server;
  std::string got;
  {
    const std::jthread reader([&] { got = TcpStore("127.0.0.1", server.port(), seconds(60)).get("late"); });
    ASSERT_TRUE(server.wait_for("wait /late"));
    server.put("/late", "came");
  }
  EXPECT_EQ(got, "came");
}

TEST(TcpStore, TakesAnyBytesUpToMebibyte) {
  FakeTcpStore server;
  TcpStore store("127.0.0.1", server.port(), seconds(60));
  for (const std::string& value :
       {std::string(), std::string(1, '\0'), std::string("\0\xff\n", 3), std::string(1 << 20, 'x')}) {
    store.set("k", value);
    EXPECT_TRUE(store.get("k") == value) << value.size();
  }
  EXPECT_CONTAINS(error_of([&] { store.set("k", std::string((1 << 20) + 1, 'x')); }), "more than 1 MiB");
  EXPECT_CONTAINS(error_of([&] { store.set(std::string(4097, 'k'), ""); }), "a key of more than 4 KiB");
  EXPECT_CONTAINS(error_of([&] { store.get(std::string(4097, 'k')); }), "a key of more than 4 KiB");
}

TEST(TcpStore, UnsetKeyIsNamedAtTimeout) {
  FakeTcpStore server;
  TcpStore store("127.0.0.1", server.port(), milliseconds(50));
  EXPECT_EQ(error_of([&] { store.get("zero/none/rank 0"); }),
            fmt::format("store at 127.0.0.1:{}: no answer to get of 'zero/none/rank 0' within 50 ms", server.port()));
}

TEST(TcpStore, AbsentServerErrorHasAddress) {
  const int port = unclaimed_port();
  EXPECT_EQ(error_of([&] { TcpStore("127.0.0.1", port, seconds(10)); }),
            fmt::format("store at 127.0.0.1:{}: Connection refused", port));
  EXPECT_CONTAINS(error_of([] { TcpStore("no.such.host.invalid", 1, seconds(10)); }),
                  "store at no.such.host.invalid:1");
}

TEST(TcpStore, HangingUpIsAnError) {
  OneAnswer server("", true);
  EXPECT_CONTAINS(error_of([&] { TcpStore("127.0.0.1", server.port(), seconds(10)).get("k"); }),
                  "closed the connection");
}

// The answer ends within a value's length or within the value.
TEST(TcpStore, HalfAnAnswerIsAnError) {
  const std::uint64_t four = 4;
  const std::string length(reinterpret_cast<const char*>(&four), sizeof four);
  for (const std::string& answer : {std::string(1, '\0'), '\0' + length.substr(0, 5), '\0' + length + "abc"}) {
    OneAnswer server(answer, true);
    EXPECT_CONTAINS(error_of([&] { TcpStore("127.0.0.1", server.port(), seconds(10)).get("k"); }),
                    "closed the connection");
    OneAnswer silent(answer, false);
    EXPECT_CONTAINS(error_of([&] { TcpStore("127.0.0.1", silent.port(), milliseconds(50)).get("k"); }),
                    "no answer to get of 'k' within 50 ms");
  }
}

TEST(TcpStore, NonsenseIsNotReadOn) {
  OneAnswer http("HTTP/1.1 400 Bad Request\r\n\r\n", false);
  EXPECT_CONTAINS(error_of([&] { TcpStore("127.0.0.1", http.port(), seconds(10)).get("k"); }),
                  "answers wait with 72: it is not a TCPStore");
  OneAnswer huge('\0' + std::string(8, '\x7f'), false);
  EXPECT_CONTAINS(error_of([&] { TcpStore("127.0.0.1", huge.port(), seconds(10)).get("k"); }),
                  "answers get with 9187201950435737471 bytes: it is not a TCPStore");
}

TEST(TcpStore, KnowsItsOwnAddress) {
  FakeTcpStore server;
  EXPECT_EQ(TcpStore("127.0.0.1", server.port(), seconds(10)).local_address(), "127.0.0.1");
}

// A rank that the next test starts.
TEST(TcpStoreRank, MeetsTheOthersAtTorchrunsStore) {
  if (std::getenv("ZERO_TCP_STORE_RANK") == nullptr) GTEST_SKIP() << "runs under TcpStore.WorksWithTorchrunsOwn";
  const int rank = std::atoi(std::getenv("RANK"));
  TcpStore store(std::getenv("MASTER_ADDR"), std::atoi(std::getenv("MASTER_PORT")), seconds(60));
  for (int round = 0; round < 3; ++round) {
    store.set(fmt::format("zero/test/{}/{}", round, rank), fmt::format("from {}", rank) + std::string(100000, '.'));
    const int other = 1 - rank;
    EXPECT_EQ(store.get(fmt::format("zero/test/{}/{}", round, other)),
              fmt::format("from {}", other) + std::string(100000, '.'));
  }
  TcpStore impatient(std::getenv("MASTER_ADDR"), std::atoi(std::getenv("MASTER_PORT")), milliseconds(50));
  EXPECT_CONTAINS(error_of([&] { impatient.get("zero/test/nobody"); }), "no answer to get of 'zero/test/nobody'");
}

TEST(TcpStore, WorksWithTorchrunsOwn) {
  if (torchrun_path().empty()) GTEST_SKIP() << "no torchrun in PATH or ZERO_TORCHRUN";
  const std::string command = fmt::format(
      "ZERO_TCP_STORE_RANK=1 OMP_NUM_THREADS=1 timeout 200 '{}' --standalone --no-python --nproc-per-node 2 "
      "/proc/{}/exe --gtest_brief=1 --gtest_filter='TcpStoreRank.*' 2>&1",
      torchrun_path(), getpid());
  const CommandEnd end = end_of_command(command);
  EXPECT_EQ(end.status, 0) << end.text;
  EXPECT_NE(end.text.find("[  PASSED  ] 1 test"), std::string::npos) << end.text;
}

}  // namespace
}  // namespace zero
