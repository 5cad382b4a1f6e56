// libzero_transport_gloo.so: MessageLink over Gloo's unbound buffers on TCP.
//
// Gloo moves the bytes on its own thread, which sleeps in epoll. Ranks find each other through RendezvousStore; each
// then listens on the address that leads to rank 0, or on the requested interface (ZERO_COMM_INTERFACE). In Gloo, a
// wait that times out ends all connections, and so it does in MessageLink. All waits over a connection learn of its end
// (connection_watch.h). A rank that comes back is reached by a context of its own (gloo_door.h).
#include <cstdio>
#include <memory>
#include <string>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <sched.h>

#include "zero/comm/message/message_link.h"

#include "plugins/gloo/any_time.h"
#include "plugins/gloo/connection_watch.h"
#include "plugins/gloo/gloo_door.h"
#include "plugins/gloo/mesh.h"
#include "plugins/gloo/no_broken_pipes.h"
#include "plugins/gloo/rendezvous_store.h"
#include "plugins/gloo/waiters.h"

namespace {

using std::chrono::milliseconds;
using zero::LinkFailure;
using zero::LinkRequest;
using zero::MessageLink;
using zero_gloo::Connection;
using zero_gloo::ConnectionWatch;
using zero_gloo::GlooDoor;
using zero_gloo::kAnyTime;
using zero_gloo::NoBrokenPipes;
using zero_gloo::Waiters;
using Clock = std::chrono::steady_clock;

enum class Direction { kSend, kReceive };

class GlooTransfer final : public MessageLink::Transfer {
 public:
  GlooTransfer(int rank, const GlooDoor::Way& way, ConnectionWatch& watch, Waiters& waiters, Direction direction,
               std::uint64_t tag, std::byte* data, std::size_t bytes)
      : watch_(watch), waiters_(waiters), direction_(direction) {
    const NoBrokenPipes guard;
    if (way.context == nullptr) {
      reason_ = "there is no connection to it";
      return;
    }
    try {
      connection_ = watch.connection(rank, way.context, way.place);
      buffer_ = way.context->createUnboundBuffer(data, bytes);
      direction == Direction::kSend ? buffer_->send(way.place, tag) : buffer_->recv(way.place, tag);
    } catch (const std::exception& error) {
      reason_ = error.what();
    }
  }

  ~GlooTransfer() override {
    if (looking_ == nullptr) return;
    abort();
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
      ConnectionWatch::Waiting waiting(watch_, connection_, [this] { abort(); });
      const bool done = direction_ == Direction::kSend ? buffer_->waitSend(limit) : buffer_->waitRecv(limit);
      if (done) return MessageLink::Status::kDone;
      reason_ = waiting.why_aborted();
      if (reason_.empty()) reason_ = "the wait was aborted";
    } catch (const std::exception& error) {
      if (Clock::now() >= deadline) return MessageLink::Status::kLate;
      reason_ = error.what();
    }
    return MessageLink::Status::kGone;
  }

  // Makes a wait in progress return; called from any thread.
  void abort() { direction_ == Direction::kSend ? buffer_->abortWaitSend() : buffer_->abortWaitRecv(); }

  ConnectionWatch& watch_;
  Waiters& waiters_;
  Direction direction_;
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  std::string reason_;
  std::shared_ptr<Waiters::Wait> looking_;  // null: test() has not been called
};

class GlooLink final : public MessageLink {
 public:
  // `mesh`: null in a replacement. `door`: null if no replacement may come.
  GlooLink(std::shared_ptr<gloo::Context> mesh, std::unique_ptr<GlooDoor> door)
      : mesh_(std::move(mesh)), door_(std::move(door)) {}

  std::unique_ptr<Transfer> send(int to, std::uint64_t tag, std::span<const std::byte> data) override {
    return begin(to, Direction::kSend, tag, const_cast<std::byte*>(data.data()), data.size());
  }
  std::unique_ptr<Transfer> receive(int from, std::uint64_t tag, std::span<std::byte> data) override {
    return begin(from, Direction::kReceive, tag, data.data(), data.size());
  }
  void abandon() override {
    if (door_ != nullptr) door_->abandon();
  }
  Door* door() override { return door_.get(); }

 private:
  std::unique_ptr<Transfer> begin(int rank, Direction direction, std::uint64_t tag, std::byte* data,
                                  std::size_t bytes) {
    const GlooDoor::Way way = door_ != nullptr ? door_->way_to(rank) : GlooDoor::Way{mesh_, rank};
    return std::make_unique<GlooTransfer>(rank, way, watch_, waiters_, direction, tag, data, bytes);
  }

  std::shared_ptr<gloo::Context> mesh_;
  std::unique_ptr<GlooDoor> door_;
  ConnectionWatch watch_;
  Waiters waiters_;
};

// Threads that are started during its lifetime do not preempt others when they wake (SCHED_BATCH). If the system
// refuses, or the calling thread has a policy of its own, threads start as usual.
class BatchThreads {
 public:
  BatchThreads() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~BatchThreads() {
    if (changed_) set(SCHED_OTHER);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }

  bool changed_;
};

// Gloo's thread polls a connection repeatedly while another thread sends over it. If both share a core and Gloo's
// thread preempts the sender when it wakes, the sender must wait for the end of its time slice. That takes milliseconds
// for each message.
std::shared_ptr<gloo::transport::Device> create_device(const gloo::transport::tcp::attr& where) {
  const BatchThreads guard;
  return gloo::transport::tcp::CreateDevice(where);
}

// Makes the device on which this rank listens for the others.
std::shared_ptr<gloo::transport::Device> make_device(const LinkRequest& request,
                                                     const zero_gloo::RendezvousStore& store) {
  gloo::transport::tcp::attr where;
  where.iface = request.interface;
  if (!where.iface.empty()) return create_device(where);
  where.hostname = store.local_address();
  if (!request.one_host && (where.hostname.starts_with("127.") || where.hostname == "::1")) {
    throw zero_gloo::StoreError(
        "rank " + std::to_string(request.rank) + " reaches rank 0 from " + where.hostname +
            ", and other machines cannot reach that address\n  set ZERO_COMM_INTERFACE to the network interface that "
            "leads to the other machines, or MASTER_ADDR to an address of rank 0's machine on their network",
        request.rank, true);
  }
  return create_device(where);
}

MessageLink* come_back(const LinkRequest& request) {
  auto store = std::make_unique<zero_gloo::RendezvousStore>(request, milliseconds(request.timeout_ms));
  auto door = std::make_unique<GlooDoor>(request, nullptr, make_device(request, *store), nullptr);
  door->come(std::move(store));
  return new GlooLink(nullptr, std::move(door));
}

MessageLink* open_link(const LinkRequest& request) {
  if (request.replacement > 0) return come_back(request);
  if (request.world == 1)
    return new GlooLink(std::make_shared<gloo::rendezvous::Context>(request.rank, request.world), nullptr);
  std::unique_ptr<zero_gloo::StoreServer> server;
  if (request.rank == 0) server = zero_gloo::open_store(request);
  std::unique_ptr<zero_gloo::RendezvousStore> store;  // hangs up before the server waits for that
  std::shared_ptr<gloo::transport::Device> device;
  try {
    store = std::make_unique<zero_gloo::RendezvousStore>(request, milliseconds(request.timeout_ms));
    device = make_device(request, *store);
  } catch (...) {
    if (server != nullptr) server->abandon();  // the others learn at once that rank 0 has left
    throw;
  }
  auto mesh = zero_gloo::meet_all(*store, device, request);
  store.reset();
  if (request.most_replacements == 0) return new GlooLink(std::move(mesh), nullptr);
  return new GlooLink(mesh, std::make_unique<GlooDoor>(request, std::move(server), device, mesh));
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
