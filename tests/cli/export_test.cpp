// Checkpoints on the command line: listed, verified, exported, and used by another run.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/sha256.h"

#include "tests/cli/training_test.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/transformers_python.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Export : public TrainingTest {
 protected:
  Export()
      : TrainingTest(
            "[model]\nlayers = 2\nwidth = 32\nheads = 2\ncontext = 16\n[data]\npath = \"input.txt\"\nvalidation = 0\n"
            "[train]\nsteps = 6\nbatch = 2\n[checkpoint]\nevery = 2\nkeep = 2\n") {}
  Json inspected(const std::string& arguments, int status = 0) const {
    const Ran ran = folder_.zero("inspect --json " + arguments);
    EXPECT_EQ(ran.status, status) << ran.errors;
    return Json::parse(ran.output, nullptr, false);
  }
};
using ExportSlow = Export;

TEST_F(ExportSlow, ListsVerifiesAndExportsCheckpoints) {
  const Json report = report_of("-n 2", "run");
  const Json run = inspected("run --verify");
  ASSERT_EQ(run["checkpoints"].size(), 2u);
  EXPECT_EQ(run["checkpoints"][0]["step"], "6");
  EXPECT_EQ(run["checkpoints"][0]["whole"], true);
  EXPECT_EQ(run["checkpoints"][0]["ranks"], 2);
  const Ran exported = folder_.zero("export run -o weights.safetensors");
  EXPECT_EQ(exported.status, 0) << exported.errors;
  // The export has the final weights of the run. The next run starts from them, with any number of ranks.
  EXPECT_EQ(folder_.read("weights.safetensors").size() > 1000, true);
  const Ran next = folder_.zero("train c.toml -n 3 --model.init weights.safetensors --run.dir next --train.steps 1");
  EXPECT_EQ(next.status, 0) << next.errors;
  const Json again =
      report_of("-n 2 --model.init weights.safetensors --optimizer.lr 0 --schedule.min_lr 0 --train.steps 1", "same");
  EXPECT_EQ(again["parameters_sha256"], report["parameters_sha256"]);
}

TEST_F(ExportSlow, DamagedCheckpointFallsBackToEarlier) {
  report_of("", "run");
  const fs::path newest = folder_.path() / "run/checkpoints/step-00000006/rank-00000.safetensors";
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(newest) / 2)).put('\x7f').put('\x01');
  file.close();
  EXPECT_EQ(inspected("run")["checkpoints"][0]["whole"], true) << "sizes and manifest are right";
  const Json verified = inspected("run --verify", 4);
  EXPECT_EQ(verified["checkpoints"][0]["whole"], false);
  EXPECT_EQ(verified["checkpoints"][1]["whole"], true);
  const Ran exported = folder_.zero("export run -o w.safetensors", "ZERO_LOG_LEVEL=warn");
  EXPECT_EQ(exported.status, 0);
  EXPECT_NE(exported.errors.find("is skipped"), std::string::npos) << exported.errors;
  EXPECT_NE(exported.output.find("step-00000004"), std::string::npos) << exported.output;
}

TEST_F(ExportSlow, CheckpointsNameTheirConfiguration) {
  report_of("", "run");
  report_of("--optimizer.lr 0.001", "other");
  const std::string config = folder_.read("run/config.toml");
  const std::string sha256 = inspected("run")["checkpoints"][0]["config_sha256"];
  EXPECT_EQ(sha256, sha256_hex(std::as_bytes(std::span(config))));
  EXPECT_NE(inspected("other")["checkpoints"][0]["config_sha256"], sha256);
  EXPECT_NE(folder_.zero("inspect run").output.find("configuration " + sha256.substr(0, 8)), std::string::npos);
}

TEST_F(ExportSlow, ShardsHaveAnIndex) {
  report_of("", "run");
  EXPECT_EQ(
      folder_.zero("export run/checkpoints/step-00000006 -o m.safetensors --shard-size 40KiB --dtype bf16").status, 0);
  const Json index = Json::parse(folder_.read("m.safetensors.index.json"), nullptr, false);
  EXPECT_GT(index["weight_map"].size(), 20u);
  EXPECT_TRUE(fs::exists(folder_.path() / index["weight_map"]["transformer.wte.weight"].get<std::string>()));
}

// An export may have any number of files. Another run, on any number of ranks, has the same weights.
TEST_F(ExportSlow, ShardsStartARun) {
  const Json report = report_of("-n 2", "run");
  fs::create_directory(folder_.path() / "shards");
  ASSERT_EQ(folder_.zero("export run -o shards/model.safetensors --shard-size 40KiB").status, 0);
  ASSERT_FALSE(fs::exists(folder_.path() / "shards/model.safetensors"));
  const std::string unchanged = " --optimizer.lr 0 --schedule.min_lr 0 --train.steps 1";
  EXPECT_EQ(report_of("-n 2 --zero.stage 3 --model.init shards" + unchanged, "of_folder")["parameters_sha256"],
            report["parameters_sha256"]);
  EXPECT_EQ(report_of("-n 3 --zero.stage 1 --model.init shards/model.safetensors.index.json" + unchanged,
                      "of_index")["parameters_sha256"],
            report["parameters_sha256"]);
}

TEST_F(ExportSlow, RefusesIndexWithMissingFiles) {
  report_of("", "run");
  fs::create_directory(folder_.path() / "shards");
  ASSERT_EQ(folder_.zero("export run -o shards/model.safetensors --shard-size 40KiB").status, 0);
  const Json index = Json::parse(folder_.read("shards/model.safetensors.index.json"), nullptr, false);
  const auto shard = index["weight_map"]["transformer.wte.weight"].get<std::string>();
  fs::remove(folder_.path() / "shards" / shard);
  const Ran ran = folder_.zero("train c.toml -n 2 --model.init shards --run.dir next");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("model.init"), std::string::npos) << ran.errors;
  EXPECT_NE(ran.errors.find(shard), std::string::npos) << ran.errors;
  EXPECT_FALSE(fs::exists(folder_.path() / "next/config.toml"));
}

TEST_F(ExportSlow, WritesTransformersConfigAndKeepsFiles) {
  report_of("--train.dtype bf16", "run");
  const Ran exported = folder_.zero("export run -o new/folder");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_NE(exported.output.find("28 parameters, 0 buffers"), std::string::npos) << exported.output;
  EXPECT_NE(exported.output.find("left out: states of the optimizer (exp_avg, exp_avg_sq)"), std::string::npos)
      << exported.output;
  const Json config = Json::parse(folder_.read("new/folder/config.json"), nullptr, false);
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["n_embd"], 32);
  EXPECT_EQ(config["vocab_size"], 256);
  EXPECT_EQ(config["torch_dtype"], "float32");
  const Json of_run = Json::parse(folder_.read("run/config.json"), nullptr, false);
  EXPECT_EQ(of_run["n_positions"], 16);
  EXPECT_EQ(of_run["torch_dtype"], "bfloat16");
  EXPECT_EQ(folder_.zero("export run -o new/folder").status, 0) << "its own file is rewritten";
  folder_.write("mine/config.json", "{\"port\": 80}");
  const Ran kept = folder_.zero("export run -o mine/model.safetensors");
  EXPECT_EQ(kept.status, 0) << kept.errors;
  EXPECT_NE(kept.output.find("no config.json: mine/config.json exists already"), std::string::npos) << kept.output;
  EXPECT_EQ(folder_.read("mine/config.json"), "{\"port\": 80}");
  const Ran named = folder_.zero("export run -o mine/weights.safetensors");
  EXPECT_NE(named.output.find("name the file so"), std::string::npos) << named.output;
}

TEST_F(ExportSlow, UsersFilesAreKept) {
  report_of("", "run");
  folder_.write("mine/words.txt", "my words");
  const Ran refused = folder_.zero("export run -o mine");
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_NE(refused.errors.find("-o = mine/words.txt: no export wrote this file"), std::string::npos) << refused.errors;
  EXPECT_EQ(folder_.read("mine/words.txt"), "my words");
  EXPECT_FALSE(fs::exists(folder_.path() / "mine/model.safetensors"));
}

// A size that the checkpoint's configuration lacks is read from its weights. The finished run has the same config.json.
TEST_F(ExportSlow, DescribesLlamaAndBertForTransformers) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += i % 2 ? "all the world is a stage\n" : "and the men and women merely players\n";
  folder_.write("lines.txt", lines);
  for (const std::string flags : {"--model.name llama --model.kv_heads 1",
                                  "--model.name bert --data.kind word_order "
                                  "--data.path lines.txt"}) {
    report_of(flags + " --overwrite", "run");
    ASSERT_EQ(folder_.zero("export run -o out").status, 0);
    const Json exported = Json::parse(folder_.read("out/config.json"), nullptr, false);
    EXPECT_EQ(exported, Json::parse(folder_.read("run/config.json"), nullptr, false)) << flags;
    EXPECT_EQ(exported["hidden_size"], 32);
    fs::remove_all(folder_.path() / "out");
  }
}

TEST_F(ExportSlow, WhatCannotBeExportedIsSaid) {
  EXPECT_EQ(folder_.zero("export nothing -o w.safetensors").status, 2);
  EXPECT_EQ(folder_.zero("export nothing -o w.bin").status, 2);
  EXPECT_EQ(folder_.zero("export run").status, 2);
}

TEST_F(ExportSlow, FinishedRunNamesItsWeights) {
  report_of("--checkpoint.every 0", "run");
  const Ran exported = folder_.zero("export run -o w.safetensors");
  EXPECT_EQ(exported.status, 2);
  EXPECT_NE(exported.errors.find("finished run are in run/model.safetensors"), std::string::npos) << exported.errors;
}

// If python has transformers, its GPT-2 reads the export (tests/train/transformers_logits_test.cpp compares logits).
// zero.cpp also trains from files that transformers writes, one or several.
TEST_F(ExportSlow, TransformersFilesWorkBothWays) {
  const auto python = transformers_python();
  if (!python) GTEST_SKIP() << kNoTransformers;
  report_of("", "run");
  ASSERT_EQ(folder_.zero("export run -o hf").status, 0);
  ASSERT_EQ(folder_.zero("export run -o rounded --dtype bf16 --shard-size 40KiB").status, 0);
  folder_.write("check.py", R"(
import sys, torch, transformers
model, info = transformers.GPT2LMHeadModel.from_pretrained("hf", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
config = model.config
of_run = transformers.AutoModelForCausalLM.from_pretrained("run")
assert all(torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), of_run.parameters()))
rounded = transformers.GPT2LMHeadModel.from_pretrained("rounded")
pairs = zip(model.parameters(), rounded.parameters())
assert all(torch.allclose(mine, theirs.float(), atol=1e-2) for mine, theirs in pairs)
data = torch.tensor(list(open("input.txt", "rb").read()[:17]))
loss = torch.nn.functional.cross_entropy(model(data[:16][None]).logits[0], data[1:])
print(float(loss))
print(bytes(model.generate(torch.tensor([list(b"all")]), max_new_tokens=8, do_sample=False)[0].tolist()))
theirs = transformers.GPT2LMHeadModel(config)
theirs.save_pretrained("theirs")
theirs.save_pretrained("shards", max_shard_size="40KB")
)");
  const std::string line = "cd '" + folder_.path().string() + "' && " + *python + " check.py > loss.txt 2> check.err";
  ASSERT_EQ(std::system(line.c_str()), 0) << folder_.read("check.err");
  const double theirs = std::stod(folder_.read("loss.txt"));
  // The first sequential sample of one rank is the same 16 tokens.
  const Json ours = report_of(
      "--model.init hf/model.safetensors --data.order sequential --train.batch 1 --train.steps 1 --model.vocab 256",
      "ours");
  EXPECT_NEAR(ours["losses"][0].get<double>(), theirs, 1e-5);
  const Json from_theirs = report_of("--model.init theirs/model.safetensors --model.vocab 256", "from_theirs");
  EXPECT_EQ(from_theirs["losses"].size(), 6u);
  ASSERT_TRUE(fs::exists(folder_.path() / "shards/model.safetensors.index.json"));
  const Json from_shards = report_of("--model.init shards --model.vocab 256", "from_shards");
  EXPECT_EQ(from_shards["parameters_sha256"], from_theirs["parameters_sha256"]);
}

class ExportOfImages : public TrainingTest {
 protected:
  ExportOfImages()
      : TrainingTest(
            "[model]\nname = \"cnn\"\n[data]\nkind = \"mnist\"\npath = \"digits\"\nvalidation = 0.25\nmean = 0.25\n"
            "std = [0.5]\naugment = \"shift_flip\"\n[train]\nsteps = 2\nbatch = 2\n[checkpoint]\nevery = 1\n"
            "[run]\nthreads = 1\n") {}
  void SetUp() override {
    TrainingTest::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(folder_.path() / "digits");
    std::string pixels;
    for (int i = 0; i < 8 * 13 * 17; ++i) pixels += static_cast<char>(i * 7 % 251);
    folder_.write("digits/train-images-idx3-ubyte", idx_images(8, 13, 17, pixels));
    folder_.write("digits/train-labels-idx1-ubyte", idx_labels(std::string("\0\0\0\0\1\1\1\1", 8)));
  }
};

// Images of 13 x 17 pixels with sorted labels. A file beside the weights describes the inputs.
TEST_F(ExportOfImages, InputsAreDescribedBesideTheWeights) {
  report_of("", "run");
  const Json json = Json::parse(folder_.read("run/preprocessor_config.json"));
  EXPECT_EQ(json["size"]["height"], 13);
  EXPECT_EQ(json["size"]["width"], 17);
  EXPECT_EQ(json["num_channels"], 1);
  EXPECT_EQ(json["rescale_factor"], 1.0 / 255);
  EXPECT_EQ(json["image_mean"], std::vector{0.25});
  EXPECT_EQ(json["image_std"], std::vector{0.5});
  const Ran exported = folder_.zero("export run -o exported");
  EXPECT_EQ(exported.status, 0) << exported.errors;
  EXPECT_TRUE(says(exported.output, "exported/preprocessor_config.json"));
  EXPECT_EQ(folder_.read("exported/preprocessor_config.json"), folder_.read("run/preprocessor_config.json"));
}

// Shifts and flips depend only on the seed and the sample's number in the run. Sums in another order differ in the last
// bits.
TEST_F(ExportOfImages, AugmentsAlikeInEachWorld) {
  const auto first_loss = [&](const std::string& flags, const std::string& run) {
    return report_of(flags, run).at("losses").front().get<double>();
  };
  const double one = first_loss("--train.batch 4", "one");
  EXPECT_NEAR(first_loss("-n 2 --train.batch 2", "two"), one, 1e-5);
  EXPECT_GT(std::abs(first_loss("--train.batch 4 --data.augment none", "none") - one), 1e-4);
}

}  // namespace
}  // namespace zero
