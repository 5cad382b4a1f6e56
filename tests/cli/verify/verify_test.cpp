// `zero verify` on one run of a small GPT on two ranks: 12 steps, with checkpoints after steps 4, 8 and 12.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "zero/base/files/file.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/safetensors/block_sums.h"

#include "app/cli/verify/audit.h"
#include "app/cli/verify/audit_plan.h"
#include "app/cli/verify/audit_text.h"
#include "app/data/sample/sample_order.h"
#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRun =
    "[train]\nsteps = 12\nbatch = 2\naccumulate = 2\neval_every = 6\neval_batches = 1\n[schedule]\nwarmup = 2\n"
    "[checkpoint]\nevery = 4\nkeep = 3\n[run]\nthreads = 1\n[comm]\ntransport = \"in_process\"\n";

class Verify : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!ZERO_CAN_TRAIN) return;
    source_ = std::make_unique<Folder>();
    write_inputs(*source_);
    const Ran ran = source_->zero("train c.toml -n 2 --run.dir run", "timeout 250");
    ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  }
  static void TearDownTestSuite() { source_.reset(); }
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and the run needs it";
    write_inputs(folder_);
    fs::copy(source_->path() / "run", folder_.path() / "run", fs::copy_options::recursive);
    fs::copy(source_->path() / "run", folder_.path() / "again", fs::copy_options::recursive);
  }

  static void write_inputs(const Folder& folder) {
    folder.write("c.toml", small_gpt(kRun, "validation = 0.1\n"));
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) text += fmt::format("{} men and women merely players. ", i * i);
    folder.write("input.txt", text);
  }

  // The run's records against its untouched copy, which stands for a second execution.
  Audit audit(std::optional<std::int64_t> first = {}, std::optional<std::int64_t> last = {}) const {
    const fs::path before = fs::current_path();
    fs::current_path(folder_.path());
    const AuditPlan plan = plan_audit({.run = "run", .first = first, .last = last});
    Audit found = compare_with_records(plan, folder_.path() / "again");
    text_ = to_text(plan, found, {.seconds = 1, .folder = ""});
    fs::current_path(before);
    return found;
  }

  void edit_log(const std::string& run, const std::string& before, const std::string& after) const {
    std::string text = folder_.read(run + "/metrics.jsonl");
    const std::size_t found = text.find(before);
    ASSERT_NE(found, std::string::npos) << before;
    text.replace(found, before.size(), after);
    folder_.write(run + "/metrics.jsonl", text);
  }

  // Flips a bit of a checkpoint's first element: a quarter of its value, or more. With `vouched`, all checksums are
  // written again.
  void flip_bit(std::int64_t step, bool vouched) const {
    const fs::path checkpoint = folder_.path() / fmt::format("run/checkpoints/step-{:08}", step);
    Manifest manifest = parse_manifest(read_file(checkpoint / "manifest.json"), "manifest.json");
    SavedFile& file = manifest.files[0];
    std::string bytes = read_file(checkpoint / file.name);
    char& byte = bytes[static_cast<std::size_t>(file.slices[0].offset) + 2];
    byte = static_cast<char>(byte ^ 0x20);
    write_file(checkpoint / file.name, bytes);
    if (!vouched) return;
    file.content = sums_of(std::as_bytes(std::span(bytes)));
    write_file(checkpoint / "manifest.json", to_text(manifest));
  }

  std::string refusal(const AuditRequest& request) const {
    const fs::path before = fs::current_path();
    fs::current_path(folder_.path());
    std::string message = message_of<ConfigError>([&] { (void)plan_audit(request); });
    fs::current_path(before);
    return message;
  }

  void accepts(const AuditRequest& request) const {
    const fs::path before = fs::current_path();
    fs::current_path(folder_.path());
    EXPECT_NO_THROW((void)plan_audit(request));
    fs::current_path(before);
  }

  static std::unique_ptr<Folder> source_;
  Folder folder_;
  mutable std::string text_;
};

std::unique_ptr<Folder> Verify::source_;

// Between the first and the last checkpoint, at another stage, with moments on the host; the folder is as it was.
TEST_F(Verify, OtherStageAndTierAreEqual) {
  const auto listed = [&] {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "run"))
      if (entry.is_regular_file()) files.insert(entry.path().string() + read_file(entry.path()));
    return files;
  };
  const auto before = listed();
  const Ran ran = folder_.zero("verify run --zero.stage 1 --zero.optimizer '{host = 1}'", "timeout 250");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  EXPECT_CONTAINS(ran.output, "run: steps 4..12 executed again in ");
  EXPECT_CONTAINS(ran.output, "begin: run/checkpoints/step-00000004\n");
  EXPECT_CONTAINS(ran.output, "with: 2 ranks, stage 1, transport in_process\n");
  EXPECT_CONTAINS(ran.output, "samples of 8 steps; 2 evaluations; weights and optimizer states after steps 8, 12\n");
  EXPECT_CONTAINS(ran.output, "equal: no difference\n");
  EXPECT_EQ(ran.output.find("not compared"), std::string::npos) << ran.output;
  EXPECT_EQ(listed(), before);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().filename().string().find("-verify-"), std::string::npos) << entry.path();
}

// From the initial weights, by processes; the log has the sums of a checkpoint that is gone.
// Sums of whole matrices, copies that train apart, and an update that is one step late.
using VerifySlow = Verify;
TEST_F(VerifySlow, OtherModesAreEqual) {
  for (const std::string flags : {"--optimizer.name adafactor", "--sync.mode local --sync.local_steps 2",
                                  "--zero.stage 2 --zero.delayed_update true"}) {
    const Ran ran =
        folder_.zero("train c.toml -n 2 --run.dir mode --overwrite --checkpoint.every 4 " + flags, "timeout 250");
    ASSERT_EQ(ran.status, 0) << flags << ran.errors;
    const Ran verified = folder_.zero("verify mode --steps 5..8", "timeout 100");
    EXPECT_EQ(verified.status, 0) << flags << verified.output << verified.errors;
    EXPECT_TRUE(says(verified.output, "equal: no difference")) << flags << verified.output;
  }
}

TEST_F(Verify, LogStandsForRemovedCheckpoints) {
  fs::remove_all(folder_.path() / "run/checkpoints/step-00000004");
  const Ran ran =
      folder_.zero("verify run --json --steps 0..5 --comm.transport shared_memory --run.dir kept", "timeout 250");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  const auto json = nlohmann::json::parse(ran.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << ran.output;
  EXPECT_EQ(json.at("equal"), true);
  EXPECT_EQ(json.at("start_from"), "the initial weights");
  EXPECT_EQ(json.at("compared").at("steps"), 5);
  EXPECT_EQ(json.at("compared").at("saved_steps"), nlohmann::json::array({4}));
  EXPECT_EQ(json.at("folder"), "kept");
  EXPECT_TRUE(fs::exists(folder_.path() / "kept/metrics.jsonl"));
}

// A byte that one sample of step 10 has, and no other sample of steps 9 and 10.
TEST_F(Verify, ChangedSampleIsNamedByStep) {
  constexpr std::int64_t kSamplesOfStep = 8, kContext = 16;
  constexpr std::uint64_t kSeed = 1337;  // the default of train.seed
  std::string text = folder_.read("input.txt");
  const auto held_out = static_cast<std::int64_t>(std::ceil(static_cast<double>(text.size()) * 0.1));
  const std::int64_t count = static_cast<std::int64_t>(text.size()) - held_out - kContext;
  std::map<std::int64_t, std::set<std::int64_t>> samples_of_byte;
  for (std::int64_t sample = 8 * kSamplesOfStep; sample < 10 * kSamplesOfStep; ++sample)
    for (std::int64_t at = 0; at <= kContext; ++at)
      samples_of_byte[shuffled_offset(kSeed, sample, count) + at].insert(sample);
  const auto only_in_step_10 = std::ranges::find_if(samples_of_byte, [](const auto& entry) {
    return entry.second.size() == 1 && *entry.second.begin() >= 9 * kSamplesOfStep;
  });
  ASSERT_NE(only_in_step_10, samples_of_byte.end());
  char& byte = text.at(static_cast<std::size_t>(only_in_step_10->first));
  byte = byte == 'w' ? 'm' : 'w';
  folder_.write("input.txt", text);
  const Ran ran = folder_.zero("verify run --steps 8..10", "timeout 250");
  EXPECT_EQ(ran.status, 1) << ran.errors << ran.output;
  EXPECT_CONTAINS(ran.output, "DIFFERENT from step 10 on:\n  step 10: loss ");
}

// The mark of the data has samples of the whole text.
TEST_F(Verify, AnotherTextIsNamed) {
  std::string text = folder_.read("input.txt");
  for (char& letter : text) letter = letter == 'm' ? 'w' : letter;
  folder_.write("input.txt", text);
  const Ran ran = folder_.zero("verify run --steps 8..10", "timeout 250");
  EXPECT_EQ(ran.status, 1) << ran.errors << ran.output;
  EXPECT_CONTAINS(ran.output, "DIFFERENT from step 9 on:\n  step 9: loss ");
  EXPECT_CONTAINS(ran.output, "the samples are different from step 9 on: as much as then, ");
}

TEST_F(Verify, UntouchedRunIsEqual) {
  const Audit found = audit();
  EXPECT_TRUE(found.differences.empty()) << text_;
  EXPECT_EQ(found.num_steps, 8);
  EXPECT_EQ(found.checkpoints, (std::vector<std::int64_t>{8, 12}));
  EXPECT_EQ(found.num_states, 6);
}

TEST_F(Verify, ChangedDigitIsNamed) {
  const std::string log = folder_.read("run/metrics.jsonl");
  const std::size_t line = log.find("\"step\": 7, \"loss\": ");
  ASSERT_NE(line, std::string::npos);
  const std::string loss = log.substr(line, log.find(',', line + 12) - line);
  std::string changed = loss;
  char& digit = changed.at(changed.find('.') + 4);
  digit = digit == '3' ? '4' : '3';
  edit_log("run", loss, changed);
  const Audit found = audit();
  ASSERT_EQ(found.differences.size(), 1U) << text_;
  EXPECT_EQ(found.differences[0].step, 7);
  EXPECT_EQ(found.differences[0].subject, "loss");
  EXPECT_TRUE(found.differences[0].recorded.starts_with(changed.substr(changed.rfind(' ') + 1, 6))) << text_;
  EXPECT_CONTAINS(found.differences[0].recorded, " (0x1.");
  EXPECT_CONTAINS(found.differences[0].found, loss.substr(loss.rfind(' ') + 1) + " (0x1.");
  EXPECT_EQ(found.conclusion, "what follows step 7 is equal, so only its line in the log was changed");
}

TEST_F(Verify, RemovedAndRepeatedLinesAreNamed) {
  edit_log("run", "\"step\": 7, \"loss\"", "\"step\": 6, \"loss\"");
  edit_log("run", "\"step\": 10, \"loss\"", "\"stop\": 10, \"loss\"");
  edit_log("run", "{\"t\"", "{\"t");
  const Audit found = audit();
  EXPECT_CONTAINS(text_, " of metrics.jsonl is a second line of step 6");
  EXPECT_CONTAINS(text_, "step 7: metrics.jsonl has no line of this step");
  EXPECT_CONTAINS(text_, "step 10: metrics.jsonl has no line of this step");
  EXPECT_EQ(found.differences.front().step, 6) << text_;
}

// Of a step without an evaluation, of a step that has one, and of a step that the run has not done.
TEST_F(Verify, AddedEvaluationsAreNamed) {
  folder_.write("run/metrics.jsonl", folder_.read("run/metrics.jsonl") +
                                         "{\"step\": 7, \"val_loss\": 0.01}\n{\"step\": 12, \"val_loss\": 0.01}\n" +
                                         "{\"step\": 40, \"val_loss\": 0.01}\n");
  const Audit found = audit();
  ASSERT_EQ(found.differences.size(), 3U) << text_;
  EXPECT_CONTAINS(text_, "step 7: metrics.jsonl has 1 evaluation of this step, and the second execution made 0");
  EXPECT_CONTAINS(text_, "step 12: metrics.jsonl has 2 evaluations of this step, and the second execution made 1");
  EXPECT_CONTAINS(text_, "step 40: metrics.jsonl has 1 evaluation of this step, and the second execution made 0");
}

TEST_F(Verify, FlippedBitIsDamage) {
  flip_bit(8, /*vouched=*/false);
  const Audit found = audit();
  ASSERT_FALSE(found.differences.empty());
  EXPECT_CONTAINS(text_, "DIFFERENT from step 8 on:\n  step 8: checkpoint is damaged: ");
  EXPECT_CONTAINS(text_, "rank-00000.safetensors");
}

// Whoever changes a weight can also write new checksums. The sums in the log, and the second execution, still tell.
TEST_F(Verify, VouchedChangeNamesTheElement) {
  flip_bit(8, /*vouched=*/true);
  const Audit found = audit();
  ASSERT_EQ(found.differences.size(), 1U) << text_;
  EXPECT_EQ(found.differences[0].step, 8);
  EXPECT_EQ(found.differences[0].subject, "parameter in the checkpoint");
  EXPECT_CONTAINS(found.differences[0].detail, "element 0 of ");
  EXPECT_CONTAINS(found.differences[0].detail, "; the log has the sums that were found");
  EXPECT_CONTAINS(found.differences[0].recorded, " (0x");
}

// The execution begins with the changed weights, so all later steps differ as well.
TEST_F(Verify, LogFindsChangedStarts) {
  flip_bit(8, /*vouched=*/true);
  const Ran ran = folder_.zero("verify run --steps 8..10 --json", "timeout 250");
  EXPECT_EQ(ran.status, 1) << ran.errors << ran.output;
  const auto json = nlohmann::json::parse(ran.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << ran.output;
  EXPECT_EQ(json.at("differences").at(0).at("step"), 8);
  EXPECT_EQ(json.at("differences").at(0).at("subject"), "parameter");
  EXPECT_EQ(json.at("differences").at(1).at("step"), 9);
}

TEST_F(Verify, DamagedStartIsLeftOut) {
  flip_bit(4, /*vouched=*/false);
  const Audit found = audit();
  EXPECT_EQ(found.differences.front().step, 4) << text_;
  EXPECT_CONTAINS(text_, "begin: run/checkpoints/step-00000008\n");
  EXPECT_CONTAINS(text_, "note: no undamaged checkpoint is before step 8");
  EXPECT_EQ(found.num_steps, 4);
}

// Earlier versions logged no sums, and kept no places.
TEST_F(Verify, OldRecordsAreCompared) {
  std::string log;
  for (const auto& line : json_lines(folder_.read("run/metrics.jsonl")))
    if (!line.contains("event")) log += line.dump() + "\n";
  folder_.write("run/metrics.jsonl", log);
  const Audit found = audit();
  EXPECT_TRUE(found.differences.empty()) << text_;
  EXPECT_EQ(found.checkpoints, (std::vector<std::int64_t>{8, 12})) << "by the bytes of the checkpoints";
  EXPECT_CONTAINS(text_, "not compared: the states after step 4, with which the execution began: the log has no sums");
}

TEST_F(Verify, UnfinishedRunIsCompared) {
  fs::remove(folder_.path() / "run/report.json");
  fs::remove_all(folder_.path() / "run/checkpoints/step-00000012");
  std::string log = folder_.read("run/metrics.jsonl");
  const std::size_t cut = log.find("\"step\": 11, \"loss\"");
  folder_.write("run/metrics.jsonl", log.substr(0, cut));  // half a line is left
  const Audit found = audit(4, 10);
  EXPECT_TRUE(found.differences.empty()) << text_;
  EXPECT_EQ(found.num_steps, 6);
  EXPECT_CONTAINS(text_, "note: the run has not ended: it has logged 10 of 12 steps");
  EXPECT_CONTAINS(text_, "not compared: the states after step 10: the run has no record of them");
}

TEST_F(Verify, ChangedWeightsFileIsNamed) {
  std::string weights = folder_.read("run/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  folder_.write("run/model.safetensors", weights);
  const Audit found = audit();
  ASSERT_EQ(found.differences.size(), 1U) << text_;
  EXPECT_EQ(found.differences[0].step, 12);
  EXPECT_EQ(found.differences[0].subject, "model.safetensors");
}

TEST_F(Verify, ImpossibleStepsAreRefused) {
  EXPECT_CONTAINS(refusal({.run = "run", .first = 8, .last = 4}), "--steps = 8..4: no step is between 8 and 4");
  EXPECT_CONTAINS(refusal({.run = "run", .first = 8, .last = 8}), "no step is between 8 and 8");
  EXPECT_CONTAINS(refusal({.run = "run", .first = 4, .last = 13}), "--steps = 4..13: the run has done 12 steps");
  EXPECT_CONTAINS(refusal({.run = "run", .first = 40, .last = 50}), "the run has done 12 steps");
  AuditRequest request;
  for (const char* text : {"8", "..", "a..b", "4..8..12", "-1..4", "4...8"})
    EXPECT_CONTAINS(message_of<ConfigError>([&] { parse_steps(text, request); }), "not a range of steps");
}

TEST_F(Verify, RunWithoutCheckpointsNeedsSteps) {
  fs::remove_all(folder_.path() / "run/checkpoints");
  EXPECT_CONTAINS(refusal({.run = "run"}), "it keeps no checkpoint");
  EXPECT_CONTAINS(refusal({.run = "run"}), "--steps 0..12 begins with the initial weights");
  accepts({.run = "run", .first = 0, .last = 12});
  fs::remove(folder_.path() / "run/metrics.jsonl");
  EXPECT_CONTAINS(refusal({.run = "run", .first = 0, .last = 12}), "its metrics.jsonl has no step");
}

// The whole validation split is evaluated after step 8, which was the last one. The rate is constant.
TEST_F(Verify, MoreStepsAreVerifiedInParts) {
  for (const std::string steps : {"8", "12"}) {
    const Ran ran =
        folder_.zero("train c.toml -n 2 --run.dir more --schedule.name constant --train.steps " + steps, "timeout 250");
    ASSERT_EQ(ran.status, 0) << ran.errors;
  }
  const Ran refused = folder_.zero("verify more", "timeout 100");
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_CONTAINS(refused.errors, "the checkpoint of step 8 has train.steps = 8, and the checkpoint of step 12 has 12");
  EXPECT_CONTAINS(refused.errors, "verify the parts one by one: --steps 4..8, then --steps 8..12");
  for (const std::string part : {"4..8", "8..12"}) {
    const Ran ran = folder_.zero("verify more --steps " + part, "timeout 100");
    EXPECT_EQ(ran.status, 0) << part << ran.errors << ran.output;
  }
}

// With keep_best the last step has one more evaluation; a save applies the gradient that a delayed update holds back.
TEST_F(Verify, ChangedSavesAreVerifiedInParts) {
  const auto change = [&](std::int64_t step, const std::string& before, const std::string& after) {
    const fs::path path = folder_.path() / fmt::format("run/checkpoints/step-{:08}/manifest.json", step);
    Manifest manifest = parse_manifest(read_file(path), "manifest.json");
    const std::size_t found = manifest.config.find(before);
    ASSERT_NE(found, std::string::npos) << before << manifest.config;
    manifest.config.replace(found, before.size(), after);
    write_file(path, to_text(manifest));
  };
  change(12, "\nkeep = 3\n", "\nkeep = 2\n");
  change(12, "\nevery = 4\n", "\nevery = 6\n");
  accepts({.run = "run"});
  for (const std::int64_t step : {8, 12}) change(step, "delayed_update = false", "delayed_update = true");
  EXPECT_CONTAINS(refusal({.run = "run"}), "has checkpoint.every = 4, and the checkpoint of step 12 has 6");
  change(12, "\nevery = 6\n", "\nevery = 4\n");
  change(12, "keep_best = \"none\"", "keep_best = \"loss\"");
  EXPECT_CONTAINS(refusal({.run = "run"}), "has checkpoint.keep_best = \"none\", and the checkpoint of step 12 has");
}

TEST_F(Verify, OtherPathsAreRefused) {
  EXPECT_CONTAINS(refusal({.run = "none"}), "RUN = none: no such folder");
  EXPECT_CONTAINS(refusal({.run = "input.txt"}), "RUN = input.txt: it is a file");
  EXPECT_CONTAINS(refusal({.run = "run/checkpoints"}), "a folder of checkpoints, not a run");
  fs::remove(folder_.path() / "run/config.toml");
  EXPECT_CONTAINS(refusal({.run = "run"}), "checkpoints without the config.toml");
}

Setting setting(const std::string& name, const std::string& text) {
  return {name, parse_value(text), text, "command line", /*bare=*/true};
}

TEST_F(Verify, KeysThatDecideBitsAreRefused) {
  EXPECT_CONTAINS(refusal({.run = "run", .overrides = {setting("optimizer.lr", "0.5")}}),
                  "command line: optimizer.lr = 0.5: the run had ");
  EXPECT_CONTAINS(refusal({.run = "run", .overrides = {setting("run.deterministic", "true")}}),
                  "other bits would follow: libtorch takes other operators");
  EXPECT_CONTAINS(refusal({.run = "run", .overrides = {setting("train.steps", "6")}}), "--steps chooses the steps");
  EXPECT_CONTAINS(refusal({.run = "run", .ranks = 3}),
                  "-n = 3: the run had 2 ranks, and other bits would follow: sums over ranks have other terms");
  EXPECT_CONTAINS(refusal({.run = "run", .environment = {"ZERO_TRAIN_SEED=7"}}), "ZERO_TRAIN_SEED: train.seed = 7: ");
  accepts({.run = "run", .overrides = {setting("zero.stage", "0")}});
}

// A place is a build, a processor and threads.
TEST_F(Verify, OtherPlacesAreRefused) {
  const auto rewrite = [&](const std::string& before, const std::string& after) {
    for (const int step : {4, 8, 12}) {
      const fs::path path = folder_.path() / fmt::format("run/checkpoints/step-{:08}/manifest.json", step);
      Manifest manifest = parse_manifest(read_file(path), "manifest.json");
      std::string& places = manifest.run.at("places");
      const std::size_t found = places.find(before);
      ASSERT_NE(found, std::string::npos) << places;
      places.replace(found, before.size(), after);
      write_file(path, to_text(manifest));
    }
  };
  const std::string places =
      parse_manifest(read_file(folder_.path() / "run/checkpoints/step-00000004/manifest.json"), "m").run.at("places");
  rewrite("threads 1 ", "threads 2 zero 1 libtorch 2 instructions A settings - processor B; threads 1 ");
  EXPECT_CONTAINS(folder_.zero("verify run").errors, "the bits would differ: a rank computed with zero 1, and zero ");
  rewrite("threads 2 zero 1 libtorch 2 instructions A settings - processor B; ",
          "threads 3" + places.substr(std::string("threads 1").size()) + "; ");
  const Ran ran = folder_.zero("verify run");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "the bits would differ: its ranks computed with 3 and 1 threads");
}

TEST_F(Verify, FolderWithinTheRunIsRefused) {
  const Ran within = folder_.zero("verify run --run.dir run/again");
  EXPECT_EQ(within.status, 2);
  EXPECT_CONTAINS(within.errors, "run.dir = run/again: it is in the folder of the run");
  const Ran taken = folder_.zero("verify run --run.dir again");
  EXPECT_EQ(taken.status, 2);
  EXPECT_CONTAINS(taken.errors, "run.dir = again: it is not an empty folder");
}

}  // namespace
}  // namespace zero::cli
