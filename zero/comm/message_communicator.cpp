#include "zero/comm/message_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/clock.h"
#include "zero/base/error.h"

namespace zero {

using std::chrono::milliseconds;
using Status = MessageLink::Status;

namespace {

// What travels under one number has four tags, one a kind.
enum class MessageKind : std::uint64_t { kHeader, kData, kMessageHeader, kMessageData };
std::uint64_t tag_of(std::uint64_t number, MessageKind part) {
  return number * 4 + static_cast<std::uint64_t>(part);
}

constexpr std::size_t kMaxSends = 4096;  // under way before begin waits for the oldest
constexpr milliseconds kFarewell{500};   // for telling the others why this rank fails

}  // namespace

struct MessageCommunicator::Header {
  Signature signature;
  // kNone as operation: the sender has failed, for this reason.
  std::int32_t failed_rank = -1;
  char failed_operation[128] = {};
  char failed_reason[384] = {};
};

// What comes from one peer.
struct MessageCommunicator::Exchange {
  int peer = 0;
  std::uint64_t tag = 0;
  std::span<std::byte> in;
  Header header;
  std::unique_ptr<MessageLink::Transfer> header_transfer, data_transfer;
};

class MessageCommunicator::ExchangeOperation final : public Work::Operation {
 public:
  ExchangeOperation(MessageCommunicator& comm, const Signature& own, std::vector<std::unique_ptr<Exchange>> exchanges)
      : comm_(comm), own_(own), exchanges_(std::move(exchanges)) {}

  void wait() override {
    for (auto& exchange : exchanges_) comm_.take_header(*exchange, own_);
    for (auto& exchange : exchanges_) comm_.take_data(*exchange, own_);
    comm_.begun_.erase(own_.sequence);
  }

 private:
  MessageCommunicator& comm_;
  Signature own_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

MessageCommunicator::MessageCommunicator(std::unique_ptr<MessageLink> link, std::string transport, int rank, int world,
                                         milliseconds timeout)
    : link_(std::move(link)),
      transport_(std::move(transport)),
      rank_(rank),
      world_(world),
      timeout_(timeout),
      num_sent_(world),
      num_received_(world) {}

// Peers may still need what was sent last. Where that fails there is nobody left to tell.
MessageCommunicator::~MessageCommunicator() {
  try {
    if (!failed_) drain();
  } catch (const CommError&) {
    link_->abandon();
  }
}

std::vector<int> MessageCommunicator::peers() const {
  std::vector<int> peers;
  for (int step = 1; step < world_; ++step) peers.push_back((rank_ + step) % world_);
  return peers;
}

// ---- one collective -----------------------------------------------------------------------------------------------

Work MessageCommunicator::exchange(Operation operation, std::size_t bytes, CommTag tag, std::vector<Part> parts,
                                   int root) {
  check_usable();
  const Signature own{.sequence = ++sequence_, .operation = operation, .unit = tag.unit, .bytes = bytes, .root = root};
  begun_.insert(own.sequence);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const Part& part : parts)
    exchanges.push_back(expect(part.peer, tag_of(own.sequence, MessageKind::kHeader), part.in));
  for (const Part& part : parts) {
    send_with_header(part.peer, tag_of(own.sequence, MessageKind::kHeader), own, part.out);
    count(part.out.size(), part.in.size(), tag);
  }
  return Work(std::make_unique<ExchangeOperation>(*this, own, std::move(exchanges)));
}

void MessageCommunicator::send_with_header(int to, std::uint64_t tag, const Signature& signature,
                                           std::span<const std::byte> data) {
  while (sending_.size() >= kMaxSends) finish_oldest_send();
  auto header = std::make_unique<Header>();
  header->signature = signature;
  auto transfer = link_->send(to, tag, std::as_bytes(std::span(header.get(), 1)));
  sending_.push_back({to, signature, std::move(header), {}, std::move(transfer)});
  if (!data.empty()) sending_.push_back({to, signature, nullptr, data, link_->send(to, tag + 1, data)});
}

std::unique_ptr<MessageCommunicator::Exchange> MessageCommunicator::expect(int from, std::uint64_t tag,
                                                                           std::span<std::byte> in) {
  auto exchange = std::make_unique<Exchange>();
  exchange->peer = from;
  exchange->tag = tag;
  exchange->in = in;
  exchange->header_transfer = link_->receive(from, tag, std::as_writable_bytes(std::span(&exchange->header, 1)));
  return exchange;
}

void MessageCommunicator::take_header(Exchange& exchange, const Signature& own) {
  check_usable();
  const double begin = monotonic_seconds();
  wait(*exchange.header_transfer, exchange.peer, own);
  waited_seconds_ += monotonic_seconds() - begin;
  const Header& header = exchange.header;
  if (header.signature.operation == Operation::kNone) {
    fail(header.failed_rank, header.failed_operation, header.failed_reason, false);
  }
  if (header.signature != own) {
    fail(-1, describe_number(own), describe_mismatch(rank_, own, exchange.peer, header.signature), true);
  }
  if (!exchange.in.empty()) exchange.data_transfer = link_->receive(exchange.peer, exchange.tag + 1, exchange.in);
}

void MessageCommunicator::take_data(Exchange& exchange, const Signature& own) {
  if (exchange.data_transfer != nullptr) wait(*exchange.data_transfer, exchange.peer, own);
}

void MessageCommunicator::wait(MessageLink::Transfer& transfer, int peer, const Signature& own) {
  switch (transfer.wait(timeout_)) {
    case Status::kDone:
      return;
    case Status::kLate:
      fail(peer, describe(own),
           fmt::format("it is not there after {} ms; rank {} waits for it", timeout_.count(), rank_), true);
    case Status::kGone:
      fail(peer, describe(own),
           fmt::format("its process ended or left while rank {} waits for it ({})", rank_, transfer.reason()), true);
  }
}

void MessageCommunicator::finish_oldest_send() {
  Sending oldest = std::move(sending_.front());
  sending_.pop_front();
  wait(*oldest.transfer, oldest.to, oldest.signature);
}

Allocation MessageCommunicator::allocate(std::size_t bytes, Written written) {
  auto inner = std::make_shared<Allocation>(Communicator::allocate(bytes, written));
  return {inner->data(), bytes, [this, inner](std::byte* data, std::size_t size) {
            const auto from_here = [&](const Sending& s) {
              return s.data.data() < data + size && data < s.data.data() + s.data.size();
            };
            try {
              while (std::ranges::any_of(sending_, from_here)) finish_oldest_send();
            } catch (const CommError&) {
              sending_.clear();  // the run has failed: nobody is sent anything any more
            }
            *inner = {};
          }};
}

// Of what was waited for, and no more: a peer takes a large input only when it waits for the same work, which it may do
// only after this rank has gone on.
void MessageCommunicator::drain() {
  check_usable();
  std::deque<Sending> open;
  while (!sending_.empty()) {
    Sending oldest = std::move(sending_.front());
    sending_.pop_front();
    if (oldest.signature.operation != Operation::kSend && begun_.contains(oldest.signature.sequence)) {
      open.push_back(std::move(oldest));
    } else {
      wait(*oldest.transfer, oldest.to, oldest.signature);
    }
  }
  sending_ = std::move(open);
}

// ---- failure ------------------------------------------------------------------------------------------------------

void MessageCommunicator::check_usable() const {
  if (failed_) throw CommError(failed_rank_, failed_operation_, failed_reason_);
}

void MessageCommunicator::fail(int rank, const std::string& operation, const std::string& reason, bool tell) {
  failed_ = true;
  failed_rank_ = rank;
  failed_operation_ = operation;
  failed_reason_ = reason;
  if (tell) tell_why();
  link_->abandon();
  throw CommError(rank, operation, reason);
}

// The others wait for this rank's next header, or soon will: it says why there will be none.
void MessageCommunicator::tell_why() {
  Header header;
  header.failed_rank = failed_rank_;
  std::strncpy(header.failed_operation, failed_operation_.c_str(), sizeof header.failed_operation - 1);
  std::strncpy(header.failed_reason, failed_reason_.c_str(), sizeof header.failed_reason - 1);
  std::vector<std::unique_ptr<MessageLink::Transfer>> farewells;
  for (const int peer : peers()) {
    if (peer == failed_rank_) continue;
    farewells.push_back(
        link_->send(peer, tag_of(sequence_ + 1, MessageKind::kHeader), std::as_bytes(std::span(&header, 1))));
  }
  for (auto& farewell : farewells) {
    if (farewell->wait(kFarewell) != Status::kDone) break;
  }
}

void MessageCommunicator::count(std::size_t sent, std::size_t received, CommTag tag) {
  (tag.control ? traffic_.control_sent_bytes : traffic_.sent_bytes) += static_cast<std::int64_t>(sent);
  (tag.control ? traffic_.control_received_bytes : traffic_.received_bytes) += static_cast<std::int64_t>(received);
}

// ---- the movements ------------------------------------------------------------------------------------------------

Work MessageCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  ZERO_CHECK(out.size() == in.size() * world_, "{} blocks of {} bytes go into {} bytes", world_, in.size(), out.size());
  const auto block = [&](int r) { return out.subspan(r * in.size(), in.size()); };
  if (!in.empty() && block(rank_).data() != in.data()) std::memcpy(block(rank_).data(), in.data(), in.size());
  std::vector<Part> parts;
  for (const int peer : peers()) parts.push_back({peer, in, block(peer)});
  return exchange(Operation::kAllGather, in.size(), tag, std::move(parts));
}

Work MessageCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  ZERO_CHECK(out.size() == in.size() && in.size() % world_ == 0, "{} and {} bytes are not {} equal blocks", in.size(),
             out.size(), world_);
  const std::size_t bytes = in.size() / world_;
  if (bytes > 0) std::memcpy(out.data() + rank_ * bytes, in.data() + rank_ * bytes, bytes);
  std::vector<Part> parts;
  for (const int peer : peers())
    parts.push_back({peer, in.subspan(peer * bytes, bytes), out.subspan(peer * bytes, bytes)});
  return exchange(Operation::kAllToAll, in.size(), tag, std::move(parts));
}

Work MessageCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  ZERO_CHECK(root >= 0 && root < world_, "root {} of {} ranks", root, world_);
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
  ZERO_CHECK(to >= 0 && to < world_ && to != rank_, "rank {} sends to rank {} of {}", rank_, to, world_);
  check_usable();
  const std::uint64_t n = ++num_sent_[to];
  const Signature own{.sequence = n, .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()};
  send_with_header(to, tag_of(n, MessageKind::kMessageHeader), own, data);
  count(data.size(), 0, tag);
  return {};
}

Work MessageCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  ZERO_CHECK(from >= 0 && from < world_ && from != rank_, "rank {} receives from rank {} of {}", rank_, from, world_);
  check_usable();
  const std::uint64_t n = ++num_received_[from];
  const Signature own{.sequence = n, .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()};
  std::vector<std::unique_ptr<Exchange>> exchanges;
  exchanges.push_back(expect(from, tag_of(n, MessageKind::kMessageHeader), data));
  count(0, data.size(), tag);
  return Work(std::make_unique<ExchangeOperation>(*this, own, std::move(exchanges)));
}

}  // namespace zero
