// MessageCommunicator: the collectives over a MessageLink (mpi, gloo).
//
// At begin, a rank sends every other rank the signature of the collective, and the bytes for that rank, if there are
// any, and expects theirs. In wait() it compares each peer's signature with its own before it waits for that peer's bytes,
// so that a mismatch is an error, and a late rank has a name. Every pair of ranks exchanges directly: the
// bytes are those of a ring, (N-1) blocks a rank.
//
// Inputs stay as they are until drain(), which waits for the sends. A rank that fails tells the others why before it
// throws, in the world and in its groups.
//
// Arrivals: a rank that waits for whichever message comes first asks its transfers, and sleeps between, at most 1 ms. From
// the first such wait on it expects the header of the next collective of the world early. In its place another rank says
// that it may be lost, that it leaves, or why the run fails; and there the end of its process shows. A rank whose process
// ends without a word ends the run.
//
// Replacements: where the link has a door, a lost rank comes back. The new process takes part in no
// collective, so notices to it and from it travel under the number of the first one.
//
// A group (group.h) sends over the same link under tags of its own: its number is in the upper bits. In here ranks are
// those of the world; blocks lie in the order of the members.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "zero/comm/arrivals.h"
#include "zero/comm/communicator.h"
#include "zero/comm/group.h"
#include "zero/comm/message_link.h"
#include "zero/comm/signature.h"

namespace zero {

class MessageCommunicator final : public Communicator, private GroupOpener, private Arrivals, private Replacements {
 public:
  MessageCommunicator(std::unique_ptr<MessageLink> link, std::string transport, int rank, int world,
                      std::chrono::milliseconds timeout);
  ~MessageCommunicator() override;

  int rank() const override { return position(rank_); }
  int world() const override { return static_cast<int>(members_.size()); }
  std::string_view transport() const override { return run_.transport; }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override;

  // Plain memory, whose release waits for the sends out of it.
  Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override;
  GroupOpener* groups() override { return this; }
  // Of the world alone.
  Arrivals* arrivals() override { return group_ == 0 ? this : nullptr; }

  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return waited_seconds_; }
  std::chrono::milliseconds timeout() const override { return run_.timeout; }

 private:
  enum class Notice : std::int32_t;
  struct Header;
  struct Exchange;
  class ExchangeOperation;
  // A send that nobody has waited for yet.
  struct Sending {
    MessageCommunicator* by;
    int to;
    Signature signature;
    std::unique_ptr<Header> header;   // what is sent, or
    std::vector<std::byte> copied;    // a small message, or
    std::span<const std::byte> data;  // the caller's bytes
    std::unique_ptr<MessageLink::Transfer> transfer;
  };

  // What is known of another rank, once this one waits for whichever message comes first.
  struct Peer {
    std::deque<std::unique_ptr<Exchange>> next;  // headers of the world's next collectives; the last may be a notice
    bool may_be_lost = false;                    // it has said so
    bool left = false;                           // it has said so, too
    bool lost = false;                           // without a word
    bool came_back = false;                      // in a new process, which takes part in no collective
    std::string reason;                          // of the library
  };

  // What the world and its groups have in common.
  struct Run {
    std::unique_ptr<MessageLink> link;
    std::string transport;
    std::chrono::milliseconds timeout;
    std::vector<MessageCommunicator*> communicators;
    std::uint64_t newest_group = 0;
    std::deque<Sending> sending;
    bool watches = false;  // the other ranks: some wait of arrivals() has begun
    std::map<int, Peer> peers;
    std::deque<Sending> notices;                  // to the other ranks
    int exceptions = std::uncaught_exceptions();  // when the run began
    bool failed = false;
    int failed_rank = -1;
    std::string failed_operation, failed_reason;
  };

  // A group.
  MessageCommunicator(Run& run, int rank, const GroupPlace& place);

  std::uint64_t newest_group() const override { return run_.newest_group; }
  int world_rank(int rank) const override { return members_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override;
  // Of a rank of the world among the members.
  int position(int rank) const;
  // Kinds of messages; data follows its header.
  enum Kind { kHeader = 0, kMessageHeader = 2 };
  // Under which a number of this communicator travels.
  std::uint64_t tag_of(std::uint64_t number, int kind) const;
  // Of the header that the peer and this rank send each other next.
  std::uint64_t next_tag(int peer) const;

  // The part of a collective that concerns one peer.
  struct Part {
    int peer;
    std::span<const std::byte> out;
    std::span<std::byte> in;
  };
  Work exchange(Operation operation, std::size_t bytes, CommTag tag, std::vector<Part> parts, int root = -1);
  std::vector<int> peers() const;  // beginning with the one after this rank

  void send_with_header(int to, std::uint64_t tag, const Signature& signature, std::span<const std::byte> data,
                        bool copies = false);
  std::unique_ptr<Exchange> expect(int from, std::uint64_t tag, std::span<std::byte> in);
  void expect_data(Exchange& exchange, std::span<std::byte> in);
  // For the collective that begins.
  std::unique_ptr<Exchange> expect_next(int from, std::span<std::byte> in);
  // Compares the header.
  void take_header(Exchange& exchange, const Signature& own);
  void take_data(Exchange& exchange, const Signature& own);
  // Whether all of a message is there, without waiting.
  bool has_come(Exchange& exchange, const Signature& own);
  void wait(MessageLink::Transfer& transfer, int peer, const Signature& own);
  void require_done(MessageLink::Status status, const MessageLink::Transfer& transfer, int peer, const Signature& own);
  void finish(Sending& sending);
  void finish_oldest_send();

  // ---- arrivals (message_arrivals.cpp), of the world, but for those that say otherwise
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit) override;
  void may_be_lost() override;
  bool lost(int rank) const override;
  int unread(int rank) override;
  void look();
  void look_at(int rank);
  void hear_why();  // before a rank that is gone is named: throws what ended the run, if another rank tells
  void take_notice(int rank, const Header& header);
  // Of any communicator.
  MessageLink::Status test(MessageLink::Transfer& transfer, int peer, bool sends = false);
  MessageLink::Status wait_and_look(MessageLink::Transfer& transfer, int peer, bool sends = false);
  bool goes_on_without(int peer);
  void tell_others(Notice notice);
  void say_goodbye();

  // ---- replacements (message_replacements.cpp), of the world
  Replacements* replacements() override { return run_.link->door() == nullptr ? nullptr : this; }
  bool is_one() const override { return run_.link->door()->is_replacement(); }
  int most() const override { return run_.link->door()->most(); }
  int waiting(RankSet lost) override;
  void introduce(int rank, RankSet peers) override;
  void take_back(int rank) override;
  void let_in(int rank) override;
  void leave_out_strangers();
  void forget_predecessor(int rank);
  void meet(int rank);
  void refuse_collective_with(int peer, const Signature& own);

  void check_usable() const;
  // `operation` as describe() gives it: of this communicator.
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason);
  [[noreturn]] void pass_on(const Header& header);
  [[noreturn]] void end_run();
  // Whether this rank leaves by an exception of its own, in the middle of its work.
  bool leaves_by_error() const;
  // Tells the others, and leaves nothing to wait for. Where a rank may be lost, they go on without it, and are told otherwise.
  void leave_by_error();
  using Farewells = std::vector<std::unique_ptr<MessageLink::Transfer>>;
  // `messages`: in the place of the next message, to whom this rank has sent some before.
  void tell_why(const Header& header, Farewells& farewells, Farewells& messages) const;
  void count(std::size_t sent, std::size_t received, CommTag tag);

  std::unique_ptr<Run> own_run_;  // of the world; null in a group
  Run& run_;
  std::uint64_t group_ = 0;  // its number; 0: the world
  std::string suffix_;       // of a group, for messages
  int rank_;
  std::vector<int> members_;  // ranks of the world, ascending
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> num_sent_, num_received_;  // messages, by peer
  std::set<std::uint64_t> begun_;                         // sequences of collectives that are not waited for yet
  Traffic traffic_;
  double waited_seconds_ = 0;
};

}  // namespace zero
