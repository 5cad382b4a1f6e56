// MessageLink: interface of a plug-in that moves messages between ranks, through a library that the core does not link.
//
// A plug-in is a shared library, libzero_transport_NAME.so, with one function, zero_open_link. It only moves messages:
// MessageCommunicator handles collectives, the comparison of signatures, timeouts and traffic. No exception crosses the
// boundary: the plug-in turns it into a Status and a text.
//
// A plug-in includes only this header of ours, and links none of our libraries. kLinkVersion guards the boundary.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zero {

constexpr int kLinkVersion = 6;

// The world and each group of ranks number their collectives from 1, so each has a channel: the upper bits of a tag.
constexpr int kLinkChannelShift = 48;
constexpr std::uint64_t kMaxLinkChannels = std::uint64_t{1} << 16;

class MessageLink {
 public:
  enum class Status {
    kDone,
    kLate,  // the other rank has not done its part within the limit
    kGone,  // the connection, or the library, has failed
  };

  // A message in flight. Its bytes must stay until it is done or the link is destroyed.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // Waits at most `limit`. After any result but kDone, the link is unusable; but once test() was called, kLate ends
    // nothing.
    virtual Status wait(std::chrono::milliseconds limit) = 0;
    // Never waits. kLate: the message is in flight, or is only just done; the link stays usable. After kGone, the link
    // stays usable for messages with other ranks. After kDone, wait() also returns kDone.
    virtual Status test() = 0;
    // Returns the library's error text; empty when done. It must not be called while the message is late.
    virtual const char* reason() const = 0;
  };

  virtual ~MessageLink() = default;

  // Begin at once and never block. Messages with the same two ranks and tag match in order. Messages in flight at the
  // same time have different tags, except headers by which a rank leaves or fails. Any 4096 consecutive collectives of
  // a channel also have different tags.
  virtual std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) = 0;

  // Ends the link without the others, because the run has failed.
  virtual void abandon() = 0;

  // The way back for a rank whose process was lost, as a new process (replacements.h). From meet() on, messages with it
  // begin anew, with tags that its predecessor may have used. Earlier transfers end or stay late.
  class Door {
   public:
    virtual ~Door() = default;
    // Return LinkRequest::most_replacements, and whether this process is a replacement.
    virtual int most() const = 0;
    virtual bool is_replacement() const = 0;
    // On rank 0: returns true if a new process of that rank waits. Never blocks.
    virtual bool is_waiting(int rank) = 0;
    // On rank 0: tells a waiting process to meet these ranks, in this order.
    virtual void introduce(int rank, std::span<const int> peers) = 0;
    // On each of these ranks: connects with the new process. Returns false if it has ended meanwhile; why() then
    // returns the library's words.
    virtual bool meet(int rank) = 0;
    virtual const char* why() const = 0;
    // In a replacement: returns true if it has met that rank. It can reach no other rank.
    virtual bool has_met(int rank) const = 0;
  };
  // Returns null if the request has no replacements, or the library does not support them.
  virtual Door* door() { return nullptr; }
};

struct LinkFailure {
  bool configuration = false;  // the user can correct it (ConfigError), rather than a rank (CommError)
  int rank = -1;               // at fault, if known
  char reason[1024] = {};
};

// A place where ranks look up rank 0's address, if that is not agreed before the ranks start. The program that started
// the ranks keeps it. Neither function throws; each returns true, or false with *failure.
class RendezvousPoint {
 public:
  struct Place {
    char address[256] = {};
    int port = 0;
    char name[64] = {};  // a name that only ranks of this run can look up
  };

  virtual ~RendezvousPoint() = default;
  // On rank 0: announces that it listens at `port` for ranks that know the request's run_id.
  virtual bool announce(int port, LinkFailure* failure) = 0;
  // Waits for the latest announcement. It may be that of an earlier, dead rank 0: then look again.
  virtual bool look_up(Place* place, LinkFailure* failure) = 0;
};

// Plain values, because the two sides may be built with different options.
struct LinkRequest {
  int version = kLinkVersion;
  int rank = 0;
  int world = 1;
  const char* address = "";                     // address of rank 0
  int port = 0;                                 // port of rank 0, at which ranks may meet
  RendezvousPoint* rendezvous_point = nullptr;  // overrides `address` and `port`, unless null
  const char* run_id = "";
  const char* token = "";      // secret of the job's ranks; empty: none was given
  bool one_host = true;        // all ranks share this machine
  const char* interface = "";  // network interface; empty: the one that leads to `address`
  long timeout_ms = 0;
  int replacement = 0;        // k > 0: the rank's k-th new process. Its link opens when it has met its peers
  int most_replacements = 0;  // replacement processes that this run allows, over all ranks
  void (*warn)(const char* line) = nullptr;  // logs one line, from any thread
};

// The function that a plug-in exports as "zero_open_link", with C linkage. Collective. Returns null with *failure.
using OpenLink = MessageLink* (*)(const LinkRequest* request, LinkFailure* failure);

}  // namespace zero
