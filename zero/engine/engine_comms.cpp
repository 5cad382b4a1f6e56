#include "zero/engine/engine_comms.h"

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

Traffic sum(const Traffic& a, const Traffic& b) {
  return {.sent_bytes = a.sent_bytes + b.sent_bytes,
          .received_bytes = a.received_bytes + b.received_bytes,
          .control_sent_bytes = a.control_sent_bytes + b.control_sent_bytes,
          .control_received_bytes = a.control_received_bytes + b.control_received_bytes};
}

}  // namespace

EngineComms::EngineComms(Communicator& communicator, int group)
    : own_copy_(open_copy(communicator, mesh_of(communicator.world(), group))),
      own_across_(open_across(communicator, mesh_of(communicator.world(), group))),
      mesh(mesh_of(communicator.world(), group)),
      run(communicator),
      copy(own_copy_ == nullptr ? communicator : *own_copy_),
      across(own_across_.get()) {}

Traffic EngineComms::traffic() const {
  return across == nullptr ? run.traffic() : sum(run.traffic(), sum(copy.traffic(), across->traffic()));
}

double EngineComms::waited_seconds() const {
  return run.waited_seconds() + (across == nullptr ? 0 : copy.waited_seconds() + across->waited_seconds());
}

}  // namespace zero
