// Signature: operation, number, unit and bytes of one collective, for ranks to compare.
//
// Every rank numbers its collectives from 1. Ranks at the same number must make the same call; otherwise both sides get
// a CommError that shows the two signatures:
//
//   all_gather #17 (unit 3, 4096 bytes)   against   barrier #17
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

enum class Operation : std::uint32_t {
  kNone,  // no call yet
  kAllGather,
  kAllToAll,
  kReduceScatter,
  kBroadcast,
  kBarrier,
  kSend,  // both sides of a message: the sender's send, the receiver's receive
};

std::string_view name_of(Operation operation);

struct Signature {
  std::uint64_t sequence = 0;
  Operation operation = Operation::kNone;
  std::int32_t unit = -1;
  std::uint64_t bytes = 0;  // bytes of the input, or of the message
  std::int32_t root = -1;   // broadcast only

  bool operator==(const Signature&) const = default;
};

// Local. Returns "all_gather #17 (unit 3, 4096 bytes)", or "nothing" for a rank that has not begun.
std::string describe(const Signature& signature);

// Local. Returns "collective #17" or "message #3": the part on which both sides of a mismatch agree.
std::string describe_number(const Signature& signature);

// Local. Returns "rank 1 does all_gather #17 (...), rank 0 does barrier #17": the reason of a mismatch's CommError.
std::string describe_mismatch(int rank, const Signature& own, int other_rank, const Signature& other);

}  // namespace zero
