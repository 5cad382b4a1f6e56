// Charge: bytes in the ledger that belong to no Buffer, such as a place on disk or the used part of a range.
//
//   Charge place(ledger, Tier::kDisk, MemoryTag::kMoment, bytes);
//   place.resize(less);
//
// Move-only; credited on destruction.
#pragma once

#include <utility>

#include "zero/memory/account/ledger.h"

namespace zero {

class Charge {
 public:
  Charge() = default;
  Charge(Ledger& ledger, Tier tier, MemoryTag tag, std::int64_t bytes)
      : ledger_(&ledger), tier_(tier), tag_(tag), bytes_(bytes) {
    ledger.charge(tier, tag, bytes);
  }
  Charge(Charge&& other) noexcept { swap(other); }
  Charge& operator=(Charge&& other) noexcept {
    Charge(std::move(other)).swap(*this);
    return *this;
  }
  ~Charge() {
    if (ledger_ != nullptr) ledger_->credit(tier_, tag_, bytes_);
  }

  std::int64_t bytes() const { return bytes_; }
  void resize(std::int64_t bytes) {
    if (ledger_ == nullptr) return;
    bytes > bytes_ ? ledger_->charge(tier_, tag_, bytes - bytes_) : ledger_->credit(tier_, tag_, bytes_ - bytes);
    bytes_ = bytes;
  }

 private:
  void swap(Charge& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(tier_, other.tier_);
    std::swap(tag_, other.tag_);
    std::swap(bytes_, other.bytes_);
  }

  Ledger* ledger_ = nullptr;
  Tier tier_ = Tier::kDisk;
  MemoryTag tag_ = MemoryTag::kStaging;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
