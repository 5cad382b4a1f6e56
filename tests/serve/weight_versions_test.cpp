#include "zero/serve/weight_versions.h"

#include <cstring>

#include <gtest/gtest.h>

#include "zero/serve/push_worker.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

// A place beside the newest version is charged when a worker first needs it.
TEST(WeightVersions, ExtraPlaceIsChargedWhenNeeded) {
  on_ranks(1, [](Communicator& comm) {
    AttachOptions options{.sync = {.mode = SyncMode::kAsync, .servers = 1}};
    ScriptedModel model(comm, small_specs(), server_options(options));
    const auto held = [&] { return model.engine().resources().ledger.held(Tier::kDevice, MemoryTag::kStaging); };
    const std::int64_t before = held();
    WeightVersions versions(model.engine(), options.sync, 3, comm);
    EXPECT_EQ(held(), before + versions.bytes_each());
    versions.keep(0);
    versions.keep(1);
    EXPECT_EQ(held(), before + versions.bytes_each()) << "nobody reads";
    versions.pin(2, 1);
    versions.keep(2);
    EXPECT_EQ(held(), before + 2 * versions.bytes_each());
    versions.keep(3);
    versions.unpin(2);
    versions.keep(4);
    EXPECT_EQ(held(), before + 2 * versions.bytes_each()) << "the place is kept";
  });
}

// Later versions do not overwrite bytes that a worker reads.
TEST(WeightVersions, ReadBytesStay) {
  on_ranks(1, [](Communicator& comm) {
    AttachOptions options{.sync = {.mode = SyncMode::kAsync, .servers = 1}};
    ScriptedModel model(comm, small_specs(), server_options(options));
    WeightVersions versions(model.engine(), options.sync, 3, comm);
    versions.keep(0);
    versions.pin(1, 0);
    const std::span<const std::byte> read = versions.kept(0);
    const std::vector<std::byte> bytes(read.begin(), read.end());
    versions.restore(1, std::vector<std::byte>(bytes.size(), std::byte{1}));
    versions.restore(2, std::vector<std::byte>(bytes.size(), std::byte{2}));
    EXPECT_EQ(std::memcmp(read.data(), bytes.data(), bytes.size()), 0);
    EXPECT_EQ(versions.kept(2).front(), std::byte{2});
    EXPECT_FALSE(versions.has(1));
    EXPECT_EQ(versions.numbers(), std::vector<std::int64_t>{2}) << "the versions for checkpoints and answers";
  });
}

}  // namespace
}  // namespace zero
