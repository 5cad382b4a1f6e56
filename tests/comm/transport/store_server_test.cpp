#include "plugins/gloo/store_server.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/files/file.h"

namespace zero_gloo {
namespace {

using std::chrono::milliseconds;
using zero::FileDescriptor;

constexpr milliseconds kLong{30000};  // ends a hang, not a slow machine

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

FileDescriptor connect_to(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

const std::string kSecret = rendezvous_secret("a token of this job", "run");

StoreServerOptions options_of(int num_clients, milliseconds timeout = kLong) {
  return {.one_host = true, .name = "run", .secret = kSecret, .num_clients = num_clients, .timeout = timeout};
}

// Lines that the server's thread prints. Read them after the server has ended.
struct Lines {
  std::vector<std::string> lines;
  StoreServerOptions keep(StoreServerOptions options) {
    options.warn = [this](const std::string& line) { lines.push_back(line); };
    return options;
  }
};

// A rank that the server has accepted.
FileDescriptor enter(int port) {
  FileDescriptor fd = connect_to(port);
  EXPECT_EQ(greet_server(fd.get(), "run", kSecret, kLong).end, Greeting::End::kIn);
  return fd;
}

// Enters a server that drops connections after a handshake of one second. On a busy machine the rank tries again.
FileDescriptor enter_at_last(int port) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    FileDescriptor fd = connect_to(port);
    if (greet_server(fd.get(), "run", kSecret, kLong).end == Greeting::End::kIn) return fd;
    if (std::chrono::steady_clock::now() - begin > kLong) throw std::runtime_error("nobody is let in");
  }
}

Greeting::End try_to_enter(int port, const std::string& name, const std::string& secret) {
  const FileDescriptor fd = connect_to(port);
  return greet_server(fd.get(), name, secret, kLong).end;
}

std::vector<char> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

// An accepted rank can set and get values.
void expect_served(const FileDescriptor& fd, const std::string& key) {
  EXPECT_TRUE(write_message(fd.get(), {.operation = Operation::kSet, .key = key, .value = bytes_of("address")}));
  EXPECT_TRUE(write_message(fd.get(), {.operation = Operation::kGet, .key = key}));
  Message answer;
  EXPECT_EQ(read_message(fd.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.value, bytes_of("address"));
}

bool hung_up(const FileDescriptor& fd) {
  Message answer;
  while (true) {
    const Read read = read_message(fd.get(), answer, kLong);
    if (read != Read::kDone) return read == Read::kClosed;
  }
}

TEST(StoreServer, AGetWaitsForTheSet) {
  const StoreServer server(options_of(2));
  const FileDescriptor a = enter(server.port()), b = enter(server.port());
  Message answer;
  EXPECT_TRUE(write_message(a.get(), {.operation = Operation::kGet, .key = "1"}));
  EXPECT_EQ(read_message(a.get(), answer, milliseconds(30)), Read::kLate);
  EXPECT_TRUE(write_message(b.get(), {.operation = Operation::kSet, .key = "1", .value = bytes_of("address")}));
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.value, bytes_of("address"));
}

TEST(StoreServer, AnEmptyValueIsAValue) {
  const StoreServer server(options_of(1));
  const FileDescriptor a = enter(server.port());
  Message answer;
  write_message(a.get(), {.operation = Operation::kSet, .key = "k"});
  write_message(a.get(), {.operation = Operation::kGet, .key = "k"});
  EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
  EXPECT_TRUE(answer.value.empty());
}

TEST(StoreServer, ALargeValueGoesBothWays) {
  const StoreServer server(options_of(1));
  const FileDescriptor a = enter(server.port());
  const std::vector<char> value(kAfterProof.value_bytes, 'v');
  Message answer;
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(write_message(a.get(), {.operation = Operation::kSet, .key = "k", .value = value}));
    EXPECT_TRUE(write_message(a.get(), {.operation = Operation::kGet, .key = "k"}));
    EXPECT_EQ(read_message(a.get(), answer, kLong), Read::kDone);
    EXPECT_EQ(answer.value, value);
  }
}

TEST(StoreServer, DropsForeignRunAndNamesOwn) {
  const StoreServer server(options_of(1));
  const FileDescriptor ours = enter(server.port()), theirs = connect_to(server.port());
  const Greeting greeting = greet_server(theirs.get(), "theirs", rendezvous_secret("another token", "theirs"), kLong);
  EXPECT_EQ(greeting.end, Greeting::End::kAnother);
  EXPECT_EQ(greeting.name, "run");
  EXPECT_TRUE(hung_up(theirs));
}

// Each refusal prints one line.
TEST(StoreServer, RefusesWrongTokenAndContinues) {
  Lines said;
  {
    const StoreServer server(said.keep(options_of(1)));
    for (const char* token : {"another token", "", "a token of this jo"}) {
      EXPECT_EQ(try_to_enter(server.port(), "run", rendezvous_secret(token, "run")), Greeting::End::kRefused) << token;
    }
    expect_served(enter(server.port()), "0");
  }
  ASSERT_EQ(said.lines.size(), 3u);
  for (const std::string& line : said.lines)
    EXPECT_EQ(line, "a connection from 127.0.0.1 was refused: it does not have this run's token");
}

TEST(StoreServer, LimitsRefusalLines) {
  Lines said;
  {
    const StoreServer server(said.keep(options_of(1)));
    for (int i = 0; i < 40; ++i) try_to_enter(server.port(), "run", "wrong");
    expect_served(enter(server.port()), "0");
  }
  EXPECT_LE(said.lines.size(), 12u);
  EXPECT_NE(said.lines.back().find("more connections are refused"), std::string::npos);
}

TEST(StoreServer, UnprovenPeerGetsNothing) {
  const StoreServer server(options_of(1));
  const FileDescriptor ours = enter(server.port());
  for (const Operation operation : {Operation::kSet, Operation::kGet, Operation::kProof, Operation::kRefusal}) {
    const FileDescriptor stranger = connect_to(server.port());
    write_message(stranger.get(), {.operation = operation, .key = "1", .value = bytes_of("evil")});
    EXPECT_TRUE(hung_up(stranger));
    // The operation replaces a proof.
    const FileDescriptor greeted = connect_to(server.port());
    write_message(greeted.get(), {.operation = Operation::kHello, .key = "run", .value = draw_nonce()});
    write_message(greeted.get(), {.operation = operation, .key = "1", .value = bytes_of("evil")});
    EXPECT_TRUE(hung_up(greeted));
  }
  Message answer;
  EXPECT_TRUE(write_message(ours.get(), {.operation = Operation::kGet, .key = "1"}));
  EXPECT_EQ(read_message(ours.get(), answer, milliseconds(100)), Read::kLate) << "a stranger's value is there";
}

TEST(StoreServer, OverheardHandshakeIsWorthless) {
  const StoreServer server(options_of(1));
  const FileDescriptor ours = connect_to(server.port());
  const Message hello{.operation = Operation::kHello, .key = "run", .value = draw_nonce()};
  Message challenge, answer;
  write_message(ours.get(), hello);
  ASSERT_EQ(read_message(ours.get(), challenge, kLong), Read::kDone);
  const Message proof{.operation = Operation::kProof,
                      .value = prove(kSecret, Side::kClient, {hello.value, challenge.value})};
  write_message(ours.get(), proof);
  ASSERT_EQ(read_message(ours.get(), answer, kLong), Read::kDone);
  ASSERT_EQ(answer.operation, Operation::kProof);
  // The client's proof again, and the server's own proof.
  for (const std::vector<char>& value : {proof.value, answer.value}) {
    const FileDescriptor thief = connect_to(server.port());
    write_message(thief.get(), hello);
    Message other;
    ASSERT_EQ(read_message(thief.get(), other, kLong), Read::kDone);
    EXPECT_NE(other.value, challenge.value);
    write_message(thief.get(), {.operation = Operation::kProof, .value = value});
    ASSERT_EQ(read_message(thief.get(), other, kLong), Read::kDone);
    EXPECT_EQ(other.operation, Operation::kRefusal);
    EXPECT_TRUE(hung_up(thief));
  }
}

// An impostor in rank 0's place receives a proof, but cannot give one.
TEST(StoreServer, DistrustsUnprovenServer) {
  for (const bool echoes : {false, true}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const FileDescriptor client(ends[0]), impostor(ends[1]);
    std::thread thread([&] {
      Message message;
      EXPECT_EQ(read_message(impostor.get(), message, kLong), Read::kDone);
      write_message(impostor.get(), {.operation = Operation::kHello, .key = "run", .value = message.value});
      EXPECT_EQ(read_message(impostor.get(), message, kLong), Read::kDone);
      if (!echoes) message.value = prove("a guess", Side::kServer, {message.value, message.value});
      write_message(impostor.get(), {.operation = Operation::kProof, .value = message.value});
    });
    EXPECT_EQ(greet_server(client.get(), "run", kSecret, kLong).end, Greeting::End::kRefused);
    thread.join();
  }
}

// The server does not wait for such a message.
TEST(StoreServer, DropsTooLargeStrangersMessage) {
  const StoreServer server(options_of(1));
  const FileDescriptor ours = enter(server.port());
  for (const auto& [key_bytes, value_bytes] : {std::pair(257u, 32u), {3u, 65u}, {1u << 20, 1u << 20}, {~0u, ~0u}}) {
    const FileDescriptor stranger = connect_to(server.port());
    const std::uint32_t prefix[3] = {static_cast<std::uint32_t>(Operation::kHello), key_bytes, value_bytes};
    EXPECT_EQ(send(stranger.get(), prefix, sizeof prefix, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof prefix));
    EXPECT_TRUE(hung_up(stranger));
  }
}

TEST(StoreServer, RandomBytesChangeNothing) {
  std::mt19937 random(7);
  const StoreServer server(options_of(2));
  const FileDescriptor ours = enter(server.port());
  for (int round = 0; round < 500; ++round) {
    const FileDescriptor stranger = connect_to(server.port());
    std::vector<char> bytes(random() % 300);
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Half of the messages begin as a rank's message does.
    const Message hello{.operation = Operation::kHello, .key = "run", .value = draw_nonce()};
    std::vector<char> start = random() % 2 == 0 ? to_bytes(hello) : std::vector<char>();
    if (!start.empty()) start[random() % start.size()] ^= static_cast<char>(random() % 3);
    start.insert(start.end(), bytes.begin(), bytes.end());
    (void)send(stranger.get(), start.data(), start.size(), MSG_NOSIGNAL);
  }
  const FileDescriptor late = enter(server.port());
  expect_served(ours, "0");
  expect_served(late, "1");
}

TEST(StoreServer, SilentConnectionsDelayNobody) {
  const StoreServer server(options_of(1));  // its limit is longer than a rank waits here
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect_to(server.port()));
  expect_served(enter(server.port()), "0");
}

TEST(StoreServer, DropsSilentConnectionsAfterTimeout) {
  auto options = options_of(1);
  options.handshake_limit = milliseconds(1000);
  const StoreServer server(options);
  const FileDescriptor ours = enter_at_last(server.port()), silent = connect_to(server.port());
  EXPECT_TRUE(hung_up(silent));
  expect_served(ours, "0");  // accepted ranks have no such limit
}

TEST(StoreServer, DropsOldestStrangersAtLimit) {
  const StoreServer server(options_of(1));
  const FileDescriptor ours = enter(server.port());
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_to(server.port()));
  EXPECT_TRUE(hung_up(silent.front()));
  expect_served(ours, "0");
}

// Such a sender delays nobody.
TEST(StoreServer, DropsByteByByteSender) {
  auto options = options_of(1);
  options.handshake_limit = milliseconds(1000);
  const StoreServer server(options);
  const FileDescriptor loris = connect_to(server.port());
  const auto hello = to_bytes({.operation = Operation::kHello, .key = "run", .value = draw_nonce()});
  std::size_t sent = 0;
  const FileDescriptor ours = enter_at_last(server.port());
  const auto begin = std::chrono::steady_clock::now();
  while (sent < hello.size() && send(loris.get(), &hello[sent], 1, MSG_NOSIGNAL) == 1) {
    expect_served(ours, std::to_string(++sent));
    std::this_thread::sleep_for(milliseconds(60));  // the slowness is the subject of the test
    if (std::chrono::steady_clock::now() - begin > kLong) break;
  }
  EXPECT_LT(sent, hello.size()) << "it was never dropped";
}

// The addresses of all sockets that listen at a port, from the kernel's tables.
std::vector<std::string> listening_addresses(int port) {
  std::vector<std::string> addresses;
  char end[8];
  std::snprintf(end, sizeof end, ":%04X", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state == "0A" && local.ends_with(end)) addresses.push_back(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

TEST(StoreServer, OneHostMeetsOnLoopbackOnly) {
  StoreServer server(options_of(1));
  EXPECT_EQ(listening_addresses(server.port()), std::vector<std::string>{"0100007F"});
  auto options = options_of(1);
  options.one_host = false;
  StoreServer open(options);
  const auto addresses = listening_addresses(open.port());
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses.front().find_first_not_of('0'), std::string::npos) << addresses.front();
  server.abandon();
  open.abandon();
}

TEST(Handshake, ProofBindsSideNoncesAndSecret) {
  const Nonces nonces{.client = draw_nonce(), .server = draw_nonce()};
  const auto proof = prove(kSecret, Side::kClient, nonces);
  EXPECT_TRUE(same_proof(proof, prove(kSecret, Side::kClient, nonces)));
  EXPECT_FALSE(same_proof(proof, prove(kSecret, Side::kServer, nonces)));
  EXPECT_FALSE(same_proof(proof, prove(kSecret, Side::kClient, {nonces.server, nonces.client})));
  EXPECT_FALSE(same_proof(proof, prove(rendezvous_secret("a token of this job", "another"), Side::kClient, nonces)));
  EXPECT_FALSE(same_proof(proof, {}));
  EXPECT_NE(draw_nonce(), draw_nonce());
}

TEST(StoreServer, TakenPortIsUserError) {
  auto options = options_of(0);
  const StoreServer server(options);  // at a port that the system chose
  const int port = options.port = server.port();
  try {
    const StoreServer second(options);
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_TRUE(error.configuration);
    EXPECT_NE(std::string(error.what()).find(std::to_string(port)), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("set MASTER_PORT"), std::string::npos);
  }
}

TEST(StoreServer, MissingClientEndsAtTimeout) {
  const auto begin = std::chrono::steady_clock::now();
  { const StoreServer server(options_of(1, milliseconds(150))); }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(149));
}

TEST(StoreServer, PortZeroIsAnyFreePort) {
  const StoreServer a(options_of(1)), b(options_of(1));
  ASSERT_NE(a.port(), b.port());
  expect_served(enter(a.port()), "0");
  expect_served(enter(b.port()), "0");
}

TEST(StoreServer, AbandonedItWaitsForNobody) {
  StoreServer server(options_of(1, std::chrono::hours(1)));
  const FileDescriptor client = enter(server.port());
  server.abandon();  // after this the destructor does not wait
}

// A rank dies or fails in the middle of the meeting. The answer names it.
TEST(StoreServer, EarlyHangUpEndsMeeting) {
  const StoreServer server(options_of(3, std::chrono::hours(1)));
  const FileDescriptor waits = enter(server.port());
  EXPECT_TRUE(write_message(waits.get(), {.operation = Operation::kGet, .key = "1"}));
  {
    const FileDescriptor met = enter(server.port());
    EXPECT_TRUE(write_message(met.get(), {.operation = Operation::kHere, .key = "1"}));
    EXPECT_TRUE(write_message(met.get(), {.operation = Operation::kMet}));
    const FileDescriptor stranger = connect_to(server.port());
  }
  Message answer;
  EXPECT_EQ(read_message(waits.get(), answer, milliseconds(30)), Read::kLate);
  {
    const FileDescriptor dies = enter(server.port());
    EXPECT_TRUE(write_message(dies.get(), {.operation = Operation::kHere, .key = "2"}));
    EXPECT_TRUE(write_message(dies.get(), {.operation = Operation::kSet, .key = "2", .value = bytes_of("address")}));
  }
  EXPECT_EQ(read_message(waits.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.operation, Operation::kLost);
  EXPECT_EQ(answer.key, "2");
  const FileDescriptor late = enter(server.port());
  EXPECT_TRUE(write_message(late.get(), {.operation = Operation::kGet, .key = "1"}));
  EXPECT_EQ(read_message(late.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.operation, Operation::kLost) << "a late client is also told";
}

TEST(StoreServer, ARankIsANumber) {
  StoreServer server(options_of(10));
  for (const char* text : {"", "-1", "two", "2/1", "99999999999"}) {
    const FileDescriptor client = enter(server.port());
    EXPECT_TRUE(write_message(client.get(), {.operation = Operation::kHere, .key = text}));
    EXPECT_TRUE(hung_up(client)) << text;
  }
  server.abandon();
}

// ---- replacements -------------------------------------------------------------------------------------------------

StoreServerOptions open_for_replacements(int num_clients) {
  StoreServerOptions options = options_of(num_clients);
  options.stays_open = true;
  return options;
}

FileDescriptor come(int port, const std::string& replacement) {
  FileDescriptor fd = enter(port);
  EXPECT_TRUE(write_message(fd.get(), {.operation = Operation::kCome, .key = replacement}));
  return fd;
}

// If a later message is answered, the server also knows the replacement.
void await_served(const FileDescriptor& replacement) {
  expect_served(replacement, "a key of its own");
}

// A server that stays open knows the newest process of a rank.
TEST(StoreServer, KnowsNewestProcessWhilePresent) {
  StoreServer server(open_for_replacements(1));
  enter(server.port());  // its end ends the meeting
  EXPECT_FALSE(server.replacement(2));
  FileDescriptor first = come(server.port(), "2/1");
  await_served(first);
  ASSERT_TRUE(server.replacement(2));
  EXPECT_EQ(server.replacement(2)->text(), "2/1");
  EXPECT_FALSE(server.replacement(1));
  const FileDescriptor second = come(server.port(), "2/12");
  await_served(second);
  EXPECT_EQ(server.replacement(2)->number, 12);
  first = {};
  EXPECT_EQ(server.replacement(2)->number, 12);
  Message answer;
  EXPECT_TRUE(write_message(second.get(), {.operation = Operation::kGet, .key = "2/12/peers"}));
  server.set("2/12/peers", bytes_of("1 0"));
  EXPECT_EQ(read_message(second.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.value, bytes_of("1 0"));
}

TEST(StoreServer, GetEndsWithItsReplacement) {
  StoreServer server(open_for_replacements(1));
  enter(server.port());
  const FileDescriptor peer = enter(server.port());
  FileDescriptor replacement = come(server.port(), "2/1");
  await_served(replacement);
  Message answer;
  const Message question{.operation = Operation::kGet, .key = "2/1/0/1", .value = bytes_of("2/1")};
  write_message(replacement.get(), {.operation = Operation::kSet, .key = "2/1/0/1", .value = bytes_of("address")});
  EXPECT_TRUE(write_message(peer.get(), question));
  EXPECT_EQ(read_message(peer.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.value, bytes_of("address"));
  EXPECT_TRUE(write_message(peer.get(), {.operation = Operation::kGet, .key = "2/1/0/2", .value = bytes_of("2/1")}));
  EXPECT_EQ(read_message(peer.get(), answer, milliseconds(30)), Read::kLate);
  replacement = {};
  EXPECT_EQ(read_message(peer.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.operation, Operation::kRefusal);
}

// A replacement waits, or its handshake is under way. A run that failed abandons its server.
TEST(StoreServer, EndTellsReplacements) {
  for (const bool fails : {false, true}) {
    auto server = std::make_unique<StoreServer>(open_for_replacements(1));
    enter(server->port());
    const FileDescriptor waits = come(server->port(), "2/1"), arrives = connect_to(server->port());
    EXPECT_TRUE(write_message(waits.get(), {.operation = Operation::kGet, .key = "2/1/peers"}));
    const Message hello{.operation = Operation::kHello, .key = "run", .value = draw_nonce()};
    Message challenge, answer;
    EXPECT_TRUE(write_message(arrives.get(), hello));
    ASSERT_EQ(read_message(arrives.get(), challenge, kLong), Read::kDone);
    if (fails) server->abandon();
    std::thread end([&] { server.reset(); });
    const auto expect_sent_end = [&](const FileDescriptor& replacement) {
      EXPECT_EQ(read_message(replacement.get(), answer, kLong), Read::kDone);
      EXPECT_EQ(answer.operation, Operation::kLost);
      EXPECT_EQ(answer.key, "") << "no rank is at fault";
      EXPECT_EQ(std::string(answer.value.begin(), answer.value.end()),
                "the run ended before this process could be taken back");
    };
    expect_sent_end(waits);
    write_message(arrives.get(), {.operation = Operation::kProof,
                                  .value = prove(kSecret, Side::kClient, {hello.value, challenge.value})});
    write_message(arrives.get(), {.operation = Operation::kCome, .key = "1/1"});
    EXPECT_EQ(read_message(arrives.get(), answer, kLong), Read::kDone);  // the server's proof
    expect_sent_end(arrives);
    end.join();
  }
}

// The replacement arrives before the ranks have met.
TEST(StoreServer, EarlyReplacementEndsMeeting) {
  StoreServer server(open_for_replacements(2));
  const FileDescriptor waits = enter(server.port());
  EXPECT_TRUE(write_message(waits.get(), {.operation = Operation::kGet, .key = "1"}));
  const FileDescriptor replacement = come(server.port(), "1/1");
  Message answer;
  EXPECT_EQ(read_message(waits.get(), answer, kLong), Read::kDone);
  EXPECT_EQ(answer.operation, Operation::kLost);
  EXPECT_EQ(answer.key, "1");
}

TEST(StoreServer, WhatIsNoReplacementIsDropped) {
  const StoreServer server(open_for_replacements(1));
  for (const char* text : {"", "2", "2/", "/1", "2/0", "-1/1", "2/1/3", "two/1"})
    EXPECT_TRUE(hung_up(come(server.port(), text))) << text;
  const StoreServer closed(options_of(1));
  EXPECT_TRUE(hung_up(come(closed.port(), "2/1"))) << "not open for replacements";
}

// For any bytes after the message.
TEST(StoreMessages, ReadsMessageFromItsBytes) {
  const Message sent{.operation = Operation::kSet, .key = "0", .value = bytes_of("address")};
  std::vector<char> bytes = to_bytes(sent);
  const std::size_t whole = bytes.size();
  for (std::size_t come = 0; come < whole; ++come) {
    Message none{.operation = Operation::kGet, .key = "as it was", .value = {}};
    const Parsed parsed = parse_message(std::span(bytes).first(come), kAfterProof, none);
    EXPECT_EQ(parsed.end, Parsed::End::kPart) << come;
    EXPECT_EQ(parsed.bytes, come < 12 ? 12u : whole) << come;
    EXPECT_EQ(none.key, "as it was") << come;
  }
  bytes.push_back('x');
  Message read;
  const Parsed parsed = parse_message(bytes, kAfterProof, read);
  EXPECT_EQ(parsed.end, Parsed::End::kWhole);
  EXPECT_EQ(parsed.bytes, whole);
  EXPECT_EQ(to_bytes(read), to_bytes(sent));
  EXPECT_EQ(parse_message(bytes, {.key_bytes = 1, .value_bytes = 6}, read).end, Parsed::End::kTooLarge);
}

// The session also requires the order of the messages.
TEST(StoreSession, ProvesItselfToSecretHoldersOnly) {
  const Message hello{.operation = Operation::kHello, .key = "run", .value = draw_nonce()};
  for (const bool knows : {true, false}) {
    StoreSession session;
    const StoreSession::Answer greeting = session.take(hello, "run", kSecret);
    EXPECT_TRUE(greeting.goes_on);
    Message challenge;
    parse_message(greeting.bytes, kBeforeProof, challenge);
    const Nonces nonces{hello.value, challenge.value};
    const Message proof{
        .operation = Operation::kProof, .key = {}, .value = prove(knows ? kSecret : "a guess", Side::kClient, nonces)};
    StoreSession other;
    EXPECT_FALSE(other.take(proof, "run", kSecret).goes_on) << "before the greeting";
    const StoreSession::Answer answer = session.take(proof, "run", kSecret);
    EXPECT_EQ(answer.goes_on, knows);
    EXPECT_EQ(session.proved(), knows);
    EXPECT_EQ(answer.refusal.empty(), knows);
    Message said;
    parse_message(answer.bytes, kBeforeProof, said);
    EXPECT_EQ(said.operation, knows ? Operation::kProof : Operation::kRefusal);
    EXPECT_EQ(session.caps().value_bytes, knows ? kAfterProof.value_bytes : kBeforeProof.value_bytes);
  }
}

TEST(StoreMessages, TooLargeMessageIsNotRead) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor a(ends[0]), b(ends[1]);
  const std::uint32_t prefix[3] = {1, 0xffffffff, 0xffffffff};
  EXPECT_EQ(write(a.get(), prefix, sizeof prefix), static_cast<ssize_t>(sizeof prefix));
  Message message;
  EXPECT_EQ(read_message(b.get(), message, kLong), Read::kClosed);
}

TEST(StoreMessages, HalfMessageIsLateOrClosed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  FileDescriptor a(ends[0]);
  const FileDescriptor b(ends[1]);
  const std::uint32_t prefix[3] = {1, 4, 0};
  EXPECT_EQ(write(a.get(), prefix, sizeof prefix), static_cast<ssize_t>(sizeof prefix));
  Message message;
  EXPECT_EQ(read_message(b.get(), message, milliseconds(20)), Read::kLate);
  a = FileDescriptor();
  EXPECT_EQ(read_message(b.get(), message, kLong), Read::kClosed);
  EXPECT_FALSE(write_message(b.get(), {.operation = Operation::kHello, .key = "x"}));
}

}  // namespace
}  // namespace zero_gloo
