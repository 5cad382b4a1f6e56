#include "zero/comm/signature.h"

#include <utility>

#include <fmt/format.h>

namespace zero {
namespace {

constexpr std::string_view kSameCalls =
    "\n  every rank must take as many steps, saves and exports, in the same order; with sharded parameters also use "
    "the "
    "same modules";

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kNone:
      return "nothing";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kSend:
      return "send";
  }
  return "unknown";
}

std::string describe(const Signature& signature) {
  if (signature.operation == Operation::kNone) return "nothing";
  std::string about;
  if (signature.root >= 0) about += fmt::format("from rank {}, ", signature.root);
  if (signature.unit >= 0) about += fmt::format("unit {}, ", signature.unit);
  if (signature.operation != Operation::kBarrier) about += fmt::format("{} bytes, ", signature.bytes);
  if (!about.empty()) about = " (" + about.substr(0, about.size() - 2) + ")";
  return fmt::format("{} #{}{}", name_of(signature.operation), signature.sequence, about);
}

std::string describe_number(const Signature& signature) {
  return fmt::format("{} #{}", signature.operation == Operation::kSend ? "message" : "collective", signature.sequence);
}

std::string describe_mismatch(int rank, const Signature& own, int other_rank, const Signature& other) {
  // In rank order, so both sides print the same line.
  std::pair first(rank, describe(own)), second(other_rank, describe(other));
  if (second.first < first.first) std::swap(first, second);
  return fmt::format("ranks disagree: rank {} does {}, rank {} does {}{}", first.first, first.second, second.first,
                     second.second, kSameCalls);
}

}  // namespace zero
