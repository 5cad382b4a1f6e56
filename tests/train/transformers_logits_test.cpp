// Exported weights are the model's. If Python has transformers, its GPT-2, Llama or BERT loads the file, or the shards
// and their index, with the config.json beside them. Its logits equal those of the engine's model at the save. For
// reading weights (model.init), see transformers_numbers_test.cpp.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "zero/checkpoint/export_weights.h"
#include "zero/checkpoint/safetensors/safetensors_file.h"
#include "zero/torch/attach.h"

#include "app/models/bert.h"
#include "app/models/gpt2.h"
#include "app/models/llama.h"
#include "app/train/tasks/model_kind.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/transformers_python.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatch = 2, kContext = 16, kVocab = 64;

// Each folder has the weights and a config.json. The padding of a bert is token 0.
constexpr std::string_view kProgram = R"(
import sys, torch, transformers
from safetensors.torch import save_file
tokens = (torch.arange(32) * 7 % 64).view(2, 16)
tokens[1, 12:] = 0
for folder in sys.argv[1:]:
    kind = transformers.AutoConfig.from_pretrained(folder)
    causal, classes = transformers.AutoModelForCausalLM, transformers.AutoModelForSequenceClassification
    auto = classes if kind.model_type == "bert" else causal
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    mask = (tokens != 0).long() if kind.model_type == "bert" else torch.ones_like(tokens)
    with torch.no_grad():
        logits = model.eval()(tokens, attention_mask=mask).logits.contiguous()
    save_file({"logits": logits}, folder + "/logits.safetensors")
)";

SampleShape shape_of(const std::string& name) {
  if (name == "bert") return {.context = kContext, .classes = 3, .vocab = kVocab};
  return {.context = kContext, .classes = kVocab};
}

torch::Tensor tokens_of(std::int64_t stride, std::int64_t first = 0) {
  return ((torch::arange(kBatch * kContext, at::kLong) * stride + first) % kVocab).view({kBatch, kContext});
}

torch::Tensor asked_tokens() {
  auto tokens = tokens_of(7);
  tokens.select(0, 1).narrow(0, 12, 4).zero_();
  return tokens;
}

torch::Tensor logits_of(torch::nn::Module& module) {
  if (auto* const gpt2 = dynamic_cast<Gpt2Impl*>(&module)) return gpt2->forward(asked_tokens());
  if (auto* const llama = dynamic_cast<LlamaImpl*>(&module)) return llama->forward(asked_tokens());
  return dynamic_cast<BertImpl&>(module).forward(asked_tokens());
}

// The logits of a model that two ranks trained for a few steps and saved at `path`. Its config.json is written to
// `described`.
torch::Tensor logits_of_a_run(const ModelOptions& options, const fs::path& path,
                              const std::vector<fs::path>& described) {
  torch::Tensor logits;
  run_ranks(2, [&](World& world) {
    const auto task = make_task(options, shape_of(options.name), /*seed=*/1);
    Engine engine = attach(task->module(), world, {.stage = 3, .optimizer = AdamW{.lr = 1e-2}});
    for (int step = 0; step < 3; ++step) {
      const auto tokens = tokens_of(5, step + world.rank());
      task->loss(tokens, options.name == "bert" ? tokens.select(1, 0) % 3 : tokens).backward();
      engine.step();
    }
    engine.save(path);
    const torch::NoGradGuard no_gradients;
    task->module().eval();
    const torch::Tensor mine = logits_of(task->module()).clone();
    if (world.rank() == 0) {
      logits = mine;
      for (const fs::path& folder : described) EXPECT_TRUE(task->describe_weights(folder, DType::kFloat32));
    }
    engine.abandon();
  });
  return logits;
}

torch::Tensor logits_in(const fs::path& path, at::IntArrayRef shape) {
  const auto file = SafetensorsFile::open(path);
  torch::Tensor logits = torch::empty(shape);
  file.read(file.at("logits"), 0, {static_cast<std::byte*>(logits.mutable_data_ptr()), logits.nbytes()});
  return logits;
}

class ExportLogits : public testing::TestWithParam<ModelOptions> {};

TEST_P(ExportLogits, MatchTransformersAfterTraining) {
  const auto python = transformers_python();
  if (!python) GTEST_SKIP() << kNoTransformers;
  const TemporaryFolder folder;
  for (const char* form : {"whole", "shards"}) fs::create_directory(folder / form);
  const torch::Tensor ours = logits_of_a_run(GetParam(), folder / "checkpoint", {folder / "whole", folder / "shards"});
  ASSERT_GT(ours.std().item<double>(), 0.01) << "nothing to compare";
  CheckpointReader reader(folder / "checkpoint");
  ASSERT_EQ(export_weights(reader, folder / "whole/model.safetensors").files.size(), 1u);
  ASSERT_GT(export_weights(reader, folder / "shards/model.safetensors", {.shard_bytes = 20'000}).files.size(), 3u);
  folder.write("logits.py", kProgram);
  const std::string line =
      "cd '" + folder.path().string() + "' && " + *python + " logits.py whole shards > out.txt 2> errors.txt";
  ASSERT_EQ(std::system(line.c_str()), 0) << std::ifstream(folder / "errors.txt").rdbuf();
  for (const std::string form : {"whole", "shards"}) {
    const torch::Tensor theirs = logits_in(folder / (form + "/logits.safetensors"), ours.sizes());
    EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5) << form;
  }
}

const auto kTransformersModels =
    testing::Values(ModelOptions{.name = "gpt2", .layers = 2, .width = 32, .heads = 2, .context = kContext},
                    ModelOptions{.name = "llama",
                                 .layers = 2,
                                 .width = 32,
                                 .heads = 4,
                                 .hidden = 40,
                                 .kv_heads = 2,
                                 .rope_theta = 500,
                                 .norm_eps = 1e-6,
                                 .context = kContext},
                    ModelOptions{.name = "bert", .layers = 2, .width = 32, .heads = 2, .context = kContext});
constexpr auto kName = [](const auto& given) { return given.param.name; };

INSTANTIATE_TEST_SUITE_P(Models, ExportLogits, kTransformersModels, kName);

}  // namespace
}  // namespace zero
