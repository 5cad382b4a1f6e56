// TcpStore: a client of PyTorch's TCPStore, the key-value store that torchrun serves at MASTER_ADDR:MASTER_PORT.
//
//   TcpStore store("10.0.0.1", 29500, 60s);
//   store.set("zero/a run/rank 0", "10.0.0.1 41234");
//   store.get("zero/a run/rank 0");                     // waits until some rank has set it
//
// The wire format is that of torch/csrc/distributed/c10d/TCPStore.cpp as of PyTorch 2.11: one byte of operation, then
// numbers of 8 bytes in the host's order, each string after its length. A key is what a client in Python calls it: both
// send it with a "/" before. The store is shared with torchrun's agents and with the other programs of the ranks.
//
// Local. Throws CommError when a call outlasts the timeout or the store answers nonsense; no call may follow one that
// threw.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "zero/base/file.h"

namespace zero {

class TcpStore {
 public:
  // `timeout` is also that of each later call.
  TcpStore(const std::string& host, int port, std::chrono::milliseconds timeout);

  // A key holds at most 4 KiB, a value 1 MiB. There is no answer to wait for: the next get() shows whether it arrived.
  void set(std::string_view key, std::string_view value);
  // The latest value; waits for the first.
  std::string get(std::string_view key);

  // This process's own address on the way to the store, as digits.
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
