// What is exported is the model: where Python has transformers, its GPT-2 loads the file, or the shards and their
// index, and has the logits that the engine's own model had when it was saved.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "zero/checkpoint/export_weights.h"
#include "zero/checkpoint/safetensors_file.h"
#include "zero/models/gpt2.h"
#include "zero/torch/attach.h"
#include "zero/torch/deferred.h"

#include "tests/temporary_folder.h"
#include "tests/transformers_python.h"
#include "tests/transport/worlds.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatch = 2, kContext = 16, kVocab = 64;

constexpr std::string_view kProgram = R"(
import sys, torch, transformers
from safetensors.torch import save_file
config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2,
                                 resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
tokens = (torch.arange(32) * 7 % 64).view(2, 16)
for folder in sys.argv[1:]:
    config.save_pretrained(folder)
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.no_grad():
        save_file({"logits": model(tokens).logits.contiguous()}, folder + "/logits.safetensors")
)";

torch::Tensor tokens_of(std::int64_t stride, std::int64_t first = 0) {
  return ((torch::arange(kBatch * kContext, at::kLong) * stride + first) % kVocab).view({kBatch, kContext});
}

torch::Tensor loss_of(Gpt2& model, const torch::Tensor& tokens) {
  const torch::Tensor logits = model->forward(tokens).narrow(1, 0, kContext - 1);
  return at::cross_entropy_loss(logits.reshape({-1, kVocab}), tokens.narrow(1, 1, kContext - 1).reshape({-1}));
}

// Of a model that two ranks have trained a little and saved at `path`.
torch::Tensor logits_of_a_run(const fs::path& path) {
  torch::Tensor logits;
  run_ranks(2, [&](World& world) {
    Gpt2 model = deferred(
        [] { return Gpt2(Gpt2Options{.layers = 2, .width = 32, .heads = 2, .context = kContext, .vocab = kVocab}); },
        /*seed=*/1);
    Attachment engine = attach(*model, world, {.stage = 3, .optimizer = AdamW{.lr = 1e-2}});
    for (int step = 0; step < 3; ++step) {
      loss_of(model, tokens_of(5, step + world.rank())).backward();
      engine.step();
    }
    engine.save(path);
    const torch::NoGradGuard no_gradients;
    const torch::Tensor mine = model->forward(tokens_of(7)).clone();
    if (world.rank() == 0) logits = mine;
    engine.abandon();
  });
  return logits;
}

torch::Tensor logits_in(const fs::path& path) {
  const auto file = SafetensorsFile::open(path);
  torch::Tensor logits = torch::empty({kBatch, kContext, kVocab});
  file.read(file.at("logits"), 0, {static_cast<std::byte*>(logits.mutable_data_ptr()), logits.nbytes()});
  return logits;
}

TEST(ExportLogits, TransformersHasThoseOfTheModelThatWasTrained) {
  const auto python = transformers_python();
  if (!python) GTEST_SKIP() << kNoTransformers;
  const TemporaryFolder folder;
  const torch::Tensor ours = logits_of_a_run(folder / "checkpoint");
  ASSERT_GT(ours.std().item<double>(), 0.01) << "nothing to compare";
  CheckpointReader reader(folder / "checkpoint");
  fs::create_directory(folder / "whole");
  fs::create_directory(folder / "shards");
  ASSERT_EQ(export_weights(reader, folder / "whole/model.safetensors").files.size(), 1u);
  ASSERT_GT(export_weights(reader, folder / "shards/model.safetensors", {.shard_bytes = 20'000}).files.size(), 3u);
  folder.write("logits.py", kProgram);
  const std::string line =
      "cd '" + folder.path().string() + "' && " + *python + " logits.py whole shards > out.txt 2> errors.txt";
  ASSERT_EQ(std::system(line.c_str()), 0) << std::ifstream(folder / "errors.txt").rdbuf();
  for (const std::string form : {"whole", "shards"}) {
    const torch::Tensor theirs = logits_in(folder / (form + "/logits.safetensors"));
    EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5) << form;
  }
}

}  // namespace
}  // namespace zero
