// ServedRole: the common part of the two roles in a run with servers: ServerRole and WorkerRole.
//
//   ServedRole(run, options, server_options(options), "servers", {0, 1})
//
// Opens the group of the rank's engine. Collective over the run, but Local for the replacement of a lost worker
// (zero/comm/replacements.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "zero/engine/rank_role.h"

namespace zero {

class ServedRole : public RankRole {
 public:
  // `asked`: the options of the run; `own`: those of this rank's engine. `ranks`: the ranks of the engine, and `name`:
  // their name in errors.
  ServedRole(Communicator& run, const AttachOptions& asked, AttachOptions own, const std::string& name,
             const std::vector<int>& ranks);

  Communicator& comm() override { return *comm_; }
  // Each worker would gather statistics of its own, and no server any.
  void refuse_statistics(const std::string& buffer) const override;
  void refuse_joint_checkpoint(std::string_view call, const std::string& which) const override;

 protected:
  const AttachOptions& asked() const { return asked_; }

 private:
  AttachOptions asked_;
  std::unique_ptr<Communicator> comm_;
};

}  // namespace zero
