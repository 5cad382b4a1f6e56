// PushHeader, PushAnswer, ServerOrder, ServerReport: control messages of workers and servers, as plain values.
//
//   send_message(run, std::as_bytes(std::span(&answer, 1)), worker_rank);     // a PushAnswer answer
//
// A worker begins a push with a PushHeader and its mask of parameters, sent to the head. The head answers kSend. The
// worker sends the gradient to the servers, one message for each unit and server. At once or later, the head answers
// kBegin. Each server then sends its part of the weights if the worker has another version. A header shows that its
// worker has read all weights that it was sent. Servers receive pushes beside their other work, and report complete
// parts (ServerReport).
//
// A worker that receives kOver leaves. After kAgain it drops its gradient and begins as a new worker: a replay repeats
// a replacement this way. If servers divide units by shard weights, the head sends the shard weights as doubles after
// an answer with Weights::kAll: a replacement may have missed their measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/rendezvous/rank_set.h"
#include "zero/plan/served/push_order.h"

namespace zero {

struct PushHeader {
  enum class Kind : std::int32_t {
    kPush,
    kLastPush,  // its worker leaves after this push
    kLeave,     // its worker leaves without a push
  };
  Kind kind = Kind::kPush;
  std::int32_t has_loss = 0;
  std::int64_t clock = 0;
  double loss = 0;
  double lr = 0;
  // seconds that its worker waited since the previous push, for servers and so for other workers
  double waited_seconds = 0;
};

struct PushAnswer {
  enum class Kind : std::int32_t { kSend, kBegin, kOver, kAgain };
  enum class Weights : std::int32_t { kNone, kTrained, kAll };
  Kind kind = Kind::kSend;
  Weights weights = Weights::kNone;  // kBegin: the weights that follow
  std::int64_t clock = 0;
  std::int64_t version = 0;
  // Figures of the newest update.
  std::int64_t updates = 0;
  double grad_norm = 0;
  double loss = 0;
  std::int32_t skipped = 0;
  std::int32_t reason = 0;
  std::uint64_t configuration = 0;  // hash of the servers' configuration; 0: unknown
};

// The head's order to all other servers.
struct ServerOrder {
  enum class Kind : std::int32_t {
    kTakePush,    // begin to receive a push
    kForgetPush,  // drop a push, which does not count
    kMakeRoom,    // make room for another version of the weights; answered with kDone or kStuck
    kCarryOut,    // carry out an action
    kTakeBack,    // take a worker back; answered with kDone
    kReturn,      // return from serve()
  };
  Kind kind = Kind::kReturn;
  std::int32_t worker = -1;          // kTakePush, kForgetPush, kTakeBack: their worker
  std::int32_t action = 0;           // kCarryOut: the PushAction::Kind
  std::int32_t is_over = 0;          // kReturn: 1 if all workers have left
  std::int32_t has_new_process = 0;  // kTakeBack: 1 if the worker is a new process
  RankSet workers = 0;
  std::int64_t clock = 0;
  std::int64_t version = 0;
  std::int64_t age = 0;
  PushHeader header;  // kTakePush; the mask of parameters follows
};

// A report of another server to the head. Reports of pushes answer no order; the others do.
struct ServerReport {
  enum class Kind : std::int32_t {
    kPush,   // the part of a worker's push is complete, or never will be
    kDone,   // the order was carried out
    kStuck,  // no room for another version: `worker`, maybe among others, does not read on
  };
  Kind kind = Kind::kDone;
  std::int32_t worker = -1;
  std::int32_t whole = 0;   // kPush: 1 if the part is complete
  std::int64_t number = 0;  // kPush: number of the push among those taken from this worker, from 1
};

// A mask of parameters has a bit for each parameter, eight in a byte.
inline std::size_t mask_bytes(std::size_t num_params) {
  return (num_params + 7) / 8;
}
inline void pack_mask(const std::vector<bool>& mask, std::span<std::byte> into) {
  for (std::size_t param = 0; param < mask.size(); ++param)
    if (mask[param]) into[param / 8] |= std::byte{1} << (param % 8);
}
inline std::vector<bool> unpack_mask(std::span<const std::byte> bytes, std::size_t num_params) {
  std::vector<bool> mask(num_params);
  for (std::size_t param = 0; param < num_params; ++param)
    mask[param] = (bytes[param / 8] >> (param % 8) & std::byte{1}) != std::byte{0};
  return mask;
}

}  // namespace zero
