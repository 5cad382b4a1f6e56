// MessageCommunicator: the collectives over a MessageLink (mpi, gloo).
//
// To begin a collective, a rank sends every other rank its signature and the bytes for that rank, and posts receives
// for theirs. wait() compares a peer's signature before it waits for that peer's bytes, so a mismatch is an error, and
// a late rank has a name. Every pair of ranks exchanges directly: (N-1) blocks a rank, as many bytes as in a ring.
//
// Inputs must stay unchanged until drain(), which waits for the sends. A rank that fails tells the others why before it
// throws, in the world and in its groups.
//
// If the link has a door, a lost rank can come back (Replacements). The new process takes part in no collective.
// Notices take the place of the next collective's header, so notices to and from that process always have the number 1.
//
// A group (group.h) uses the same link with tags of its own: its number is in the upper bits. Inside this class, ranks
// are those of the world; blocks are stored in the order of the members.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "zero/comm/board/arrivals.h"
#include "zero/comm/communicator.h"
#include "zero/comm/group.h"
#include "zero/comm/message/message_link.h"
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

  // Allocates plain memory, whose release waits for the sends from it.
  Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override;
  GroupOpener* groups() override { return this; }
  // Null in a group: only the world has them.
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
    std::unique_ptr<Header> header;   // sent bytes: this header, or
    std::vector<std::byte> copied;    // a copy of a small message, or
    std::span<const std::byte> data;  // the caller's bytes
    std::unique_ptr<MessageLink::Transfer> transfer;
  };

  // State of another rank, once this rank waits for whichever message comes first.
  struct Peer {
    std::deque<std::unique_ptr<Exchange>> next;  // receives of the world's next headers; the last may be a notice
    bool may_be_lost = false;                    // the rank has said so
    bool left = false;                           // the rank has said so
    bool lost = false;                           // it ended without a notice
    bool came_back = false;                      // in a new process, which takes part in no collective
    std::string reason;                          // the library's words
  };

  // State that the world and its groups share.
  struct Run {
    std::unique_ptr<MessageLink> link;
    std::string transport;
    std::chrono::milliseconds timeout;
    std::vector<MessageCommunicator*> communicators;
    std::uint64_t newest_group = 0;
    std::deque<Sending> sending;
    bool watches = false;  // true once some wait of arrivals() has begun: this rank watches the others
    std::map<int, Peer> peers;
    std::deque<Sending> notices;                  // to the other ranks
    int exceptions = std::uncaught_exceptions();  // uncaught exceptions when the run began
    bool failed = false;
    int failed_rank = -1;
    std::string failed_operation, failed_reason;
  };

  // Constructs a group.
  MessageCommunicator(Run& run, int rank, const GroupPlace& place);

  std::uint64_t newest_group() const override { return run_.newest_group; }
  int world_rank(int rank) const override { return members_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override;
  // Returns the position of a rank of the world among the members.
  int position(int rank) const;
  // Kinds of headers. The next kind is that of the header's data.
  enum Kind { kHeader = 0, kMessageHeader = 2 };
  // Returns the tag of a number of this communicator.
  std::uint64_t tag_of(std::uint64_t number, int kind) const;
  // Returns the tag of the next header between the peer and this rank.
  std::uint64_t next_tag(int peer) const;

  // The part of a collective that concerns one peer.
  struct Part {
    int peer;
    std::span<const std::byte> out;
    std::span<std::byte> in;
  };
  Work exchange(Operation operation, std::size_t bytes, CommTag tag, std::vector<Part> parts, int root = -1);
  std::vector<int> peers() const;  // beginning with the rank after this one

  void send_with_header(int to, std::uint64_t tag, const Signature& signature, std::span<const std::byte> data,
                        bool copies = false);
  std::unique_ptr<Exchange> expect(int from, std::uint64_t tag, std::span<std::byte> in);
  void expect_data(Exchange& exchange, std::span<std::byte> in);
  // Receives for the collective that begins; takes a header that is already expected.
  std::unique_ptr<Exchange> expect_next(int from, std::span<std::byte> in);
  // Waits for the header, and compares it.
  void take_header(Exchange& exchange, const Signature& own);
  void take_data(Exchange& exchange, const Signature& own);
  // Returns true if all of a message has arrived. Never waits.
  bool has_come(Exchange& exchange, const Signature& own);
  void wait(MessageLink::Transfer& transfer, int peer, const Signature& own);
  // Waits at most the run's timeout. Asks the program's language meanwhile whether to go on (check_wait()).
  MessageLink::Status wait_here(MessageLink::Transfer& transfer);
  void require_done(MessageLink::Status status, const MessageLink::Transfer& transfer, int peer, const Signature& own);
  void finish(Sending& sending);
  void finish_oldest_send();

  // ---- arrivals (message_arrivals.cpp), of the world unless stated otherwise
  //
  // A rank that waits for whichever message comes first polls its transfers, and sleeps at most 1 ms between polls.
  // From the first such wait on, it receives the header of the world's next collective early. In place of that header,
  // another rank may say that it may be lost, that it leaves, or why the run fails. The end of its process also shows
  // there. A rank whose process ends without a notice ends the run.
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit) override;
  void may_be_lost() override;
  bool lost(int rank) const override;
  int unread(int rank) override;
  void fail_everywhere(int rank, const std::string& operation, const std::string& reason) override {
    fail(rank, operation, reason);
  }
  void look();
  void look_at(int rank);
  // Called before a lost rank is named: throws the cause of the run's end, if another rank sends it.
  void hear_why();
  void take_notice(int rank, const Header& header);
  // The next functions serve any communicator of the run.
  MessageLink::Status test(MessageLink::Transfer& transfer, int peer, bool sends = false);
  MessageLink::Status wait_and_look(MessageLink::Transfer& transfer, int peer, bool sends = false);
  bool goes_on_without(int peer);
  void notify_others(Notice notice);
  void say_goodbye();

  // ---- replacements (message_replacements.cpp), only of the world
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
  // `operation`: of this communicator, as describe() formats it.
  [[noreturn]] void fail(int rank, const std::string& operation, const std::string& reason);
  [[noreturn]] void pass_on(const Header& header);
  [[noreturn]] void end_run();
  // Returns true if this rank leaves by an exception of its own, in the middle of its work.
  bool leaves_by_error() const;
  // Sends the others a notice that this rank leaves by an error, and ends the link. Does nothing once a wait of
  // arrivals() has begun: ranks may then be lost, and the others learn of its end by other means.
  void leave_by_error();
  using Farewells = std::vector<std::unique_ptr<MessageLink::Transfer>>;
  // Sends the cause to the other ranks. `farewells` replace the next header. `messages` replace the next message, to
  // ranks that this rank has sent messages before.
  void send_cause(const Header& header, Farewells& farewells, Farewells& messages) const;
  void count(std::size_t sent, std::size_t received, CommTag tag);

  std::unique_ptr<Run> own_run_;  // of the world; null in a group
  Run& run_;
  std::uint64_t group_ = 0;  // number of the group; 0: the world
  std::string suffix_;       // name of the group, for error messages
  int rank_;
  std::vector<int> members_;  // ranks of the world, ascending
  std::uint64_t sequence_ = 0;
  std::map<int, std::uint64_t> num_sent_, num_received_;  // numbers of messages, by peer
  std::set<std::uint64_t> begun_;                         // sequences of collectives that nobody has waited for yet
  Traffic traffic_;
  double waited_seconds_ = 0;
};

}  // namespace zero
