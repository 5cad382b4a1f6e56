// libzero_transport_gloo.so: MessageLink over Gloo's unbound buffers on TCP.
//
// Gloo moves the bytes on a thread of its own that sleeps in epoll. Ranks find each other through RendezvousStore;
// each then listens on the address that leads to rank 0, or on the interface that was asked for (ZERO_COMM_INTERFACE).
// Gloo treats the timeout of a wait as the end of all its connections, and so does MessageLink.
#include <cstdio>
#include <memory>
#include <string>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include "zero/comm/message_link.h"

#include "rendezvous_store.h"
#include "store_messages.h"
#include "waiters.h"

namespace {

using std::chrono::milliseconds;
using zero::LinkFailure;
using zero::LinkRequest;
using zero::MessageLink;
using zero_gloo::Waiters;
using Clock = std::chrono::steady_clock;

// Gloo writes to sockets whose other end may be gone, without MSG_NOSIGNAL. While one of these lives, this thread, and
// the threads that it starts, get an error for that and no signal.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipes() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

enum class Direction { kSend, kReceive };

constexpr auto kAnyTime = std::chrono::hours(24 * 365);

class GlooTransfer final : public MessageLink::Transfer {
 public:
  GlooTransfer(gloo::Context& context, Waiters& waiters, Direction direction, int peer, std::uint64_t tag,
               std::byte* data, std::size_t bytes)
      : waiters_(waiters), direction_(direction) {
    const NoBrokenPipes guard;
    try {
      buffer_ = context.createUnboundBuffer(data, bytes);
      direction == Direction::kSend ? buffer_->send(peer, tag) : buffer_->recv(peer, tag);
    } catch (const std::exception& error) {
      reason_ = error.what();
    }
  }

  ~GlooTransfer() override {
    if (looking_ == nullptr) return;
    direction_ == Direction::kSend ? buffer_->abortWaitSend() : buffer_->abortWaitRecv();
    looking_->finish();
  }
  GlooTransfer(const GlooTransfer&) = delete;
  GlooTransfer& operator=(const GlooTransfer&) = delete;

  MessageLink::Status wait(milliseconds limit) override {
    return looking_ == nullptr ? wait_here(limit) : looking_->status_after(limit);
  }
  MessageLink::Status test() override {
    if (looking_ != nullptr) return looking_->status();
    if (!reason_.empty()) return MessageLink::Status::kGone;
    try {
      looking_ = waiters_.begin([this] { return wait_here(kAnyTime); });
    } catch (const std::exception& error) {
      reason_ = error.what();
      return MessageLink::Status::kGone;
    }
    return looking_->status();
  }
  const char* reason() const override { return reason_.c_str(); }

 private:
  MessageLink::Status wait_here(milliseconds limit) {
    if (!reason_.empty()) return MessageLink::Status::kGone;
    const auto deadline = Clock::now() + limit;
    try {
      const bool done = direction_ == Direction::kSend ? buffer_->waitSend(limit) : buffer_->waitRecv(limit);
      if (done) return MessageLink::Status::kDone;
      reason_ = "the wait was aborted";
    } catch (const std::exception& error) {
      if (Clock::now() >= deadline) return MessageLink::Status::kLate;
      reason_ = error.what();
    }
    return MessageLink::Status::kGone;
  }

  Waiters& waiters_;
  Direction direction_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  std::string reason_;
  std::shared_ptr<Waiters::Wait> looking_;  // null: nobody has asked
};

class GlooLink final : public MessageLink {
 public:
  explicit GlooLink(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    return std::make_unique<GlooTransfer>(*context_, waiters_, Direction::kSend, to, tag,
                                          const_cast<std::byte*>(data.data()), data.size());
  }
  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    return std::make_unique<GlooTransfer>(*context_, waiters_, Direction::kReceive, from, tag, data.data(),
                                          data.size());
  }
  void abandon() override {}

 private:
  std::shared_ptr<gloo::Context> context_;
  Waiters waiters_;
};

// Where this rank listens for the others.
std::shared_ptr<gloo::transport::Device> make_device(const LinkRequest& request,
                                                     zero_gloo::RendezvousStore& store) try {
  gloo::transport::tcp::attr where;
  where.iface = request.interface;
  if (!where.iface.empty()) return gloo::transport::tcp::CreateDevice(where);
  where.hostname = store.local_address();
  if (!request.one_host && (where.hostname.starts_with("127.") || where.hostname == "::1")) {
    throw zero_gloo::StoreError("rank " + std::to_string(request.rank) + " reaches rank 0 from " + where.hostname +
                                    ", where other machines cannot reach it\n  set ZERO_COMM_INTERFACE to the network "
                                    "interface that leads to the other machines, or MASTER_ADDR to an address of rank "
                                    "0's machine on their network",
                                request.rank, true);
  }
  return gloo::transport::tcp::CreateDevice(where);
} catch (...) {
  store.abandon();
  throw;
}

MessageLink* open_link(const LinkRequest& request) {
  auto context = std::make_shared<gloo::rendezvous::Context>(request.rank, request.world);
  const milliseconds timeout(request.timeout_ms);
  context->setTimeout(timeout);
  if (request.world > 1) {
    zero_gloo::RendezvousStore store(request);
    auto device = make_device(request, store);
    context->connectFullMesh(store, device);
  }
  return new GlooLink(std::move(context));
}

MessageLink* refuse(LinkFailure* failure, int rank, bool configuration, const char* reason) {
  failure->rank = rank;
  failure->configuration = configuration;
  std::snprintf(failure->reason, sizeof failure->reason, "%s", reason);
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) MessageLink* zero_open_link(const LinkRequest* request,
                                                                              LinkFailure* failure) {
  if (request->version != zero::kLinkVersion)
    return refuse(failure, -1, true, "the plug-in belongs to another version of zero.cpp");
  const NoBrokenPipes guard;
  try {
    return open_link(*request);
  } catch (const zero_gloo::StoreError& error) {
    return refuse(failure, error.rank, error.configuration, error.what());
  } catch (const std::exception& error) {
    return refuse(failure, -1, false, error.what());
  }
}
