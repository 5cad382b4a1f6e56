// Buffer: owned bytes with a tag in the ledger. Move-only; charged on construction, credited on destruction.
//
//   Buffer moments(allocate_host(bytes), ledger, Tier::kDevice, MemoryTag::kMoment);
//   std::span<float> m = moments.as<float>();
#pragma once

#include <span>
#include <utility>

#include "zero/base/process/allocation.h"
#include "zero/memory/account/ledger.h"

namespace zero {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Allocation allocation, Ledger& ledger, Tier tier, MemoryTag tag)
      : allocation_(std::move(allocation)), ledger_(&ledger), tier_(tier), tag_(tag) {
    ledger_->charge(tier_, tag_, static_cast<std::int64_t>(allocation_.size()));
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (ledger_ != nullptr) ledger_->credit(tier_, tag_, static_cast<std::int64_t>(allocation_.size()));
  }

  std::byte* data() const { return allocation_.data(); }
  std::size_t size() const { return allocation_.size(); }
  std::span<std::byte> bytes() const { return allocation_.bytes(); }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), size() / sizeof(T)};
  }
  explicit operator bool() const { return static_cast<bool>(allocation_); }

  // Changes the tag of the bytes in the ledger.
  void rename(MemoryTag tag) {
    if (ledger_ == nullptr || tag == tag_) return;
    ledger_->credit(tier_, tag_, static_cast<std::int64_t>(allocation_.size()));
    ledger_->charge(tier_, tag, static_cast<std::int64_t>(allocation_.size()));
    tag_ = tag;
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(allocation_, other.allocation_);
    std::swap(ledger_, other.ledger_);
    std::swap(tier_, other.tier_);
    std::swap(tag_, other.tag_);
  }

  Allocation allocation_;
  Ledger* ledger_ = nullptr;
  Tier tier_ = Tier::kDevice;
  MemoryTag tag_ = MemoryTag::kStaging;
};

}  // namespace zero
