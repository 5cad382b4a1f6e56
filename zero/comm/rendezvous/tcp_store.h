// TcpStore: a client of PyTorch's TCPStore, the key-value store that torchrun serves at MASTER_ADDR:MASTER_PORT.
//
//   TcpStore store("10.0.0.1", 29500, 60s);
//   store.set("zero/a run/rank 0", "10.0.0.1 41234");
//   store.get("zero/a run/rank 0");                     // waits until some rank has set it
//
// The wire format is that of torch/csrc/distributed/c10d/TCPStore.cpp in PyTorch 2.11. It has one byte of operation,
// then numbers of 8 bytes in the host's order, each string after its length. Keys are the same as those of a client in
// Python; both clients send them with a "/" in front. The store is shared with torchrun's agents and with other
// programs of the ranks.
//
// Local. Throws CommError if a call exceeds the timeout or the store's answer is invalid; no call may follow one that
// threw.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "zero/base/files/file.h"

namespace zero {

class TcpStore {
 public:
  // `timeout` also limits each later call.
  TcpStore(const std::string& host, int port, std::chrono::milliseconds timeout);

  // Sets a key of at most 4 KiB to a value of at most 1 MiB. The store sends no answer: only the next get() shows
  // whether the value arrived.
  void set(std::string_view key, std::string_view value);
  // Returns the latest value; waits for the first.
  std::string get(std::string_view key);

  // Returns this process's own address on the way to the store, as digits.
  std::string local_address() const;

 private:
  using Clock = std::chrono::steady_clock;

  void connect(const std::string& host, int port);
  void check(std::string_view key) const;
  void send(std::string_view request);
  void receive(std::span<char> answer, Clock::time_point deadline, std::string_view operation);
  [[noreturn]] void fail(std::string_view reason) const;

  std::string name_;  // for errors
  std::chrono::milliseconds timeout_;
  FileDescriptor socket_;
};

}  // namespace zero
