#include "plugins/gloo/connection_watch.h"

#include <cstdint>
#include <utility>

#include "zero/base/process/signals_blocked.h"

#include "plugins/gloo/any_time.h"

namespace zero_gloo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr auto kTimeToBeDone = std::chrono::seconds(1);
// Tag of the last channel's last collective, which nobody uses.
constexpr std::uint64_t kNobodysTag = ~std::uint64_t{0};

}  // namespace

Connection::Connection(std::shared_ptr<gloo::Context> context, int place)
    : context_(std::move(context)),
      place_(place),
      never_received_(context_->createUnboundBuffer(&byte_, sizeof byte_)) {
  try {
    never_received_->recv(place_, kNobodysTag);
  } catch (const std::exception& error) {
    reason_ = error.what();
  }
}

bool Connection::is_to(const std::shared_ptr<gloo::Context>& context, int place) const {
  return context_ == context && place_ == place;
}

// A wait that was aborted before it begins returns at once, or throws if the connection has failed.
bool Connection::has_failed() {
  if (!reason_.empty()) return true;
  try {
    never_received_->abortWaitRecv();
    never_received_->waitRecv(kAnyTime);
  } catch (const std::exception& error) {
    reason_ = error.what();
  }
  return !reason_.empty();
}

ConnectionWatch::~ConnectionWatch() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Connection> ConnectionWatch::connection(int rank, const std::shared_ptr<gloo::Context>& context,
                                                        int place) {
  std::shared_ptr<Connection>& newest = connections_[rank];
  if (newest == nullptr || !newest->is_to(context, place)) newest = std::make_shared<Connection>(context, place);
  return newest;
}

void ConnectionWatch::look() {
  std::unique_lock lock(mutex_);
  while (!over_changed_.wait_for(lock, kBetweenLooks, [this] { return over_; })) {
    const auto now = Clock::now();
    for (Waiting* waiting : waiting_) {
      if (waiting->aborted_ || now - waiting->since_ < kTimeToBeDone || !waiting->connection_->has_failed()) continue;
      waiting->aborted_ = true;
      waiting->abort_();
    }
  }
}

ConnectionWatch::Waiting::Waiting(ConnectionWatch& watch, std::shared_ptr<Connection> connection,
                                  std::function<void()> abort)
    : watch_(watch), connection_(std::move(connection)), abort_(std::move(abort)), since_(Clock::now()) {
  const std::scoped_lock lock(watch_.mutex_);
  place_ = watch_.waiting_.insert(watch_.waiting_.end(), this);
  if (watch_.thread_.joinable()) return;
  const zero::SignalsBlocked guard;
  watch_.thread_ = std::thread([&watch] { watch.look(); });
}

ConnectionWatch::Waiting::~Waiting() {
  const std::scoped_lock lock(watch_.mutex_);
  watch_.waiting_.erase(place_);
}

std::string ConnectionWatch::Waiting::why_aborted() {
  const std::scoped_lock lock(watch_.mutex_);
  return aborted_ ? connection_->reason() : "";
}

}  // namespace zero_gloo
