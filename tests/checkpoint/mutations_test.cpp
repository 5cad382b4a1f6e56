// Random damage of every kind to a checkpoint. It is refused, and the previous states stay valid. ZERO_MUTATIONS is the
// number of cases. Half of them damage files of two blocks that an engine of two ranks should load.
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/comm/collectives.h"

#include "tests/checkpoint/saved_model.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

// Half of ZERO_MUTATIONS, or the usual number of the test suite.
int num_mutations(int usual) {
  return num_trials("ZERO_MUTATIONS", 2 * usual, 10000) / 2;
}

// A mutation that ends with this object. `other`: a checkpoint of the same model at another step.
class Mutation {
 public:
  Mutation(const fs::path& checkpoint, const fs::path& other, std::mt19937& random) : random_(random) {
    const std::array<std::string, 3> names{"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"};
    victim_ = checkpoint / names[below(names.size())];
    const std::uintmax_t kind = below(6), size = fs::file_size(victim_), at = below(size);
    what_ = fmt::format("kind {} at byte {} of {}", kind, at, victim_.filename().string());
    if (kind == 0) {
      const std::string cut_off = bytes(at, size - at);
      fs::resize_file(victim_, at);
      undo_ = [this, at, cut_off] { write(at, cut_off); };
    } else if (kind == 1) {  // zeros a page; if it has only zeros, writes another byte
      const std::string before = bytes(at, std::min<std::uintmax_t>(4096, size - at)), zeros(before.size(), '\0');
      change(at, before, before == zeros ? std::string(zeros.size(), '\1') : zeros);
    } else if (kind == 2) {
      const std::string before = bytes(at, 1);
      change(at, before, std::string(1, static_cast<char>(before[0] ^ (1 << below(8)))));
    } else if (kind == 3) {
      swap(checkpoint / names[1], checkpoint / names[2]);
      undo_ = [=] { swap(checkpoint / names[1], checkpoint / names[2]); };
    } else {
      fs::rename(victim_, away());
      // Kind 4: this file comes from another step. Kind 5: it is missing.
      if (kind == 4) fs::create_hard_link(other / victim_.filename(), victim_);
      undo_ = [this] { fs::rename(away(), victim_); };
    }
  }
  Mutation(const Mutation&) = delete;
  Mutation& operator=(const Mutation&) = delete;
  ~Mutation() { undo_(); }
  const std::string& what() const { return what_; }

 private:
  std::uintmax_t below(std::uintmax_t n) { return static_cast<std::uintmax_t>(random_()) % n; }
  fs::path away() const { return victim_.parent_path().string() + ".away"; }
  std::string bytes(std::uintmax_t at, std::uintmax_t count) const {
    std::string out(static_cast<std::size_t>(count), '\0');
    std::ifstream(victim_, std::ios::binary).seekg(static_cast<std::streamoff>(at)).read(out.data(), std::ssize(out));
    return out;
  }
  void write(std::uintmax_t at, const std::string& with) const {
    std::fstream file(victim_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << with;
  }
  void change(std::uintmax_t at, const std::string& before, const std::string& after) {
    write(at, after);
    undo_ = [this, at, before] { write(at, before); };
  }
  static void swap(const fs::path& one, const fs::path& two) {
    const fs::path between = one.string() + ".between";
    fs::rename(one, between);
    fs::rename(two, one);
    fs::rename(between, two);
  }

  std::mt19937& random_;
  fs::path victim_;
  std::string what_;
  std::function<void()> undo_;
};

void save_two_steps(const TemporaryFolder& folder, const std::vector<ParamSpec>& specs) {
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, options_of({}));
    model.train(0);
    save_now(model.engine(), folder / "older");
    model.train(1);
    save_now(model.engine(), folder / "newer");
  });
}

TEST(CheckpointSaveSlow, NoMutationGoesUnseen) {
  const TemporaryFolder folder;
  save_two_steps(folder, small_specs());
  const int count = num_mutations(400);
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    const Mutation mutation(folder / "newer", folder / "older", random);
    EXPECT_THROW(CheckpointReader(folder / "newer").verify(), IoError) << "mutation " << i << ", " << mutation.what();
  }
  EXPECT_NO_THROW(CheckpointReader(folder / "newer").verify()) << "they were undone";
  std::cout << fmt::format("{} mutations\n", count);
}

// Checksums of this rank's part of every state.
std::vector<std::uint64_t> sums_of_states(RankEngine& engine) {
  engine.states().pause();
  std::vector<std::uint64_t> sums;
  for (const Unit& unit : engine.units()) {
    for (int state = 0; state < engine.states().contents().num_saved_states(unit.index); ++state)
      engine.states().read_shard(unit.index, state, [&](std::int64_t, std::span<const std::byte> elements) {
        sums.push_back(block_sum(elements));
      });
  }
  return sums;
}

// An engine with the states of one checkpoint, which should load another, damaged one.
class Loads {
 public:
  Loads(Communicator& comm, const std::vector<ParamSpec>& specs, const TemporaryFolder& folder)
      : comm_(comm), folder_(folder), model_(comm, specs, options_of({})) {
    load_checkpoint(model_.engine(), folder / "newer");
    newer_ = sums_of_states(model_.engine());
    load_checkpoint(model_.engine(), folder / "older");
    older_ = sums_of_states(model_.engine());
    EXPECT_NE(newer_, older_);
  }

  // Collective. Returns whether the load had begun to change states.
  bool refuses(const std::string& what) {
    bool begun = false;
    std::string text;
    try {
      load_checkpoint(model_.engine(), folder_ / "newer", FileCalls::kernel(), {.begin = [&] { begun = true; }});
      ADD_FAILURE() << what << " was loaded by rank " << comm_.rank();
    } catch (const IoError& error) {
      text = error.what();
    }
    EXPECT_NE(text.find(folder_.path().string()), std::string::npos) << what << ": " << text;
    const auto ends = all_gather_text(comm_, fmt::format("{} {}", begun, text.empty()));
    EXPECT_EQ(ends.front(), ends.back()) << what << ": the ranks do not agree";
    if (begun) load_checkpoint(model_.engine(), folder_ / "older");
    EXPECT_EQ(sums_of_states(model_.engine()), older_) << what;
    EXPECT_EQ(model_.engine().states().progress().steps, 1) << what;
    return begun;
  }

  // Repeats the step of the saved run.
  void train_on() {
    model_.train(1);
    EXPECT_EQ(sums_of_states(model_.engine()), newer_);
    load_checkpoint(model_.engine(), folder_ / "older");
  }

 private:
  Communicator& comm_;
  const TemporaryFolder& folder_;
  ScriptedModel model_;
  std::vector<std::uint64_t> newer_, older_;
};

TEST(CheckpointLoadSlow, MutatedBlocksFallBackToOlder) {
  // Parameter and two moments, half of each on a rank: 5.6 MiB.
  const std::vector<ParamSpec> specs{{.name = "weight", .shape = {1400, 700}}};
  const TemporaryFolder folder;
  save_two_steps(folder, specs);
  EXPECT_EQ(CheckpointReader(folder / "newer").manifest().files.front().content.sums.size(), 2u);
  const int count = num_mutations(100);
  std::mt19937 random(11);
  std::atomic<int> begun = 0;
  on_ranks(2, [&](Communicator& comm) {
    Loads loads(comm, specs, folder);
    for (int i = 0; i < count; ++i) {
      std::optional<Mutation> mutation;
      if (comm.rank() == 0) mutation.emplace(folder / "newer", folder / "older", random);
      const bool changed = loads.refuses(
          fmt::format("mutation {}, {}", i, broadcast_text(comm, comm.rank() == 0 ? mutation->what() : "")));
      begun += changed && comm.rank() == 0 ? 1 : 0;
      comm.barrier({.control = true}).wait();
      mutation.reset();
      if (i % 100 == 49) loads.train_on();
    }
  });
  EXPECT_GT(begun, 0) << "all were refused before states changed";
  EXPECT_LT(begun, count);
  EXPECT_NO_THROW(CheckpointReader(folder / "newer").verify()) << "they were undone";
  std::cout << fmt::format("{} mutations, {} of them met when states were being read\n", count, begun.load());
}

}  // namespace
}  // namespace zero
