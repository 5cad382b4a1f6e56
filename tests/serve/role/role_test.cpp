// The roles of ranks, as attach() uses them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/serve/role/make_role.h"
#include "zero/serve/role/server_role.h"
#include "zero/serve/role/worker_role.h"

#include "tests/serve/served_run.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// Large enough for several hash blocks of each server.
std::vector<ParamSpec> wide_specs() {
  return {{.name = "wte", .shape = {130, 100}, .own_unit = true}, {.name = "h.0.weight", .shape = {90, 101}}};
}

AttachOptions hashed(const SyncPlan& plan) {
  AttachOptions options{.sync = plan};
  options.shards = Cut::kHash;
  return options;
}

AttachOptions weighted(const SyncPlan& plan) {
  AttachOptions options{.sync = plan};
  options.shards = Cut::kWeighted;
  return options;
}

std::int64_t staging_of(ScriptedModel& model) {
  return model.engine().resources().ledger.held(Tier::kDevice, MemoryTag::kStaging);
}

// A rank of every role: memory that a role takes from its engine is returned before the engine ends.
TEST(Role, ReleaseReturnsItsMemory) {
  on_ranks(3, [](Communicator& comm) {
    const AttachOptions options = hashed({.servers = 2});
    const std::unique_ptr<RankRole> role = make_role(comm, options);
    ScriptedModel model(role->comm(), wide_specs(), role->options());
    const std::int64_t before = staging_of(model);
    role->attach(model.engine());
    EXPECT_GT(staging_of(model), before) << "versions of a server, blocks of a worker";
    role->release();
    EXPECT_EQ(staging_of(model), before);
    EXPECT_EQ(server_of(*role), nullptr);
    EXPECT_EQ(worker_of(*role), nullptr);
  });
}

TEST(Role, FirstRanksAreServers) {
  on_ranks(3, [](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, {.sync = {.servers = 2}});
    EXPECT_EQ(role->comm().world(), comm.rank() < 2 ? 2 : 1);
    EXPECT_EQ(role->updated_elsewhere(), comm.rank() == 2);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { role->refuse_statistics("norm.running_mean"); }),
                     "the module keeps running statistics (norm.running_mean)"));
    EXPECT_TRUE(says(message_of<ConfigError>([&] { role->refuse_joint_checkpoint("save_all", "engine 1"); }),
                     "save_all = engine 1: its states are on servers"));
  });
}

// A worker receives weights into memory of operators; only a worker refuses a device that the host cannot write.
TEST(Role, AWorkerNeedsReadableMemory) {
  on_ranks(2, [](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, {.sync = {.servers = 1}});
    role->refuse_device(HostDevice::instance());
    const RecordedDevice device;
    if (comm.rank() == 0) return role->refuse_device(device);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { role->refuse_device(device); }), "a worker with servers"));
  });
}

TEST(Role, WithoutServersAllRanksUpdate) {
  on_ranks(2, [](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, {.stage = 2});
    EXPECT_EQ(&role->comm(), &comm);
    EXPECT_EQ(role->options().stage, 2);
    EXPECT_FALSE(role->updated_elsewhere());
    role->refuse_statistics("norm.running_mean");
    role->refuse_joint_checkpoint("save_all", "engine 1");
    ScriptedModel model(role->comm(), small_specs(), role->options());
    role->attach(model.engine());
    EXPECT_FALSE(role->run_without_steps(0));
    EXPECT_TRUE(role->states().empty());
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    EXPECT_EQ(role->step({.lr = 0.01}, {}).step, 1);
    role->release();
  });
}

// The worker leaves after its last step, and the server then returns.
TEST(Role, WorkersStepsKeepBits) {
  const TrainedClocks run{.clocks = 3};
  std::vector<std::uint32_t> weights;
  on_ranks(2, [&](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, {.sync = {.servers = 1}});
    ScriptedModel model(role->comm(), small_specs(), role->options());
    role->attach(model.engine());
    if (comm.rank() == 0) {
      EXPECT_TRUE(role->run_without_steps(0));
      weights = slice_bits(model);
    } else {
      model.compute_as(0);
      role->begin();
      for (std::int64_t clock = 0; clock < run.clocks; ++clock) {
        run_passes(model, clock, 1);
        EXPECT_EQ(role->step({.lr = run.lr(clock)}, {.loss = loss_of(0, clock)}).step, clock + 1);
      }
      role->leave();
    }
    role->release();
  });
  EXPECT_EQ(weights, plain_run({}, 1, small_specs(), run).weights);
}

// The newest version is in the engine's states, so the role has only the older ones.
TEST(Role, OlderVersionsAreSavedAndRestored) {
  const AttachOptions options{.sync = {.mode = SyncMode::kStale, .servers = 1, .staleness = 1}};
  std::string name;
  std::vector<std::byte> saved;
  on_ranks(2, [&](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, options);
    if (comm.rank() != 0) return;
    ScriptedModel model(role->comm(), small_specs(), role->options());
    role->attach(model.engine());
    server_of(*role)->versions().keep(4);
    server_of(*role)->versions().keep(5);
    const std::vector<RoleState> states = role->states();
    if (states.size() == 1) {
      name = states.front().name;
      saved.assign(states.front().bytes.begin(), states.front().bytes.end());
    }
    role->release();
  });
  EXPECT_EQ(name, "server/version/4");
  ASSERT_FALSE(saved.empty());
  on_ranks(2, [&](Communicator& comm) {
    const std::unique_ptr<RankRole> role = make_role(comm, options);
    if (comm.rank() != 0) return;
    ScriptedModel model(role->comm(), small_specs(), role->options());
    role->attach(model.engine());
    WeightVersions& versions = server_of(*role)->versions();
    role->restore({.states = {{.name = name, .bytes = saved}}, .num_files = 2, .steps = 5});
    EXPECT_FALSE(versions.has(4)) << "a checkpoint of two servers";
    role->restore({.states = {{.name = name, .bytes = saved}}, .num_files = 1, .steps = 5});
    EXPECT_TRUE(std::ranges::equal(versions.kept(4), saved));
    role->release();
  });
}

TEST(Role, ServersOwnTheWeights) {
  on_ranks(4, [](Communicator& comm) {
    EXPECT_EQ(with_weights_of_owners(weighted({.servers = 3}), comm, 4).shard_weights.size(), 3U);
    EXPECT_EQ(with_weights_of_owners(weighted({}), comm, 4).shard_weights.size(), 4U);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { with_weights_of_owners(weighted({.servers = 4}), comm, 4); }),
                     "sync.servers = 4"));
  });
}

}  // namespace
}  // namespace zero
