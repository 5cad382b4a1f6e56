// How a rank waits for whichever message comes first, and goes on without a lost rank, over a MessageLink.
#include <algorithm>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/host_language.h"
#include "zero/comm/message/message_exchange.h"

namespace zero {

using std::chrono::milliseconds;
using Status = MessageLink::Status;

namespace {

// Pauses between two polls. MPI moves bytes only during its calls, and Gloo notifies nobody.
class Pauses {
  using Clock = std::chrono::steady_clock;

 public:
  void rest() {
    const auto before = Clock::now();
    if (++number_ > kYields) {
      pause_ = std::min(pause_ + kStep, kLongest);
      std::this_thread::sleep_for(pause_);
    } else {
      std::this_thread::yield();
    }
    // Time for which this rank itself was stopped does not count as waiting.
    waited_ += std::min<Clock::duration>(Clock::now() - before, kMostCounted);
  }
  Clock::duration waited() const { return waited_; }

 private:
  static constexpr int kYields = 50;
  static constexpr std::chrono::microseconds kStep{5}, kLongest{1000};
  static constexpr milliseconds kMostCounted{100};

  int number_ = 0;
  std::chrono::microseconds pause_{0};
  Clock::duration waited_{0};
};

}  // namespace

bool MessageCommunicator::await(const std::function<bool()>& ready, milliseconds limit) {
  run_.watches = true;
  check_usable();
  const double begin = monotonic_seconds();
  Pauses pauses;
  const HostUnlocked unlocked;
  bool is_ready = ready();
  for (; !is_ready && (limit.count() == 0 || pauses.waited() <= limit); is_ready = ready()) {
    look();
    check_wait();
    pauses.rest();
  }
  waited_seconds_ += monotonic_seconds() - begin;
  return is_ready;
}

void MessageCommunicator::may_be_lost() {
  run_.watches = true;
  check_usable();
  notify_others(Notice::kMayBeLost);
}

bool MessageCommunicator::lost(int rank) const {
  const auto peer = run_.peers.find(rank);
  return peer != run_.peers.end() && (peer->second.left || peer->second.lost);
}

// Tests sends only up to the first that is in flight, because test() may need a thread; later sends end after it.
int MessageCommunicator::unread(int rank) {
  run_.watches = true;
  check_usable();
  int number = 0;
  bool late = false;
  std::erase_if(run_.sending, [&](const Sending& sending) {
    if (sending.by != this || sending.to != rank || sending.signature.operation != Operation::kSend) return false;
    late = late || (test(*sending.transfer, rank, /*sends=*/true) == Status::kLate && !lost(rank));
    if (late && sending.header != nullptr) ++number;
    if (late && sending.header == nullptr && number == 0) number = 1;  // its header has been sent, its bytes have not
    return !late;
  });
  return number;
}

// Another transfer may report the end of a rank before a message that the rank had sent arrives.
Status MessageCommunicator::test(MessageLink::Transfer& transfer, int peer, bool sends) {
  const Status status = transfer.test();
  if (status != Status::kLate || !run_.communicators.front()->lost(peer)) return status;
  return !sends && transfer.wait(kFarewell) == Status::kDone ? Status::kDone : Status::kGone;
}

Status MessageCommunicator::wait_and_look(MessageLink::Transfer& transfer, int peer, bool sends) {
  MessageCommunicator& world = *run_.communicators.front();
  Pauses pauses;
  const HostUnlocked unlocked;
  for (;;) {
    if (const Status status = test(transfer, peer, sends); status != Status::kLate) return status;
    if (pauses.waited() > run_.timeout) return Status::kLate;
    world.look();
    check_wait();
    pauses.rest();
  }
}

bool MessageCommunicator::goes_on_without(int peer) {
  if (!run_.watches) return false;
  MessageCommunicator& world = *run_.communicators.front();
  world.look();
  return world.lost(peer);
}

void MessageCommunicator::look() {
  for (const int rank : peers()) {
    look_at(rank);
    const Peer& peer = run_.peers.at(rank);
    if (!peer.lost || peer.may_be_lost) continue;
    hear_why();
    fail(rank, "receive",
         fmt::format("its process ended or left; rank {} waits for messages ({})", rank_, peer.reason));
  }
}

// A lost rank may have ended because of another rank. Then that rank, or the first to notice it, has sent the reason or
// is about to.
void MessageCommunicator::hear_why() {
  for (Pauses pauses; pauses.waited() < kEcho; pauses.rest())
    for (const int rank : peers()) look_at(rank);
}

// A rank's notices arrive in place of its next header, in the order in which it sent them.
void MessageCommunicator::look_at(int rank) {
  Peer& peer = run_.peers[rank];
  while (!peer.left && !peer.lost) {
    if (peer.next.empty()) peer.next.push_back(expect(rank, next_tag(rank), {}));
    const Exchange& newest = *peer.next.back();
    const Status status = newest.header_transfer->test();
    if (status == Status::kLate) return;
    if (status == Status::kGone) {
      peer.lost = true;
      peer.reason = newest.header_transfer->reason();
    } else if (newest.header.notice == Notice::kNone) {  // the rank has begun that collective
      peer.next.push_back(expect(rank, tag_of(sequence_ + peer.next.size() + 1, kHeader), {}));
    } else {
      const Header header = newest.header;
      peer.next.pop_back();
      take_notice(rank, header);
    }
  }
}

void MessageCommunicator::take_notice(int rank, const Header& header) {
  switch (header.notice) {
    case Notice::kNone:
      return;
    case Notice::kFailed:
      pass_on(header);
    case Notice::kMayBeLost:
      run_.peers[rank].may_be_lost = true;
      return;
    case Notice::kLeaves:
      run_.peers[rank].left = true;
      return;
  }
}

std::unique_ptr<MessageCommunicator::Exchange> MessageCommunicator::expect_next(int from, std::span<std::byte> in) {
  const auto peer = group_ == 0 ? run_.peers.find(from) : run_.peers.end();
  const std::uint64_t tag = tag_of(sequence_, kHeader);
  if (peer == run_.peers.end() || peer->second.next.empty()) return expect(from, tag, in);
  std::unique_ptr<Exchange> exchange = std::move(peer->second.next.front());
  peer->second.next.pop_front();
  expect_data(*exchange, in);
  return exchange;
}

void MessageCommunicator::notify_others(Notice notice) {
  for (const int peer : peers()) {
    if (lost(peer)) continue;
    auto header = std::make_unique<Header>();
    header->notice = notice;
    auto transfer = run_.link->send(peer, next_tag(peer), std::as_bytes(std::span(header.get(), 1)));
    run_.notices.push_back({this, peer, {}, std::move(header), {}, {}, std::move(transfer)});
  }
}

// Waits until every living rank has received the notice. A rank that computes for long receives it later, if its
// library moves bytes only during calls. A rank that leaves with an error does not wait for that.
void MessageCommunicator::say_goodbye() {
  if (!run_.watches) return;
  const bool hurries = std::uncaught_exceptions() > 0;
  notify_others(Notice::kLeaves);
  Pauses pauses;
  const auto under_way = [this](const Sending& notice) {
    return !lost(notice.to) && notice.transfer->test() == Status::kLate;
  };
  bool told = false;
  for (;;) {
    const auto notice = std::ranges::find_if(run_.notices, under_way);
    if (notice == run_.notices.end()) return;
    if (hurries && pauses.waited() > kFarewell) return run_.link->abandon();
    if (!told && pauses.waited() > run_.timeout) {
      ZERO_LOG(warn, "rank {} has done its part, and waits until rank {} has received that", rank_, notice->to);
      told = true;
    }
    look();  // other ranks may also leave
    pauses.rest();
  }
}

}  // namespace zero
