// Work: a collective that has begun. Move-only; errors stick to it and are thrown at wait().
//
//   Work gather = comm.all_gather(shard, full, {.unit = 3});   // begins: tells the peers that `shard` may be read
//   ...                                                        // neither `shard` nor `full` may be written
//   gather.wait();                                             // `full` may be read
//
// No helper thread spins behind it: where the transport has nothing better, the bytes are moved inside wait(), on the
// caller's thread. Beginning early therefore never hurts and hides the wait for late peers.
#pragma once

#include <memory>

namespace zero {

class [[nodiscard]] Work {
 public:
  // What a transport implements. wait() is called at most once; it throws CommError.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual void wait() = 0;
    virtual bool try_complete() { return false; }
  };

  Work() = default;  // already done
  explicit Work(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}

  // Local. Returns when the output may be read. Throws CommError (who is late, died, or did something else).
  void wait() {
    if (auto operation = std::move(operation_)) operation->wait();
  }
  // Local. Moves the bytes now, if that waits for nobody: true when the output may be read. wait() is still to be
  // called, where every rank calls it: only from then on does drain() count on the peers being past it. False, too,
  // where the transport cannot tell. Throws CommError.
  bool try_complete() { return operation_ == nullptr || operation_->try_complete(); }
  // Local. True when wait() was called or there is nothing to wait for.
  bool finished() const { return operation_ == nullptr; }

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace zero
