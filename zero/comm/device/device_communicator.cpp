// The operations that move bytes, as work in lanes. Waits are in device_watch.cpp, sums in device_sum.cpp.
#include "zero/comm/device/device_communicator.h"

#include <exception>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"
#include "zero/comm/device/device_handshake.h"

namespace zero {
namespace {

constexpr std::size_t kHelloBytes = 64;

std::span<const std::byte> block_of(std::span<const std::byte> all, const Blocks& blocks, int rank, int world) {
  return all.subspan(blocks.offset(rank, world, all.size()), blocks.size(rank, world, all.size()));
}
std::span<std::byte> block_of(std::span<std::byte> all, const Blocks& blocks, int rank, int world) {
  return all.subspan(blocks.offset(rank, world, all.size()), blocks.size(rank, world, all.size()));
}

}  // namespace

// A queued collective; `done` is the mark after it.
class DeviceCommunicator::Queued final : public Work::Operation {
 public:
  Queued(DeviceCommunicator& comm, std::unique_ptr<Handshake> handshake, Mark done)
      : comm_(comm), handshake_(std::move(handshake)), done_(std::move(done)) {}
  ~Queued() override {
    if (handshake_->stats_slot) comm_.stats_taken_[*handshake_->stats_slot] = false;
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;

  void wait() override {
    comm_.compare(*handshake_);
    comm_.await(done_, handshake_->own);
    lift();
    handshake_->take_stats(comm_);
  }
  // Bytes that have arrived came from all ranks. Only wait() compares the ranks' calls.
  bool try_complete() override {
    comm_.check_usable();
    if (!comm_.device_.done(done_)) return false;
    lift();
    return true;
  }

 private:
  void lift() {
    if (!std::exchange(lifted_, true)) comm_.device_.wait(Lane::kUp, done_);
  }

  DeviceCommunicator& comm_;
  std::unique_ptr<Handshake> handshake_;
  Mark done_;
  bool lifted_ = false;
};

DeviceCommunicator::DeviceCommunicator(Communicator& control, Device& device, std::unique_ptr<DeviceLink> link,
                                       const Options& options)
    : control_(control),
      device_(device),
      linked_sums_(options.linked_sums && link != nullptr),
      ranks_of_a_kernel_(options.ranks_of_a_kernel),
      num_exceptions_(std::uncaught_exceptions()),
      staging_(link == nullptr ? Allocation()
                               : device.allocate(static_cast<std::size_t>(staging_of(control.world(), options)))),
      link_(std::move(link)) {
  ZERO_CHECK(link_ != nullptr || world() == 1, "{} ranks on devices without a link", world());
  prepare_sums(options);
  if (link_ != nullptr) connect();
}

DeviceCommunicator::~DeviceCommunicator() {
  close();
}

// Libraries connect two ranks at their first exchange, and wait for both. So connect here, while all ranks are present.
void DeviceCommunicator::connect() {
  const auto own = static_cast<std::size_t>(rank()), ranks = static_cast<std::size_t>(world());
  const Allocation hello = device_.allocate((2 * ranks + 1) * kHelloBytes);
  const std::span<std::byte> sent = hello.bytes().first(kHelloBytes);
  const std::span<std::byte> gathered = hello.bytes().subspan(kHelloBytes, ranks * kHelloBytes);
  const std::span<std::byte> received = hello.bytes().subspan((1 + ranks) * kHelloBytes);
  try {
    all_gather(sent, gathered, {.control = true}).wait();
    std::vector<DeviceLink::Sent> messages;
    std::vector<DeviceLink::Received> answers;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer == own) continue;
      messages.push_back({static_cast<int>(peer), sent.data(), kHelloBytes});
      answers.push_back({static_cast<int>(peer), received.data() + peer * kHelloBytes, kHelloBytes});
    }
    auto handshake = shake_hands(Operation::kAllToAll, {.control = true}, kHelloBytes);
    exchange(messages, answers, std::array{reads(sent), writes(received)}, handshake->own);
    queued(std::move(handshake), Lane::kGather).wait();
  } catch (...) {
    abandon();  // before `hello` is freed
    throw;
  }
  traffic_ = {};
}

Work DeviceCommunicator::queued(std::unique_ptr<Handshake> handshake, Lane lane) {
  last_ = device_.mark(lane);
  return Work(std::make_unique<Queued>(*this, std::move(handshake), last_));
}

void DeviceCommunicator::exchange(std::span<const DeviceLink::Sent> sent,
                                  std::span<const DeviceLink::Received> received, std::span<const Access> accesses,
                                  const Signature& what) {
  if (sent.empty() && received.empty()) return;
  device_.touches(Lane::kGather, accesses, "messages between devices");
  settle(link_->exchange(device_.native_queue(Lane::kGather), sent, received), what);
}

// Makes kGather wait for the writers of inputs and the users of outputs.
void DeviceCommunicator::follow_both() {
  follow(device_, Lane::kGather, Lane::kDown);
  follow(device_, Lane::kGather, Lane::kUp);
}

Work DeviceCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  ZERO_CHECK(tag.blocks.fit(world(), out.size()), "{} bytes are not blocks of {} ranks", out.size(), world());
  const std::span<std::byte> own = block_of(out, tag.blocks, rank(), world());
  ZERO_CHECK(in.size() == own.size(), "a block of {} bytes has a place of {}", in.size(), own.size());
  auto handshake = shake_hands(Operation::kAllGather, tag, out.size());
  follow_both();
  const bool in_place = in.data() == own.data();
  if (link_ != nullptr && tag.blocks.equal()) {
    const std::array accesses{reads(in), writes(out)};
    device_.touches(Lane::kGather, accesses, "all_gather between devices");
    settle(link_->all_gather(device_.native_queue(Lane::kGather), in, out.data()), handshake->own);
  } else {
    if (!in_place && !in.empty()) device_.copy(Lane::kGather, own, in);
    std::vector<DeviceLink::Sent> sent;
    std::vector<DeviceLink::Received> received;
    std::vector<Access> accesses{reads(in)};
    for (int peer = 0; peer < world(); ++peer) {
      if (peer == rank()) continue;
      const std::span<std::byte> theirs = block_of(out, tag.blocks, peer, world());
      if (!in.empty()) sent.push_back({peer, in.data(), in.size()});
      if (theirs.empty()) continue;
      received.push_back({peer, theirs.data(), theirs.size()});
      accesses.push_back(writes(theirs));
    }
    exchange(sent, received, accesses, handshake->own);
  }
  count(in.size() * static_cast<std::size_t>(world() - 1), out.size() - in.size(), tag);
  return queued(std::move(handshake), Lane::kGather);
}

Work DeviceCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::span<const std::byte> own = block_of(in, tag.blocks, rank(), world());
  ZERO_CHECK(out.size() == own.size() * static_cast<std::size_t>(world()), "{} bytes come into {}",
             own.size() * static_cast<std::size_t>(world()), out.size());
  auto handshake = shake_hands(Operation::kAllToAll, tag, in.size());
  follow_both();
  if (!own.empty()) device_.copy(Lane::kGather, block_of(out, {}, rank(), world()), own);
  std::vector<DeviceLink::Sent> sent;
  std::vector<DeviceLink::Received> received;
  for (int peer = 0; peer < world(); ++peer) {
    const std::span<const std::byte> theirs = block_of(in, tag.blocks, peer, world());
    const std::span<std::byte> place = block_of(out, {}, peer, world());
    if (peer != rank() && !theirs.empty()) sent.push_back({peer, theirs.data(), theirs.size()});
    if (peer != rank() && !place.empty()) received.push_back({peer, place.data(), place.size()});
  }
  exchange(sent, received, std::array{reads(in), writes(out)}, handshake->own);
  count(in.size() - own.size(), out.size() - own.size(), tag);
  return queued(std::move(handshake), Lane::kGather);
}

Work DeviceCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  auto handshake = shake_hands(Operation::kBroadcast, tag, data.size(), root);
  follow_both();
  std::vector<DeviceLink::Sent> sent;
  std::vector<DeviceLink::Received> received;
  const bool is_root = root == rank();
  for (int peer = 0; peer < world() && is_root && !data.empty(); ++peer)
    if (peer != root) sent.push_back({peer, data.data(), data.size()});
  if (!is_root && !data.empty()) received.push_back({root, data.data(), data.size()});
  exchange(sent, received, std::array{is_root ? reads(data) : writes(data)}, handshake->own);
  count(sent.size() * data.size(), received.size() * data.size(), tag);
  return queued(std::move(handshake), Lane::kGather);
}

Work DeviceCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  auto handshake = shake_hands_with(to, tag, data.size(), ++num_sent_[to]);
  follow_both();
  const DeviceLink::Sent message{to, data.data(), data.size()};
  exchange({&message, data.empty() ? 0U : 1U}, {}, std::array{reads(data)}, handshake->own);
  count(data.size(), 0, tag);
  return queued(std::move(handshake), Lane::kGather);
}

Work DeviceCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  auto handshake = shake_hands_with(from, tag, data.size(), ++num_received_[from]);
  follow_both();
  const DeviceLink::Received message{from, data.data(), data.size()};
  exchange({}, {&message, data.empty() ? 0U : 1U}, std::array{writes(data)}, handshake->own);
  count(0, data.size(), tag);
  return queued(std::move(handshake), Lane::kGather);
}

Allocation DeviceCommunicator::allocate(std::size_t bytes, Written /*written*/) {
  return device_.allocate(bytes);
}

void DeviceCommunicator::count(std::size_t sent, std::size_t received, CommTag tag) {
  (tag.control ? traffic_.control_sent_bytes : traffic_.sent_bytes) += static_cast<std::int64_t>(sent);
  (tag.control ? traffic_.control_received_bytes : traffic_.received_bytes) += static_cast<std::int64_t>(received);
}

}  // namespace zero
