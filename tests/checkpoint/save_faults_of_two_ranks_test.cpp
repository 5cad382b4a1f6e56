// A save of two ranks that ends or fails at each file call of either rank. Afterwards there is the old checkpoint, the
// new one or, at a first save, none. Files have one page or three blocks.
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/comm/collectives.h"

#include "tests/checkpoint/counted_calls.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kWorld = 2;

enum class Fault {
  kAllEnd,   // all ranks end at that call
  kOneEnds,  // one rank's calls fail from that call on, and it reports that
  kOneCallFails,
};

struct Way {
  std::vector<ParamSpec> specs;
  Fault fault;
  bool replaces = true;  // whether the save replaces a checkpoint
  SaveMode mode = SaveMode::kSync;
  int error = -EIO;
};

// Parameter and two moments: 8.8 MB a rank.
std::vector<ParamSpec> three_blocks() {
  return {{.name = "weight", .shape = {2100, 700}}};
}

struct Counts {
  std::array<std::atomic<int>, kWorld> calls{};
  std::atomic<int> none = 0, old = 0, fresh = 0, told = 0;
};

// Saves at one path. Each trial makes the old checkpoint, saves with a fault, and then must save without one.
class Trials {
 public:
  Trials(Communicator& comm, const Way& way, const TemporaryFolder& folder, std::atomic<bool>& all_end, Counts& counts)
      : comm_(comm),
        way_(way),
        folder_(folder),
        all_end_(all_end),
        counts_(counts),
        old_(comm, way.specs, options_of({})),
        fresh_(comm, way.specs, options_of({})) {
    old_.train(0);
    fresh_.train(0);
    fresh_.train(1);
  }

  void run() {
    try_at(-1, kNever);
    for (int victim = 0; victim < kWorld; ++victim) {
      for (int last = 0; last <= counts_.calls[static_cast<std::size_t>(victim)]; ++last) try_at(victim, last);
    }
  }

 private:
  // victim -1: no fault; counts the calls.
  void try_at(int victim, int last) {
    SCOPED_TRACE(fmt::format("call {} of rank {}", last, victim));
    on_rank_0([&] {
      std::filesystem::remove_all(path());
      all_end_ = false;
    });
    if (way_.replaces) save_now(old_.engine(), path());
    const CountedCalls calls(comm_.rank() == victim ? last : kNever, way_.error, way_.fault == Fault::kOneCallFails,
                             way_.fault == Fault::kAllEnd ? &all_end_ : nullptr);
    const bool told = fails(calls);
    if (victim < 0) counts_.calls[static_cast<std::size_t>(comm_.rank())] = calls.count();
    on_rank_0([&] { judge(told); });
    EXPECT_NO_THROW(save_now(fresh_.engine(), path()));
    on_rank_0([&] {
      EXPECT_EQ(step_at(path()), 2);
      EXPECT_EQ(num_names(), 1) << "left something behind";
    });
  }

  // Either every rank has an error, or none.
  bool fails(const CountedCalls& calls) {
    std::string text;
    try {
      save_now(fresh_.engine(), path(), way_.mode, calls);
    } catch (const IoError& error) {
      text = error.what();
      EXPECT_NE(text.find(folder_.path().string()), std::string::npos) << text;
    }
    const auto texts = all_gather_text(comm_, text);
    EXPECT_EQ(texts.front().empty(), texts.back().empty()) << texts.front() << "\n" << texts.back();
    return !text.empty();
  }

  void judge(bool told) {
    const std::int64_t step = step_at(path()), before = way_.replaces ? 1 : -1;
    EXPECT_TRUE(step == before || step == 2) << "step " << step;
    (step == 2 ? counts_.fresh : step == 1 ? counts_.old : counts_.none)++;
    counts_.told += told ? 1 : 0;
    if (way_.fault != Fault::kOneCallFails) return;
    EXPECT_TRUE(told || step == 2) << "nobody was told";
    EXPECT_TRUE(step == 2 || num_names() == (way_.replaces ? 1 : 0)) << "left something behind";
  }

  void on_rank_0(const std::function<void()>& body) {
    comm_.barrier({.control = true}).wait();
    if (comm_.rank() == 0) body();
    comm_.barrier({.control = true}).wait();
  }

  std::filesystem::path path() const { return folder_ / "c"; }
  int num_names() const { return static_cast<int>(folder_.num_files()); }

  Communicator& comm_;
  const Way& way_;
  const TemporaryFolder& folder_;
  std::atomic<bool>& all_end_;
  Counts& counts_;
  ScriptedModel old_, fresh_;
};

void at_every_call(const Way& way) {
  const TemporaryFolder folder;
  std::atomic<bool> all_end = false;
  Counts counts;
  on_ranks(kWorld, [&](Communicator& comm) { Trials(comm, way, folder, all_end, counts).run(); });
  EXPECT_GT(counts.calls[0], 13);
  EXPECT_GT(counts.calls[1], 3);
  EXPECT_GT(counts.old + counts.none, 15);
  EXPECT_GT(counts.fresh, 2);
  EXPECT_GT(counts.told, 15);
  std::cout << fmt::format(
      "calls of rank 0: {}, of rank 1: {}; none {} times, the old one {}, the new one {}; told {} times\n",
      counts.calls[0].load(), counts.calls[1].load(), counts.none.load(), counts.old.load(), counts.fresh.load(),
      counts.told.load());
}

TEST(CheckpointSaveSlow, KilledRankLeavesOldOrNew) {
  for (const Fault fault : {Fault::kAllEnd, Fault::kOneEnds}) at_every_call({.specs = small_specs(), .fault = fault});
}

TEST(CheckpointSaveFull, KilledInThreeBlocksKeepsOne) {
  at_every_call({.specs = three_blocks(), .fault = Fault::kAllEnd});
}

TEST(CheckpointSaveSlow, FirstOfTwoRanksIsWhole) {
  at_every_call({.specs = small_specs(), .fault = Fault::kAllEnd, .replaces = false});
  at_every_call({.specs = three_blocks(), .fault = Fault::kAllEnd, .replaces = false});
}

TEST(CheckpointSaveSlow, FailingCallKeepsOldOnBoth) {
  Sweep sweep(3);
  for (const int error : {-EIO, -ENOSPC}) {
    for (const SaveMode mode : {SaveMode::kSync, SaveMode::kAsync})
      if (sweep.takes_next())
        at_every_call({.specs = small_specs(), .fault = Fault::kOneCallFails, .mode = mode, .error = error});
  }
}

// One combination; in the full tier each of them.
TEST(CheckpointSaveFull, FailureInThreeBlocksKeepsOld) {
  for (const int error : {-EIO, -ENOSPC}) {
    for (const SaveMode mode : {SaveMode::kSync, SaveMode::kAsync}) {
      if (in_full_tier() || (error == -ENOSPC && mode == SaveMode::kAsync))
        at_every_call({.specs = three_blocks(), .fault = Fault::kOneCallFails, .mode = mode, .error = error});
    }
  }
}

}  // namespace
}  // namespace zero
