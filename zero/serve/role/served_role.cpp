#include "zero/serve/role/served_role.h"

#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/group.h"

namespace zero {

ServedRole::ServedRole(Communicator& run, const AttachOptions& asked, AttachOptions own, const std::string& name,
                       const std::vector<int>& ranks)
    : RankRole(run, std::move(own)),
      asked_(asked),
      comm_(is_replacement(run) ? open_alone(run, name) : open_group(run, ranks, name)) {}

void ServedRole::refuse_statistics(const std::string& buffer) const {
  throw ConfigError("sync.servers", "", fmt::format("the module keeps running statistics ({})", buffer),
                    "use a norm without them, such as LayerNorm; or leave out sync.servers");
}

void ServedRole::refuse_joint_checkpoint(std::string_view call, const std::string& which) const {
  throw ConfigError(call, which, "its states are on servers", "use save() and load(), or leave out sync.servers");
}

}  // namespace zero
