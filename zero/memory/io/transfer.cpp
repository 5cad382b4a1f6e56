#include "zero/memory/io/transfer.h"

#include <exception>

#include "zero/base/error/log.h"

namespace zero {
namespace {

class Chain final : public Transfer::Pending {
 public:
  Chain(Transfer first, std::function<Transfer()> second) : leg_(std::move(first)), second_(std::move(second)) {}

  void finish() override {
    if (error_ != nullptr) std::rethrow_exception(error_);
    leg_.wait();
    if (second_ == nullptr) return;
    leg_ = std::exchange(second_, nullptr)();
    leg_.wait();
  }

  bool poll() override {
    if (error_ != nullptr) return true;
    if (!leg_.done()) return false;
    if (second_ == nullptr) return true;
    try {
      leg_.wait();
      leg_ = std::exchange(second_, nullptr)();
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
    return leg_.done();
  }

 private:
  Transfer leg_;
  std::function<Transfer()> second_;  // null after it has begun
  std::exception_ptr error_;          // error of the first transfer, for finish()
};

}  // namespace

Transfer::~Transfer() {
  settle();
}

Transfer& Transfer::operator=(Transfer&& other) noexcept {
  if (this != &other) {
    settle();
    pending_ = std::move(other.pending_);
  }
  return *this;
}

void Transfer::wait() {
  if (const auto pending = std::move(pending_)) pending->finish();
}

void Transfer::settle() noexcept {
  try {
    wait();
  } catch (const std::exception& error) {
    ZERO_LOG(error, "a transfer that nobody waited for failed: {}", error.what());
  }
}

Transfer chain(Transfer first, std::function<Transfer()> second) {
  return Transfer(std::make_unique<Chain>(std::move(first), std::move(second)));
}

}  // namespace zero
