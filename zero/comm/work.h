// Work: a collective that has begun. Move-only; errors are kept until wait() throws them.
//
//   Work gather = comm.all_gather(shard, full, {.unit = 3});   // begins: tells the peers that `shard` may be read
//   ...                                                        // neither `shard` nor `full` may be written
//   gather.wait();                                             // `full` may be read
//
// No helper thread spins for it: if the transport has nothing better, wait() moves the bytes on the caller's thread. So
// it never costs time to begin early, and beginning early hides the wait for late peers.
#pragma once

#include <memory>

namespace zero {

class [[nodiscard]] Work {
 public:
  // The part that a transport implements. wait() is called at most once; it throws CommError.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual void wait() = 0;
    virtual bool try_complete() { return false; }
  };

  Work() = default;  // already done
  explicit Work(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}

  // Local. Returns when the output may be read. Throws CommError (a rank is late, died, or made another call).
  void wait() {
    if (auto operation = std::move(operation_)) operation->wait();
  }
  // Local. Moves the bytes now if that waits for nobody, and returns true when the output may be read. Returns false if
  // not, or if the transport cannot tell. wait() must still be called at the point at which every rank calls it. The
  // reason is that drain() waits only for inputs of works whose wait() was called. Throws CommError.
  bool try_complete() { return operation_ == nullptr || operation_->try_complete(); }
  // Local. True when wait() was called or there is nothing to wait for.
  bool finished() const { return operation_ == nullptr; }

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace zero
