#include "zero/engine/wire/engine_comms.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "zero/comm/group.h"

namespace zero {
namespace {

std::unique_ptr<Communicator> open_copy(Communicator& run, const Mesh& mesh) {
  if (mesh.copies == 1) return nullptr;
  const int copy = mesh.copy_of(run.rank());
  return open_group(run, mesh.ranks_of_copy(copy), fmt::format("copy {}", copy));
}

std::unique_ptr<Communicator> open_across(Communicator& run, const Mesh& mesh) {
  if (mesh.copies == 1) return nullptr;
  const int shard = mesh.shard_of(run.rank());
  return open_group(run, mesh.ranks_of_shard(shard), fmt::format("shard {}", shard));
}

std::unique_ptr<Communicator> open_units(Communicator& copy) {
  if (copy.groups() == nullptr) return nullptr;
  std::vector<int> ranks(static_cast<std::size_t>(copy.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return open_group(copy, ranks, "units");
}

// Opens the group of `group` neighbours among the ranks of a copy.
std::unique_ptr<Communicator> open_secondary(Communicator& copy, int group) {
  if (group == 0) return nullptr;
  const Mesh groups = mesh_of(copy.world(), group, "zero.secondary_group");
  const int number = groups.copy_of(copy.rank());
  return open_group(copy, groups.ranks_of_copy(number), fmt::format("secondary {}", number));
}

Traffic sum(const Traffic& a, const Traffic& b) {
  return {.sent_bytes = a.sent_bytes + b.sent_bytes,
          .received_bytes = a.received_bytes + b.received_bytes,
          .control_sent_bytes = a.control_sent_bytes + b.control_sent_bytes,
          .control_received_bytes = a.control_received_bytes + b.control_received_bytes};
}

}  // namespace

EngineComms::EngineComms(Communicator& communicator, int group, bool units_apart, int secondary_group)
    : own_copy_(open_copy(communicator, mesh_of(communicator.world(), group))),
      own_across_(open_across(communicator, mesh_of(communicator.world(), group))),
      own_units_(units_apart ? open_units(own_copy_ == nullptr ? communicator : *own_copy_) : nullptr),
      own_secondary_(open_secondary(own_copy_ == nullptr ? communicator : *own_copy_, secondary_group)),
      mesh(mesh_of(communicator.world(), group)),
      run(communicator),
      copy(own_copy_ == nullptr ? communicator : *own_copy_),
      units(own_units_ == nullptr ? copy : *own_units_),
      across(own_across_.get()),
      secondary(own_secondary_.get()) {}

Traffic EngineComms::traffic() const {
  Traffic all = run.traffic();
  for (const auto& group : {&own_copy_, &own_across_, &own_units_, &own_secondary_})
    if (*group != nullptr) all = sum(all, (*group)->traffic());
  return all;
}

double EngineComms::waited_seconds() const {
  double all = run.waited_seconds();
  for (const auto& group : {&own_copy_, &own_across_, &own_units_, &own_secondary_})
    if (*group != nullptr) all += (*group)->waited_seconds();
  return all;
}

}  // namespace zero
