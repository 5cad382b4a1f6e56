// Transfer: a copy of bytes between memory and a slower tier, for which the caller can wait.
//
//   Transfer read = disk.read(offset, into);   // begun; `into` belongs to the transfer until wait() returns
//   ...                                        // compute
//   read.wait();                               // the bytes have arrived, or IoError names file, operation and bytes
//
// Owned, move-only. wait() throws a transfer's error once. If a transfer is destroyed or assigned to without wait(), it
// waits, and logs the error. An empty Transfer is done. Local; one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace zero {

class Transfer {
 public:
  // The implementation by a tier. It is destroyed only after finish().
  class Pending {
   public:
    virtual ~Pending() = default;
    // Blocks until the bytes are moved; throws IoError.
    virtual void finish() = 0;
    // Returns true if finish() will not block. May do work that is ready.
    virtual bool poll() = 0;
  };

  Transfer() = default;
  explicit Transfer(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  Transfer(Transfer&&) noexcept = default;
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer();

  // Waits for the end; does nothing if the transfer is done.
  void wait();
  bool done() const { return pending_ == nullptr || pending_->poll(); }

 private:
  void settle() noexcept;

  std::unique_ptr<Pending> pending_;
};

// Returns the transfers' seconds for which nobody waited; the other seconds are exposed.
constexpr double hidden_seconds(double busy_seconds, double waited_seconds) {
  return busy_seconds > waited_seconds ? busy_seconds - waited_seconds : 0;
}

// chain(): combines two transfers into one; the second begins after the first has ended.
//
//   Transfer up = chain(disk.read(place, block), [&] { return link.up(block, block); });
//   up.done();        // begins the second transfer if the first has ended; so does wait()
//
// No thread watches: the second transfer begins only when a caller asks. wait() throws an error of the first transfer;
// the second then does not begin. Local.
[[nodiscard]] Transfer chain(Transfer first, std::function<Transfer()> second);

}  // namespace zero
