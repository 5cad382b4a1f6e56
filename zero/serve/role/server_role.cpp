#include "zero/serve/role/server_role.h"

#include <charconv>
#include <numeric>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/weighted_cut.h"
#include "zero/serve/push_worker.h"

namespace zero {
namespace {

constexpr std::string_view kVersion = "server/version/";

std::vector<int> servers_of(const SyncPlan& plan) {
  std::vector<int> servers(static_cast<std::size_t>(plan.servers));
  std::iota(servers.begin(), servers.end(), 0);
  return servers;
}

// Returns the prefix of the names of older versions: it names the cut of their bytes. (Hash blocks had other sizes
// before.)
std::string prefix_of_versions(const AttachOptions& options) {
  if (options.shards == Cut::kRange) return std::string(kVersion);
  if (options.shards == Cut::kHash) return fmt::format("{}hash {}/", kVersion, kFewHashBlocks);
  const std::string weights = weights_text(options.shard_weights);
  return fmt::format("{}{}{}{}/", kVersion, name_of(options.shards), weights.empty() ? "" : " ", weights);
}

}  // namespace

ServerRole::ServerRole(Communicator& run, const AttachOptions& options)
    : ServedRole(run, options, server_options(options), "servers", servers_of(options.sync)) {}

void ServerRole::attach(RankEngine& engine) {
  RankRole::attach(engine);
  server_.emplace(engine, run(), asked());
}

void ServerRole::release() {
  server_.reset();
  RankRole::release();
}

StepReport ServerRole::step(const StepRates& /*rates*/, const StepLimits& /*limits*/) {
  throw ConfigError("step", "", "called on a server, and a server computes no gradients", "call serve() on servers");
}

bool ServerRole::run_without_steps(std::int64_t step) {
  server_->begin(step);
  while (!server_->is_over()) server_->serve(server_->num_clocks() + 1, {});
  return true;
}

std::vector<RoleState> ServerRole::states() const {
  const std::string prefix = prefix_of_versions(engine().resources().options);
  std::vector<RoleState> states;
  const std::vector<std::int64_t> versions = server_->versions().numbers();
  for (const std::int64_t version : versions) {
    if (version == versions.back()) break;  // this version is in the engine's states
    states.push_back({.name = fmt::format("{}{}", prefix, version), .bytes = server_->versions().kept(version)});
  }
  return states;
}

void ServerRole::restore(const SavedRole& saved) {
  WeightVersions& versions = server_->versions();
  if (versions.num_older() == 0) return;
  const bool same_servers = saved.num_files == comm().world();
  const std::string prefix = prefix_of_versions(engine().resources().options);
  int taken = 0;
  for (const RoleState& state : saved.states) {
    if (!same_servers || !state.name.starts_with(prefix)) continue;
    if (std::ssize(state.bytes) != versions.bytes_each()) continue;
    std::int64_t version = -1;
    std::from_chars(state.name.data() + prefix.size(), state.name.data() + state.name.size(), version);
    if (version < 0) continue;
    versions.restore(version, state.bytes);
    ++taken;
  }
  if (taken == 0 && saved.steps > 0 && comm().rank() == 0)
    ZERO_LOG(warn, "this checkpoint has no older weights for these servers: workers continue with the newest");
}

PushServer* server_of(RankRole& role) {
  auto* const of_server = dynamic_cast<ServerRole*>(&role);
  return of_server == nullptr ? nullptr : of_server->server();
}

}  // namespace zero
