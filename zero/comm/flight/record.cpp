#include "zero/comm/flight/record.h"

#include <array>

#include <fmt/format.h>

namespace zero {
namespace {

constexpr std::array kOperations{
    FlightOperation::kAllGather, FlightOperation::kAllToAll, FlightOperation::kReduceScatter,
    FlightOperation::kBroadcast, FlightOperation::kBarrier,  FlightOperation::kSend,
    FlightOperation::kReceive,
};

}  // namespace

std::string_view name_of(FlightOperation operation) {
  switch (operation) {
    case FlightOperation::kAllGather:
      return "all_gather";
    case FlightOperation::kAllToAll:
      return "all_to_all";
    case FlightOperation::kReduceScatter:
      return "reduce_scatter";
    case FlightOperation::kBroadcast:
      return "broadcast";
    case FlightOperation::kBarrier:
      return "barrier";
    case FlightOperation::kSend:
      return "send";
    case FlightOperation::kReceive:
      return "receive";
  }
  return "unknown";
}

bool is_message(FlightOperation operation) {
  return operation == FlightOperation::kSend || operation == FlightOperation::kReceive;
}

std::optional<FlightOperation> find_flight_operation(std::string_view name) {
  for (const FlightOperation operation : kOperations) {
    if (name_of(operation) == name) return operation;
  }
  return std::nullopt;
}

std::string describe(const FlightEntry& entry) {
  const FlightCall& call = entry.call;
  std::string text(name_of(call.operation)), about;
  if (entry.collective > 0) text += fmt::format(" #{}", entry.collective);
  if (call.operation == FlightOperation::kSend) text += fmt::format(" to rank {}", call.peer);
  if (call.operation == FlightOperation::kReceive) text += fmt::format(" from rank {}", call.peer);
  if (call.operation == FlightOperation::kBroadcast) about += fmt::format("from rank {}, ", call.peer);
  if (call.unit >= 0) about += fmt::format("unit {}, ", call.unit);
  if (call.operation != FlightOperation::kBarrier) about += fmt::format("{} bytes, ", call.bytes);
  if (!about.empty()) text += " (" + about.substr(0, about.size() - 2) + ")";
  return text;
}

std::string_view FlightRecord::group_of(const FlightEntry& entry) const {
  return entry.group == 0 ? std::string_view() : groups.at(static_cast<std::size_t>(entry.group - 1));
}

std::string describe(const FlightEntry& entry, const FlightRecord& record) {
  const std::string_view group = record.group_of(entry);
  return describe(entry) + (group.empty() ? "" : fmt::format(" of group {}", group));
}

}  // namespace zero
