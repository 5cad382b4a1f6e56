// MessageCommunicator: the collectives over a MessageLink (mpi, gloo).
//
// At begin, a rank sends every other rank the signature of the collective, and the bytes for that rank, if there are
// any. In wait() it compares each peer's signature with its own before it takes that peer's bytes, so that a mismatch
// is an error and never a damaged buffer, and a late rank has a name. Every pair of ranks exchanges directly: the
// bytes are those of a ring, (N-1) blocks a rank.
//
// Inputs stay as they are until drain(), which waits for the sends. A rank that fails tells the others why before it
// throws.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/comm/message_link.h"
#include "zero/comm/signature.h"

namespace zero {

class MessageCommunicator final : public Communicator {
 public:
  MessageCommunicator(std::unique_ptr<MessageLink> link, std::string transport, int rank, int world,
                      std::chrono::milliseconds timeout);
  ~MessageCommunicator() override;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  std::string_view transport() const override { return transport_; }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override;

  // Plain memory, whose release waits for the sends out of it.
  Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override;

  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return waited_seconds_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }

 private:
  struct Header;
  struct Exchange;
  class ExchangeOperation;
  // A send that nobody has waited for yet.
  struct Sending {
    int to;
    Signature signature;
    std::unique_ptr<Header> header;   // what is sent, or
    std::span<const std::byte> data;  // the caller's bytes
    std::unique_ptr<MessageLink::Transfer> transfer;
  };

  // The part of a collective that concerns one peer.
  struct Part {
    int peer;
    std::span<const std::byte> out;
    std::span<std::byte> in;
  };
  Work exchange(Operation operation, std::size_t bytes, CommTag tag, std::vector<Part> parts, int root = -1);
  std::vector<int> peers() const;  // beginning with the one after this rank

  void send_with_header(int to, std::uint64_t tag, const Signature& signature, std::span<const std::byte> data);
  std::unique_ptr<Exchange> expect(int from, std::uint64_t tag, std::span<std::byte> in);
  // Compares the header, and begins to receive what it announces.
  void take_header(Exchange& exchange, const Signature& own);
  void take_data(Exchange& exchange, const Signature& own);
  void wait(MessageLink::Transfer& transfer, int peer, const Signature& own);
  void finish_oldest_send();

  void check_usable() const;
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason, bool tell);
  void tell_why();
  void count(std::size_t sent, std::size_t received, CommTag tag);

  std::unique_ptr<MessageLink> link_;
  std::string transport_;
  int rank_, world_;
  std::chrono::milliseconds timeout_;
  std::uint64_t sequence_ = 0;
  std::vector<std::uint64_t> num_sent_, num_received_;  // messages, by peer
  std::deque<Sending> sending_;
  std::set<std::uint64_t> begun_;  // sequences of collectives that are not waited for yet
  Traffic traffic_;
  double waited_seconds_ = 0;
  bool failed_ = false;
  int failed_rank_ = -1;
  std::string failed_operation_, failed_reason_;
};

}  // namespace zero
