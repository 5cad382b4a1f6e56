// MessageLink: the interface of a transport plug-in: messages between ranks, by a library that the core does not link.
//
// A plug-in is a shared library, libzero_transport_NAME.so, with one function, zero_open_link. It only moves messages:
// the collectives, the comparison of signatures, time and traffic are MessageCommunicator's. No exception crosses the
// border: the plug-in turns it into a Status and a text.
//
// A plug-in includes this header and no other of ours, and links none of our libraries. kLinkVersion guards the border.
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
    kLate,  // the other rank has not done its part in the time given
    kGone,  // the connection, or the library, has failed
  };

  // A message under way. Its bytes must stay until it is done or the link is destroyed.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // After anything but kDone the link cannot be used any more; but once test() was called, kLate ends nothing.
    virtual Status wait(std::chrono::milliseconds limit) = 0;
    // Waits for nothing. kLate says that the message is under way, or just done: the link goes on. After kGone it goes on
    // for messages with other ranks. After kDone a wait() is kDone, too.
    virtual Status test() = 0;
    // What the library said; empty when done, and not to be asked for while late.
    virtual const char* reason() const = 0;
  };

  virtual ~MessageLink() = default;

  // Begin at once and block for nothing. Messages with the same two ranks and tag match in order. Tags of messages that
  // are under way at the same time differ, but for headers by which a rank leaves or fails; so do those of any 4096
  // collectives of a channel in a row.
  virtual std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) = 0;
  virtual std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) = 0;

  // The run has failed: end without the others.
  virtual void abandon() = 0;

  // How a rank whose process was lost comes back as a new process (replacements.h). Messages with it travel anew from
  // meet() on, under tags that may be those of its predecessor's; transfers of before end or stay late.
  class Door {
   public:
    virtual ~Door() = default;
    // LinkRequest::most_replacements, and whether this process is a replacement.
    virtual int most() const = 0;
    virtual bool is_replacement() const = 0;
    // On rank 0: a new process of that rank waits. Waits for nobody.
    virtual bool is_waiting(int rank) = 0;
    // On rank 0, of one that waits: it is to meet these ranks, in this order.
    virtual void introduce(int rank, std::span<const int> peers) = 0;
    // On each of these ranks: connects with the new process. False where that has ended meanwhile; then why() gives the
    // library's words.
    virtual bool meet(int rank) = 0;
    virtual const char* why() const = 0;
    // In a replacement: whether it has met that rank. It reaches no other.
    virtual bool has_met(int rank) const = 0;
  };
  // Null where the request has no replacements, or the library no way for them.
  virtual Door* door() { return nullptr; }
};

struct LinkFailure {
  bool configuration = false;  // the user can put it right (ConfigError), as opposed to a rank (CommError)
  int rank = -1;               // at fault, if known
  char reason[1024] = {};
};

// Where rank 0 can be met, when that is not agreed before the ranks start: whoever started them keeps it for them.
// Neither function throws; each is true, or false with *failure.
class RendezvousPoint {
 public:
  struct Place {
    char address[256] = {};
    int port = 0;
    char name[64] = {};  // which only ranks of this run can look up
  };

  virtual ~RendezvousPoint() = default;
  // Rank 0, which listens at `port` for whoever knows the request's run_id.
  virtual bool announce(int port, LinkFailure* failure) = 0;
  // The latest announcement, waited for. It may be that of an earlier rank 0, which is gone: then look again.
  virtual bool look_up(Place* place, LinkFailure* failure) = 0;
};

// Plain values: the two sides may be built with different options.
struct LinkRequest {
  int version = kLinkVersion;
  int rank = 0;
  int world = 1;
  const char* address = "";                     // of rank 0
  int port = 0;                                 // of rank 0, where ranks may meet
  RendezvousPoint* rendezvous_point = nullptr;  // if there is one, it decides, not `address` and `port`
  const char* run_id = "";
  const char* token = "";      // which only ranks of this job have; empty: none was given
  bool one_host = true;        // all ranks share this machine
  const char* interface = "";  // network interface to use; empty: the one that leads to `address`
  long timeout_ms = 0;
  int replacement = 0;  // k > 0: the rank's k-th process after the first. Its link opens when it has met its peers
  int most_replacements = 0;                 // processes that may come so in this run, of all ranks
  void (*warn)(const char* line) = nullptr;  // one line for the log, from any thread
};

// What a plug-in exports, with C linkage, as "zero_open_link". Collective. nullptr: see *failure.
using OpenLink = MessageLink* (*)(const LinkRequest* request, LinkFailure* failure);

}  // namespace zero
