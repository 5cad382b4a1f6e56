// In-memory checkpoints of ranks with several launchers, as on several machines.
#include "tests/checkpoint/several_launchers.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"

#include "tests/support/forwarded_communicator.h"

namespace zero {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(SeveralLaunchersOnAnyDevice, NewRanksContinueWithSameBits) {
  for (const std::vector<int>& of : {std::vector<int>{0, 1}, {0, 0, 1}, {0, 1, 0, 2}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const Cell cell{.world = static_cast<int>(of.size()), .stage = stage, .dtype = dtype};
        SeveralLaunchers machines(of), others(of);
        const auto whole = others.run(cell, 0, 6, {});
        machines.run(cell, 0, 4, {1, 2, 3});
        EXPECT_EQ(machines.run(cell, 3, 6, {}), whole) << cell.world << " ranks, stage " << stage;
      }
    }
  }
}

// Each launcher holds the manifest and its own ranks' files, only of the newest checkpoint.
TEST(SeveralLaunchers, EachHoldsOnlyItsRanksNewest) {
  SeveralLaunchers machines({0, 0, 1});
  machines.run({.world = 3}, 0, 4, {1, 2, 3});
  const std::string step = InMemoryCheckpoints(machines.launcher(0).connect(), "run").path_of(3).string();
  EXPECT_EQ(machines.launcher(0).names(),
            (std::vector<std::string>{step + "/manifest.json", step + "/rank-00000.safetensors",
                                      step + "/rank-00001.safetensors"}));
  EXPECT_EQ(machines.launcher(1).names(),
            (std::vector<std::string>{step + "/manifest.json", step + "/rank-00002.safetensors"}));
}

TEST(SeveralLaunchers, FetchedFilesAreReleasedAfterReading) {
  SeveralLaunchers machines({0, 1});
  machines.run({.stage = 0}, 0, 3, {2});
  const auto before = machines.launcher(0).names();
  machines.run({.stage = 0}, 2, 3, {});
  EXPECT_EQ(machines.launcher(0).names(), before);
}

// The result names the missing rank.
TEST(SeveralLaunchers, LostLauncherLeavesNoWholeCheckpoint) {
  for (const int lost : {0, 1}) {
    SeveralLaunchers machines({0, 0, 1});
    machines.run({.world = 3}, 0, 3, {2});
    machines.lose(lost);
    on_ranks(3, [&](Communicator& comm) {
      const auto agreed = InMemoryCheckpoints(machines.connect(comm), "run", comm).agree(comm);
      EXPECT_EQ(agreed.steps, Steps{});
      EXPECT_EQ(agreed.partial, 2);
      EXPECT_EQ(agreed.missing_rank, lost == 0 ? 0 : 2);
    });
    machines.run({.world = 3}, 0, 5, {4});
    EXPECT_EQ(machines.launcher(1 - lost).names().size(), lost == 0 ? 2U : 3U) << "the next one replaces the rest";
  }
}

// Both checkpoints are of the same step, but of different runs.
TEST(SeveralLaunchers, PartsOfDifferentCheckpointsNeverMix) {
  SeveralLaunchers machines({0, 1}), others({0, 1});
  machines.run({}, 0, 3, {2});
  others.run({.accumulate = 2}, 0, 3, {2});
  on_ranks(2, [&](Communicator& comm) {
    InMemoryCheckpoints kept(comm.rank() == 0 ? machines.connect(comm) : others.connect(comm), "run", comm);
    EXPECT_EQ(kept.agree(comm).steps, Steps{});
    EXPECT_EQ(kept.agree(comm).partial, 2);
  });
}

// One launcher has no room for more names. Every rank reports it, and every launcher keeps the old checkpoint.
TEST(SeveralLaunchers, FullNameTableKeepsOldCheckpoints) {
  Launcher large, small(3);  // refuses the new manifest
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    InMemoryCheckpoints kept(comm.rank() == 0 ? large.connect() : small.connect(), "run", comm);
    EXPECT_TRUE(kept.save(model.engine(), 1, {}));
    train_steps(model, 0, 1, 1);
    EXPECT_THROW((void)kept.save(model.engine(), 2, {}), IoError);
    EXPECT_EQ(kept.agree(comm).steps, Steps{1});
    EXPECT_EQ(kept.agree(comm).partial, -1);
    SeveralLaunchers::load(kept, model.engine(), 1);
  });
}

// Ends its rank before or after the `left`-th collective from now.
class CutOff final : public ForwardedCommunicator {
 public:
  using ForwardedCommunicator::ForwardedCommunicator;
  void cut(int left, bool before) {
    left_ = left;
    before_ = before;
  }
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override {
    return cut_at([&] { return ForwardedCommunicator::all_gather(in, out, tag); });
  }
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override {
    return cut_at([&] { return ForwardedCommunicator::broadcast(data, root, tag); });
  }
  bool has_cut() const { return left_ == 0; }

 private:
  template <typename Call>
  Work cut_at(const Call& call) {
    const bool here = left_ > 0 && --left_ == 0;
    if (here && before_) throw CommError(rank(), "test", "cut off");
    Work work = call();
    if (!here) return work;
    work.wait();
    drain();
    throw CommError(rank(), "test", "cut off");
  }
  int left_ = -1;
  bool before_ = false;
};

TEST(SeveralLaunchersOnAnyDevice, DeadRankLeavesACommonCheckpoint) {
  int at_old = 0, at_new = 0;
  for (int victim = 0; victim < 3; ++victim) {
    for (const bool before : {true, false}) {
      bool cut = true;
      for (int left = 1; cut; ++left) {
        SeveralLaunchers machines({0, 0, 1});
        SeveralLaunchers::Bits old_bits(3), new_bits(3);
        cut = false;
        ends_of_ranks(3, [&](Communicator& real) {
          CutOff comm(real);
          const auto rank = static_cast<std::size_t>(comm.rank());
          ScriptedModel model(comm, small_specs(), options_of({.world = 3}));
          InMemoryCheckpoints kept(machines.connect(comm), "run", comm);
          train_steps(model, 0, 1, 1);
          old_bits[rank] = state_bits(model.engine());
          EXPECT_TRUE(kept.save(model.engine(), 1, {}));
          train_steps(model, 1, 2, 1);
          new_bits[rank] = state_bits(model.engine());
          real.barrier({}).wait();
          if (comm.rank() == victim) comm.cut(left, before);
          try {
            (void)kept.save(model.engine(), 2, {});
          } catch (const Error&) {
            if (comm.rank() == victim) cut = comm.has_cut();
            throw;
          }
        });
        machines.drop_unfinished();
        on_ranks(3, [&](Communicator& comm) {
          ScriptedModel model(comm, small_specs(), options_of({.world = 3}));
          InMemoryCheckpoints kept(machines.connect(comm), "run", comm);
          const auto agreed = kept.agree(comm);
          ASSERT_FALSE(agreed.steps.empty()) << "rank " << victim << ", collective " << left;
          SeveralLaunchers::load(kept, model.engine(), agreed.steps.front());
          const bool is_new = agreed.steps.front() == 2;
          EXPECT_EQ(state_bits(model.engine()), (is_new ? new_bits : old_bits)[static_cast<std::size_t>(comm.rank())]);
          if (comm.rank() == 0) ++(is_new ? at_new : at_old);
        });
      }
    }
  }
  EXPECT_GT(at_old, 0);
  EXPECT_GT(at_new, 6) << "the last save of each of the six sweeps is complete";
}

}  // namespace
}  // namespace zero
