#include "zero/memory/io/transfer.h"

#include "zero/base/error/log.h"

namespace zero {

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

}  // namespace zero
