#include "zero/checkpoint/read/checkpoint_reader.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/checkpoint/saved_model.h"
#include "tests/memory/failing_calls.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

class Reader : public testing::Test {
 protected:
  void SetUp() override {
    on_ranks(3, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(), options_of({.world = 3}));
      train_steps(model, 0, 2, 1);
      CheckpointSave(
          model.engine(), folder_ / "c",
          {.run = {{"step", "2"}},
           .config = "[model]\n",
           .extras = {{.name = "rng/cpu", .shape = {1}, .bytes = {static_cast<std::byte>(comm.rank() + 40)}}}},
          SaveMode::kSync)
          .wait();
      const auto weights = model.weights_of("wte");
      if (comm.rank() == 0) weights_ = weights;
    });
  }
  TemporaryFolder folder_;
  std::vector<float> weights_;
};

TEST_F(Reader, ReadsRangesAcrossRanks) {
  CheckpointReader reader(folder_ / "c");
  const int wte = reader.find("wte");
  for (std::size_t begin = 0; begin < weights_.size(); begin += 7) {
    for (std::size_t numel = 1; begin + numel <= weights_.size(); numel += 5) {
      std::vector<float> out(numel);
      reader.read(wte, 0, static_cast<std::int64_t>(begin), out);
      EXPECT_TRUE(std::equal(out.begin(), out.end(), weights_.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
  EXPECT_EQ(reader.find("nobody"), -1);
}

TEST_F(Reader, ExtrasAreEachRanksOwn) {
  CheckpointReader reader(folder_ / "c");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(reader.read_extras(rank).at(0).bytes.at(0), static_cast<std::byte>(rank + 40));
  EXPECT_TRUE(reader.read_extras(3).empty());
  EXPECT_EQ(reader.manifest().config, "[model]\n");
}

TEST_F(Reader, AMissingPartIsAnError) {
  std::filesystem::remove(folder_ / "c/rank-00002.safetensors");
  EXPECT_NE(message_of<IoError>([&] { CheckpointReader(folder_ / "c"); }).find("rank-00002.safetensors: open"),
            std::string::npos);
  EXPECT_THROW(CheckpointReader(folder_ / "nothing"), IoError);
}

TEST_F(Reader, RefusesLinkedFiles) {
  const auto file = folder_ / "c/rank-00001.safetensors";
  std::filesystem::rename(file, folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", file);
  EXPECT_TRUE(
      says(message_of<IoError>([&] { CheckpointReader(folder_ / "c"); }), "rank-00001.safetensors: open: is a link"));
}

// `cp -al` makes a copy without space on disk. The run's next save at the same path writes new files, so the copy
// stays.
TEST_F(Reader, HardLinkedCopyStaysUntouched) {
  std::filesystem::create_directory(folder_ / "copy");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "c"))
    std::filesystem::create_hard_link(entry.path(), folder_ / "copy" / entry.path().filename());
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    train_steps(model, 0, 3, 1);
    save_now(model.engine(), folder_ / "c");
  });
  EXPECT_EQ(read_manifest(folder_ / "c").steps, 3);
  CheckpointReader reader(folder_ / "copy");
  EXPECT_NO_THROW(reader.verify());
  EXPECT_EQ(reader.manifest().steps, 2);
}

TEST_F(Reader, AFailingReadIsTold) {
  FailingCalls calls;
  calls.on_read = -EIO;
  EXPECT_NE(message_of<IoError>([&] { CheckpointReader(folder_ / "c", calls); }).find("Input/output error"),
            std::string::npos);
}

}  // namespace
}  // namespace zero
