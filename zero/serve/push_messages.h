// PushHeader, PushAnswer, ServerOrder, ServerReport: what workers and servers say to each other beside gradients and
// weights: plain values, sent as control.
//
// A push: the worker sends a PushHeader, and its mask of parameters, to the head; the head answers "send"; the gradient
// goes to the servers, a message for each unit and server. Then, at once or later, the head answers "begin", and each
// server sends its part of the weights, should they be others than the worker has. A worker that is told "over" leaves.
// One that is told "again" drops its gradient, and begins as if it were new: so a replayed run does what a replacement did.
//
// Where servers divide units by weights, the head sends these numbers, as doubles, after an answer that brings all weights of
// the model: ranks may have measured them when a replacement was not there.
//
// A worker that has sent a header has read all weights that it was sent. Servers take the messages of a push as they come,
// beside all that they do for other workers; each tells the head when it has all of its part (ServerReport).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/plan/push_order.h"
#include "zero/rendezvous/rank_set.h"

namespace zero {

struct PushHeader {
  enum class Kind : std::int32_t {
    kPush,
    kLastPush,  // the worker leaves after it
    kLeave,     // without a push
  };
  Kind kind = Kind::kPush;
  std::int32_t has_loss = 0;
  std::int64_t clock = 0;
  double loss = 0;
  double lr = 0;
  double waited_seconds = 0;  // of the worker, for servers and so for other workers, since its push before
};

struct PushAnswer {
  enum class Kind : std::int32_t { kSend, kBegin, kOver, kAgain };
  enum class Weights : std::int32_t { kNone, kTrained, kAll };
  Kind kind = Kind::kSend;
  Weights weights = Weights::kNone;  // kBegin: these follow
  std::int64_t clock = 0;
  std::int64_t version = 0;
  // Of the newest update.
  std::int64_t updates = 0;
  double grad_norm = 0;
  double loss = 0;
  std::int32_t skipped = 0;
  std::int32_t reason = 0;
  std::uint64_t configuration = 0;  // its hash, of the servers; 0: not known
};

// The head's order to the other servers: what to do next, all the same.
struct ServerOrder {
  enum class Kind : std::int32_t {
    kTakePush,    // begin to take it
    kForgetPush,  // it does not count
    kMakeRoom,    // for another version of the weights; answered with kDone or kStuck
    kCarryOut,
    kTakeBack,  // answered with kDone
    kReturn,
  };
  Kind kind = Kind::kReturn;
  std::int32_t worker = -1;          // of a push; kTakeBack
  std::int32_t action = 0;           // kCarryOut, as a PushAction
  std::int32_t is_over = 0;          // kReturn: all workers have left
  std::int32_t has_new_process = 0;  // kTakeBack
  RankSet workers = 0;
  std::int64_t clock = 0;
  std::int64_t version = 0;
  std::int64_t age = 0;
  PushHeader header;  // kTakePush; the mask of parameters follows
};

// What another server tells the head, in no answer to an order or in one.
struct ServerReport {
  enum class Kind : std::int32_t {
    kPush,   // all of its part of the worker's push is there, or it never will be
    kDone,   // what the order said
    kStuck,  // it has no room for another version: the worker, among others, does not read on
  };
  Kind kind = Kind::kDone;
  std::int32_t worker = -1;
  std::int32_t whole = 0;   // kPush
  std::int64_t number = 0;  // kPush: of the pushes that were taken of this worker, from 1
};

// A mask of parameters, eight to a byte.
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
