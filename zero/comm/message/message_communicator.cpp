#include "zero/comm/message/message_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/host_language.h"
#include "zero/comm/board/board.h"
#include "zero/comm/message/message_exchange.h"

namespace zero {

using std::chrono::milliseconds;
using Status = MessageLink::Status;

namespace {

// Returns the tag of a header's data: the header's tag + 1, with a hash of the size in bits 32 to 47. If a link
// compares these bits, data of an unexpected size (a mismatch) meets no buffer.
std::uint64_t data_tag(std::uint64_t header_tag, std::size_t bytes) {
  constexpr std::uint64_t kSizeShift = 32, kSizeBits = 0xffff;
  const std::uint64_t size = bytes * 0x9e3779b97f4a7c15 >> 48;
  return ((header_tag & ~(kSizeBits << kSizeShift)) + 1) | ((size & kSizeBits) << kSizeShift);
}

constexpr milliseconds kBetweenChecks{50};  // between two calls of check_wait()
constexpr std::size_t kMaxSends = 4096;     // sends in flight before a new one waits for the oldest

}  // namespace

class MessageCommunicator::ExchangeOperation final : public Work::Operation {
 public:
  ExchangeOperation(MessageCommunicator& comm, const Signature& own, std::vector<std::unique_ptr<Exchange>> exchanges)
      : comm_(comm), own_(own), exchanges_(std::move(exchanges)) {}

  void wait() override {
    for (auto& exchange : exchanges_) comm_.take_header(*exchange, own_);
    for (auto& exchange : exchanges_) comm_.take_data(*exchange, own_);
    comm_.begun_.erase(own_.sequence);
  }

  // Only messages: collectives are left to wait().
  bool try_complete() override {
    return own_.operation == zero::Operation::kSend &&
           std::ranges::all_of(exchanges_, [this](auto& exchange) { return comm_.has_come(*exchange, own_); });
  }

 private:
  MessageCommunicator& comm_;
  Signature own_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

MessageCommunicator::MessageCommunicator(std::unique_ptr<MessageLink> link, std::string transport, int rank, int world,
                                         milliseconds timeout)
    : own_run_(new Run{.link = std::move(link), .transport = std::move(transport), .timeout = timeout}),
      run_(*own_run_),
      rank_(rank),
      members_(static_cast<std::size_t>(world)) {
  std::iota(members_.begin(), members_.end(), 0);
  run_.communicators.push_back(this);
  leave_out_strangers();
}

MessageCommunicator::MessageCommunicator(Run& run, int rank, const GroupPlace& place)
    : run_(run), group_(place.number), suffix_(place.suffix()), rank_(rank), members_(place.ranks) {
  run_.communicators.push_back(this);
}

// Peers may still need the last sends. If these fail, there is nobody left to tell.
MessageCommunicator::~MessageCommunicator() {
  leave_by_error();
  try {
    if (!run_.failed) drain();
    if (!run_.failed && group_ == 0) say_goodbye();
  } catch (const CommError&) {
    run_.link->abandon();
  }
  std::erase(run_.communicators, this);
  std::erase_if(run_.sending, [this](const Sending& sending) { return sending.by == this; });
}

std::unique_ptr<Communicator> MessageCommunicator::open(const GroupPlace& place) {
  ZERO_CHECK(place.number < kMaxLinkChannels, "group {} of a run that can have {}", place.number, kMaxLinkChannels - 1);
  run_.newest_group = place.number;
  return std::unique_ptr<Communicator>(new MessageCommunicator(run_, rank_, place));
}

int MessageCommunicator::position(int rank) const {
  return static_cast<int>(std::ranges::lower_bound(members_, rank) - members_.begin());
}

std::uint64_t MessageCommunicator::tag_of(std::uint64_t number, int kind) const {
  return group_ << kLinkChannelShift | (number * 4 + static_cast<std::uint64_t>(kind));
}

std::uint64_t MessageCommunicator::next_tag(int peer) const {
  const auto known = run_.peers.find(peer);
  const bool came_back = group_ == 0 && known != run_.peers.end() && known->second.came_back;
  return tag_of(came_back ? 1 : sequence_ + 1, kHeader);
}

std::vector<int> MessageCommunicator::peers() const {
  std::vector<int> peers = members_;
  const auto own = std::ranges::lower_bound(peers, rank_);
  std::rotate(peers.begin(), own, peers.end());
  peers.erase(peers.begin());
  return peers;
}

// ---- one collective -----------------------------------------------------------------------------------------------

Work MessageCommunicator::exchange(Operation operation, std::size_t bytes, CommTag tag, std::vector<Part> parts,
                                   int root) {
  check_usable();
  const Signature own{.sequence = ++sequence_, .operation = operation, .unit = tag.unit, .bytes = bytes, .root = root};
  for (const Part& part : parts) refuse_collective_with(part.peer, own);
  begun_.insert(own.sequence);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const Part& part : parts) exchanges.push_back(expect_next(part.peer, part.in));
  for (const Part& part : parts) {
    send_with_header(part.peer, tag_of(own.sequence, kHeader), own, part.out);
    count(part.out.size(), part.in.size(), tag);
  }
  return Work(std::make_unique<ExchangeOperation>(*this, own, std::move(exchanges)));
}

void MessageCommunicator::send_with_header(int to, std::uint64_t tag, const Signature& signature,
                                           std::span<const std::byte> data, bool copies) {
  while (run_.sending.size() >= kMaxSends) finish_oldest_send();
  auto header = std::make_unique<Header>();
  header->signature = signature;
  auto transfer = run_.link->send(to, tag, std::as_bytes(std::span(header.get(), 1)));
  run_.sending.push_back({this, to, signature, std::move(header), {}, {}, std::move(transfer)});
  if (data.empty()) return;
  std::vector<std::byte> copied;
  if (copies) copied.assign(data.begin(), data.end());
  transfer = run_.link->send(to, data_tag(tag, data.size()), copies ? std::span<const std::byte>(copied) : data);
  run_.sending.push_back({this, to, signature, nullptr, std::move(copied), copies ? std::span<const std::byte>() : data,
                          std::move(transfer)});
}

std::unique_ptr<MessageCommunicator::Exchange> MessageCommunicator::expect(int from, std::uint64_t tag,
                                                                           std::span<std::byte> in) {
  auto exchange = std::make_unique<Exchange>();
  exchange->peer = from;
  exchange->tag = tag;
  exchange->header_transfer = run_.link->receive(from, tag, std::as_writable_bytes(std::span(&exchange->header, 1)));
  expect_data(*exchange, in);
  return exchange;
}

// Posts the receive at once, because a peer may hold its bytes back until it learns of the receive. Over a slow network
// that news would queue after this rank's own bytes.
void MessageCommunicator::expect_data(Exchange& exchange, std::span<std::byte> in) {
  if (!in.empty()) exchange.data_transfer = run_.link->receive(exchange.peer, data_tag(exchange.tag, in.size()), in);
}

void MessageCommunicator::take_header(Exchange& exchange, const Signature& own) {
  check_usable();
  if (exchange.has_header) return;
  const double begin = monotonic_seconds();
  const Header& header = exchange.header;
  for (;;) {
    wait(*exchange.header_transfer, exchange.peer, own);
    if (header.notice == Notice::kNone) break;
    if (header.notice == Notice::kLeaves)
      fail(exchange.peer, describe(own), fmt::format("it left the run while rank {} waits for it", rank_));
    take_notice(exchange.peer, header);
    exchange.header_transfer =
        run_.link->receive(exchange.peer, exchange.tag, std::as_writable_bytes(std::span(&exchange.header, 1)));
  }
  waited_seconds_ += monotonic_seconds() - begin;
  exchange.has_header = true;
  if (header.signature != own) {
    fail(-1, describe_number(own), describe_mismatch(rank_, own, exchange.peer, header.signature));
  }
}

void MessageCommunicator::take_data(Exchange& exchange, const Signature& own) {
  if (exchange.data_transfer != nullptr && !exchange.has_data) wait(*exchange.data_transfer, exchange.peer, own);
  exchange.has_data = true;
}

// A lost rank sends nothing more; wait() and look() decide whether the run goes on without it.
bool MessageCommunicator::has_come(Exchange& exchange, const Signature& own) {
  const auto is_done = [&](MessageLink::Transfer& transfer) {
    const Status status = exchange.given_up ? Status::kGone : test(transfer, exchange.peer);
    exchange.given_up = status == Status::kGone;
    return status == Status::kDone;
  };
  if (!exchange.has_header && !is_done(*exchange.header_transfer)) return false;
  take_header(exchange, own);
  const bool has_data = exchange.has_data || exchange.data_transfer == nullptr;
  if (!has_data && !is_done(*exchange.data_transfer)) return false;
  take_data(exchange, own);
  return true;
}

void MessageCommunicator::wait(MessageLink::Transfer& transfer, int peer, const Signature& own) {
  const bool looks = run_.watches && own.operation == Operation::kSend;
  require_done(looks ? wait_and_look(transfer, peer) : wait_here(transfer), transfer, peer, own);
}

// A transfer can be waited for again only after test().
Status MessageCommunicator::wait_here(MessageLink::Transfer& transfer) {
  const HostUnlocked unlocked;
  if (host_language().check_wait == nullptr) return transfer.wait(run_.timeout);
  Status status = transfer.test();
  const auto begin = std::chrono::steady_clock::now();
  for (milliseconds waited{0}; status == Status::kLate && waited < run_.timeout;
       waited = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin)) {
    check_wait();
    status = transfer.wait(std::min(kBetweenChecks, run_.timeout - waited));
  }
  return status;
}

void MessageCommunicator::require_done(Status status, const MessageLink::Transfer& transfer, int peer,
                                       const Signature& own) {
  if (status == Status::kDone) return;
  if (status == Status::kLate)
    fail(peer, describe(own),
         fmt::format("it is absent after {} ms; rank {} waits for it", run_.timeout.count(), rank_));
  if (run_.watches) run_.communicators.front()->hear_why();
  const bool told = run_.communicators.front()->lost(peer);  // reported by another transfer
  fail(peer, describe(own),
       fmt::format("its process ended or left while rank {} waits for it ({})", rank_,
                   told ? run_.peers.at(peer).reason : transfer.reason()));
}

// Does not wait for a lost rank if the run goes on without it.
void MessageCommunicator::finish(Sending& sending) {
  const bool looks = run_.watches && sending.signature.operation == Operation::kSend;
  if (!looks) return wait(*sending.transfer, sending.to, sending.signature);
  const Status status = wait_and_look(*sending.transfer, sending.to, /*sends=*/true);
  if (status == Status::kGone && goes_on_without(sending.to)) return;
  require_done(status, *sending.transfer, sending.to, sending.signature);
}

void MessageCommunicator::finish_oldest_send() {
  Sending oldest = std::move(run_.sending.front());
  run_.sending.pop_front();
  oldest.by->finish(oldest);
}

Allocation MessageCommunicator::allocate(std::size_t bytes, Written written) {
  auto inner = std::make_shared<Allocation>(Communicator::allocate(bytes, written));
  // The world releases the memory, because a group may be destroyed by then.
  MessageCommunicator& world = *run_.communicators.front();
  return {inner->data(), bytes, [&world, inner](std::byte* data, std::size_t size) {
            std::deque<Sending>& sending = world.run_.sending;
            const auto from_here = [&](const Sending& s) {
              return s.data.data() < data + size && data < s.data.data() + s.data.size();
            };
            world.leave_by_error();
            try {
              while (!world.run_.failed && std::ranges::any_of(sending, from_here)) world.finish_oldest_send();
            } catch (const CommError&) {
            }
            if (world.run_.failed) sending.clear();  // nothing is sent to anybody any more
            *inner = {};
          }};
}

// Finishes only sends of works that were waited for. A peer takes a large input only when it waits for the same work.
// It may wait only after this rank has gone on.
void MessageCommunicator::drain() {
  check_usable();
  std::deque<Sending> open;
  while (!run_.sending.empty()) {
    Sending oldest = std::move(run_.sending.front());
    run_.sending.pop_front();
    const bool waited = oldest.signature.operation == Operation::kSend || !begun_.contains(oldest.signature.sequence);
    if (oldest.by == this && waited) {
      finish(oldest);
    } else {
      open.push_back(std::move(oldest));
    }
  }
  run_.sending = std::move(open);
}

// ---- failure ------------------------------------------------------------------------------------------------------

void MessageCommunicator::check_usable() const {
  if (run_.failed) throw CommError(run_.failed_rank, run_.failed_operation, run_.failed_reason);
}

void MessageCommunicator::fail(int rank, const std::string& operation, const std::string& reason) {
  run_.failed_rank = rank;
  run_.failed_operation = operation + suffix_;
  run_.failed_reason = reason;
  end_run();
}

// Every rank tells all others, because a rank that waits for this one would otherwise blame it.
void MessageCommunicator::pass_on(const Header& header) {
  run_.failed_rank = header.failed_rank;
  run_.failed_operation = header.failed_operation;
  run_.failed_reason = header.failed_reason;
  end_run();
}

// Sends the reason in place of this rank's next header, in each communicator, because the others wait for that header
// or soon will. Ranks that wait for a message get the reason in place of the next message. All are sent before any is
// waited for, because a wait for a rank that takes nothing ends the link; test() ends nothing.
void MessageCommunicator::end_run() {
  run_.failed = true;
  Header header;
  header.notice = Notice::kFailed;
  header.failed_rank = run_.failed_rank;
  std::strncpy(header.failed_operation, run_.failed_operation.c_str(), sizeof header.failed_operation - 1);
  std::strncpy(header.failed_reason, run_.failed_reason.c_str(), sizeof header.failed_reason - 1);
  Farewells farewells, messages;
  for (const MessageCommunicator* communicator : run_.communicators)
    communicator->send_cause(header, farewells, messages);
  const double begin = monotonic_seconds();
  const auto under_way = [](const auto& message) { return message->test() == Status::kLate; };
  while (std::ranges::any_of(messages, under_way) &&
         monotonic_seconds() - begin < kEcho / std::chrono::duration<double>(1))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto& farewell : farewells) {
    if (farewell->wait(kFarewell) == Status::kLate) break;
  }
  farewells.clear();
  messages.clear();
  run_.link->abandon();
  throw CommError(run_.failed_rank, run_.failed_operation, run_.failed_reason);
}

bool MessageCommunicator::leaves_by_error() const {
  return !run_.failed && !run_.watches && std::uncaught_exceptions() > run_.exceptions;
}

void MessageCommunicator::leave_by_error() {
  if (!leaves_by_error()) return;
  run_.failed_rank = rank_;
  run_.failed_operation = "its part of the run";
  run_.failed_reason = "it left with an error of its own";
  try {
    end_run();
  } catch (const CommError&) {
  }
}

void MessageCommunicator::send_cause(const Header& header, Farewells& farewells, Farewells& messages) const {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  for (const int peer : peers()) {
    if (peer == run_.failed_rank || run_.communicators.front()->lost(peer)) continue;
    farewells.push_back(run_.link->send(peer, next_tag(peer), bytes));
    if (const auto sent = num_sent_.find(peer); sent != num_sent_.end() && !run_.watches)
      messages.push_back(run_.link->send(peer, tag_of(sent->second + 1, kMessageHeader), bytes));
  }
}

void MessageCommunicator::count(std::size_t sent, std::size_t received, CommTag tag) {
  (tag.control ? traffic_.control_sent_bytes : traffic_.sent_bytes) += static_cast<std::int64_t>(sent);
  (tag.control ? traffic_.control_received_bytes : traffic_.received_bytes) += static_cast<std::int64_t>(received);
}

// ---- operations ---------------------------------------------------------------------------------------------------

Work MessageCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const auto block = [&](int r) {
    const int place = position(r);
    return out.subspan(tag.blocks.offset(place, world(), out.size()), tag.blocks.size(place, world(), out.size()));
  };
  ZERO_CHECK(tag.blocks.fit(world(), out.size()) && in.size() == block(rank_).size(),
             "{} blocks, of rank {} {} bytes, go into {} bytes", world(), rank(), in.size(), out.size());
  if (!in.empty() && block(rank_).data() != in.data()) std::memcpy(block(rank_).data(), in.data(), in.size());
  std::vector<Part> parts;
  for (const int peer : peers()) parts.push_back({peer, in, block(peer)});
  return exchange(Operation::kAllGather, tag.blocks.equal() ? in.size() : out.size(), tag, std::move(parts));
}

Work MessageCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const auto block = [&](int place) {
    return in.subspan(tag.blocks.offset(place, world(), in.size()), tag.blocks.size(place, world(), in.size()));
  };
  const std::size_t bytes = block(rank()).size();
  ZERO_CHECK(tag.blocks.fit(world(), in.size()) && out.size() == bytes * world(),
             "{} bytes are not a block for each of {} ranks, or {} bytes not {} times this rank's", in.size(), world(),
             out.size(), world());
  if (bytes > 0) std::memcpy(out.data() + rank() * bytes, block(rank()).data(), bytes);
  std::vector<Part> parts;
  for (const int peer : peers())
    parts.push_back({peer, block(position(peer)), out.subspan(position(peer) * bytes, bytes)});
  return exchange(Operation::kAllToAll, in.size(), tag, std::move(parts));
}

Work MessageCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  ZERO_CHECK(root >= 0 && root < world(), "root {} of {} ranks", root, world());
  root = world_rank(root);
  std::vector<Part> parts;
  for (const int peer : peers()) {
    const bool sends = rank_ == root, receives = peer == root;
    parts.push_back({peer, sends ? data : std::span<std::byte>(), receives ? data : std::span<std::byte>()});
  }
  return exchange(Operation::kBroadcast, data.size(), tag, std::move(parts), root);
}

Work MessageCommunicator::barrier(CommTag tag) {
  std::vector<Part> parts;
  for (const int peer : peers()) parts.push_back({peer, {}, {}});
  return exchange(Operation::kBarrier, 0, tag, std::move(parts));
}

Work MessageCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  ZERO_CHECK(to >= 0 && to < world() && to != rank(), "rank {} sends to rank {} of {}", rank(), to, world());
  to = world_rank(to);
  check_usable();
  const std::uint64_t n = ++num_sent_[to];
  const Signature own{.sequence = n, .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()};
  send_with_header(to, tag_of(n, kMessageHeader), own, data, tag.control && data.size() <= kInlineBytes);
  count(data.size(), 0, tag);
  return {};
}

Work MessageCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  ZERO_CHECK(from >= 0 && from < world() && from != rank(), "rank {} receives from rank {} of {}", rank(), from,
             world());
  from = world_rank(from);
  check_usable();
  const std::uint64_t n = ++num_received_[from];
  const Signature own{.sequence = n, .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()};
  std::vector<std::unique_ptr<Exchange>> exchanges;
  exchanges.push_back(expect(from, tag_of(n, kMessageHeader), data));
  count(0, data.size(), tag);
  return Work(std::make_unique<ExchangeOperation>(*this, own, std::move(exchanges)));
}

}  // namespace zero
