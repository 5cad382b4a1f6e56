// Allocation: memory with an owner, which frees it. Move-only, at least 64-byte aligned.
//
// It passes memory between parts that must not know each other. Transports make windows, the host tier makes huge
// pages, and a Buffer (zero/memory) charges either to the ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace zero {

// Whether all of the memory will be written: then its pages may be taken ahead, and may be huge. Memory that is written
// in part costs only that part.
enum class Written : std::uint8_t { kWhole, kPart };

class Allocation {
 public:
  using Release = std::function<void(std::byte* data, std::size_t bytes)>;

  Allocation() = default;
  Allocation(std::byte* data, std::size_t bytes, Release release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    Allocation(std::move(other)).swap(*this);
    return *this;
  }
  ~Allocation() {
    if (release_) release_(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Allocation& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_;
};

}  // namespace zero
