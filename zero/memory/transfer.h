// Transfer: bytes on their way between memory and a slower tier.
//
//   Transfer read = disk.read(offset, into);   // begun; `into` belongs to the transfer until wait() returns
//   ...                                        // compute
//   read.wait();                               // the bytes are there, or IoError says which file, operation and bytes
//
// Owned, move-only. An error sticks to its transfer and is thrown by wait(), once. Destroyed or assigned to without
// wait(), it waits and swallows nothing silently: the error is logged. An empty Transfer is done.
//
// Local; one thread at a time.
#pragma once

#include <memory>
#include <utility>

namespace zero {

class Transfer {
 public:
  // What a tier implements. Destroyed after finish() only.
  class Pending {
   public:
    virtual ~Pending() = default;
    // Blocks until the bytes are moved; throws IoError.
    virtual void finish() = 0;
    // True when finish() will not block. May do the work that is ready.
    virtual bool poll() = 0;
  };

  Transfer() = default;
  explicit Transfer(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  Transfer(Transfer&&) noexcept = default;
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer();

  // No-op when done.
  void wait();
  bool done() const { return pending_ == nullptr || pending_->poll(); }

 private:
  void settle() noexcept;

  std::unique_ptr<Pending> pending_;
};

// Of the seconds that transfers took, those in which nobody waited for them; the rest is exposed.
constexpr double hidden_seconds(double busy_seconds, double waited_seconds) {
  return busy_seconds > waited_seconds ? busy_seconds - waited_seconds : 0;
}

}  // namespace zero
