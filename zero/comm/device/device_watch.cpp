// How the host waits for a collective between devices, finds out why it does not end, and ends it.
#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/device/device_handshake.h"
#include "zero/comm/group.h"
#include "zero/comm/waited_time.h"

namespace zero {
namespace {

// Signatures that peers may still be reading. After so many collectives the host waits until peers have read them.
constexpr std::size_t kRemembered = 128;
constexpr double kSpinSeconds = 100e-6;  // polling without sleep
constexpr double kLookSeconds = 0.2;     // interval at which the host looks for dead ranks

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

void rest(double waited) {
  if (waited < kSpinSeconds) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(waited < 0.01 ? 20 : 500));
}

}  // namespace

std::span<const std::byte> DeviceCommunicator::remember(const Signature& own) {
  if (sent_.empty()) sent_.resize(kRemembered);
  if (num_remembered_ > 0 && num_remembered_ % kRemembered == 0) control_.drain();
  Signature& place = sent_[num_remembered_++ % kRemembered];
  place = own;
  return std::as_bytes(std::span(&place, 1));
}

std::unique_ptr<DeviceCommunicator::Handshake> DeviceCommunicator::shake_hands(Operation operation, CommTag tag,
                                                                               std::size_t bytes, int root) {
  check_usable();
  auto handshake = std::make_unique<Handshake>();
  handshake->own = {.sequence = ++sequence_, .operation = operation, .unit = tag.unit, .bytes = bytes, .root = root};
  handshake->ranks.resize(static_cast<std::size_t>(world()));
  handshake->work = control_.all_gather(remember(handshake->own), std::as_writable_bytes(std::span(handshake->ranks)),
                                        {.control = true});
  return handshake;
}

std::unique_ptr<DeviceCommunicator::Handshake> DeviceCommunicator::shake_hands_with(int peer, CommTag tag,
                                                                                    std::size_t bytes,
                                                                                    std::uint64_t number) {
  check_usable();
  auto handshake = std::make_unique<Handshake>();
  handshake->own = {.sequence = number, .operation = Operation::kSend, .unit = tag.unit, .bytes = bytes};
  handshake->ranks.resize(1);
  handshake->first_rank = peer;
  handshake->told = control_.send(remember(handshake->own), peer, {.control = true});
  handshake->work = control_.receive(std::as_writable_bytes(std::span(handshake->ranks)), peer, {.control = true});
  return handshake;
}

void DeviceCommunicator::compare(Handshake& handshake) {
  check_usable();
  try {
    handshake.work.wait();
    handshake.told.wait();
  } catch (const CommError& error) {
    fail({error.rank(), describe(handshake.own) + " between devices", error.what()});
  } catch (...) {
    abandon();
    throw;
  }
  for (std::size_t i = 0; i < handshake.ranks.size(); ++i) {
    const int other = handshake.first_rank + static_cast<int>(i);
    if (handshake.ranks[i] == handshake.own) continue;
    fail({world_rank(other), describe_number(handshake.own) + " between devices",
          describe_mismatch(world_rank(rank()), handshake.own, world_rank(other), handshake.ranks[i])});
  }
}

void DeviceCommunicator::settle(DeviceLink::State state, const Signature& what) {
  WaitedTime time;
  double waited = 0;
  for (; state == DeviceLink::State::kBusy; waited = time.seconds()) {
    if (waited > seconds_of(timeout()))
      fail(what, fmt::format("{} could not begin it within {:g} s", transport(), seconds_of(timeout())));
    rest(waited);
    state = link_->state();
  }
  waited_seconds_ += waited;
  if (state == DeviceLink::State::kFailed) fail(what, fmt::format("{}: {}", transport(), link_->reason()));
}

void DeviceCommunicator::await(const Mark& mark, const Signature& what) try {
  if (link_ == nullptr) return join_working(device_, mark, work_meanwhile_);
  WaitedTime time;
  double waited = 0, looked = 0;
  for (; !device_.done(mark); waited = time.seconds()) {
    if (link_->state() == DeviceLink::State::kFailed) fail(what, fmt::format("{}: {}", transport(), link_->reason()));
    if (waited > seconds_of(timeout()))
      fail(what, fmt::format("all ranks have begun it, and {} has not done it within {:g} s", transport(),
                             seconds_of(timeout())));
    if (waited - looked > kLookSeconds) {
      look_for_the_dead();
      looked = waited;
    }
    rest(waited);
  }
  waited_seconds_ += waited;
} catch (const CommError&) {
  throw;
} catch (...) {  // an error of the device
  abandon();
  throw;
}

// Over messages, the control communicator reports a lost rank only to ranks that wait for it.
void DeviceCommunicator::look_for_the_dead() {
  Arrivals* const arrivals = control_.arrivals();
  if (arrivals == nullptr) return;
  constexpr const char* kOperation = "a collective between devices";
  try {
    bool looked = false;
    arrivals->await([&looked] { return std::exchange(looked, true); });
  } catch (const CommError& error) {
    fail({error.rank(), kOperation, error.what()});
  }
  for (int other = 0; other < world(); ++other)
    if (arrivals->lost(other))
      fail({world_rank(other), kOperation, "it left while other ranks exchange bytes with it"});
}

void DeviceCommunicator::check_usable() const {
  if (failure_ != nullptr) throw CommError(failure_->rank, failure_->operation, failure_->reason);
}

int DeviceCommunicator::world_rank(int rank) const {
  GroupOpener* const groups = control_.groups();
  return groups == nullptr ? rank : groups->world_rank(rank);
}

void DeviceCommunicator::abandon() noexcept {
  if (link_ == nullptr) return;
  try {
    link_->abort();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "{} cannot be ended: {}", transport(), error.what());
  }
}

void DeviceCommunicator::fail(const Signature& what, const std::string& reason) {
  // A dead rank explains more than the link can.
  if (failure_ == nullptr) look_for_the_dead();
  fail({-1, describe(what) + " between devices", reason});
}

void DeviceCommunicator::fail(Failure failure) {
  abandon();
  if (failure_ == nullptr) failure_ = std::make_unique<Failure>(std::move(failure));
  throw CommError(failure_->rank, failure_->operation, failure_->reason);
}

void DeviceCommunicator::close() noexcept {
  if (std::exchange(closed_, true)) return;
  try {
    if (failure_ == nullptr && std::uncaught_exceptions() <= num_exceptions_) {
      await(last_, {.sequence = sequence_, .operation = Operation::kBarrier});
      control_.barrier({.control = true}).wait();  // no other rank needs this one from here on
    }
  } catch (const std::exception& error) {
    ZERO_LOG(error, "ranks failed as their devices parted: {}", error.what());
  }
  abandon();
  if (failure_ == nullptr)
    failure_ = std::make_unique<Failure>(Failure{-1, "a collective between devices", "this rank has closed the link"});
}

}  // namespace zero
