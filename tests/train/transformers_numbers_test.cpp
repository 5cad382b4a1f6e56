// Weights that transformers wrote, in one file or in shards, give the same model here (model.init): its logits equal
// those that transformers computed. tests/train/transformers_numbers.py wrote both.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/checkpoint/safetensors/safetensors_file.h"
#include "zero/torch/attach.h"

#include "app/models/bert.h"
#include "app/models/gpt2.h"
#include "app/models/llama.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/weights.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

// A folder of tests/train/transformers, and the configuration of its model.
struct Published {
  std::string folder;
  ModelOptions model;
  SampleShape data;

  fs::path path() const { return fs::path(built::kSourceFolder) / "tests/train/transformers" / folder; }
};

void PrintTo(const Published& published, std::ostream* out) {
  *out << published.folder;
}

constexpr std::int64_t kLength = 11;

ModelOptions llama(bool tied) {
  return {.name = "llama",
          .layers = 2,
          .width = 16,
          .heads = 4,
          .hidden = 19,
          .kv_heads = 2,
          .rope_theta = 500,
          .norm_eps = 1e-6,
          .tie_embeddings = tied,
          .context = kLength};
}

const std::vector<Published> kPublished{
    {"gpt2",
     {.name = "gpt2", .layers = 2, .width = 9, .heads = 3, .context = kLength},
     {.context = kLength, .classes = 37}},
    {"llama", llama(false), {.context = kLength, .classes = 29}},
    {"llama_tied", llama(true), {.context = kLength, .classes = 29}},
    {"bert",
     {.name = "bert", .layers = 2, .width = 10, .heads = 2, .hidden = 23, .context = kLength},
     {.context = kLength, .classes = 3, .vocab = 41, .pad = 3}},
};

torch::Tensor tensor_in(const SafetensorsFile& file, const char* name, at::ScalarType type) {
  const SafetensorsEntry& entry = file.at(name);
  torch::Tensor values = torch::empty(entry.shape, type);
  file.read(entry, 0, {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
  return values;
}

torch::Tensor logits_of(torch::nn::Module& module, const torch::Tensor& tokens) {
  const torch::NoGradGuard no_gradients;
  module.eval();
  if (auto* const gpt2 = dynamic_cast<Gpt2Impl*>(&module)) return gpt2->forward(tokens);
  if (auto* const llama = dynamic_cast<LlamaImpl*>(&module)) return llama->forward(tokens);
  return dynamic_cast<BertImpl&>(module).forward(tokens);
}

class TransformersNumbers : public testing::TestWithParam<Published> {};

// The logits equal those of the same weights in transformers.
TEST_P(TransformersNumbers, LogitsMatchHere) {
  ModelOptions options = GetParam().model;
  options.init = GetParam().path().string();
  const auto numbers = SafetensorsFile::open(GetParam().path() / "logits.safetensors");
  const torch::Tensor theirs = tensor_in(numbers, "logits", at::kFloat);
  ASSERT_GT(theirs.std().item<double>(), 0.5) << "the logits must vary";
  run_ranks(2, [&](World& world) {
    const auto task = make_task(options, GetParam().data, /*seed=*/1);
    const InitialWeights weights(task->module(), options.init);
    Engine engine = attach(task->module(), world, {.stage = 3, .weights = weights.source()});
    const torch::Tensor ours = logits_of(task->module(), tensor_in(numbers, "tokens", at::kLong));
    ASSERT_EQ(ours.sizes(), theirs.sizes());
    EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5);
    engine.abandon();
  });
}

INSTANTIATE_TEST_SUITE_P(Models, TransformersNumbers, testing::ValuesIn(kPublished),
                         [](const auto& given) { return given.param.folder; });

TEST(TransformersBert, ReadPaddingChangesScores) {
  const Published& bert = kPublished.back();
  const auto numbers = SafetensorsFile::open(bert.path() / "logits.safetensors");
  SampleShape no_padding = bert.data;
  no_padding.pad = 0;
  ModelOptions options = bert.model;
  options.init = bert.path().string();
  run_ranks(1, [&](World& world) {
    const auto task = make_task(options, no_padding, /*seed=*/1);
    const InitialWeights weights(task->module(), options.init);
    Engine engine = attach(task->module(), world, {.weights = weights.source()});
    const torch::Tensor apart =
        logits_of(task->module(), tensor_in(numbers, "tokens", at::kLong)) - tensor_in(numbers, "logits", at::kFloat);
    EXPECT_LE(apart[0].abs().max().item<double>(), 1e-5) << "a text without padding";
    EXPECT_GT(apart[1].abs().max().item<double>(), 1e-2);
    engine.abandon();
  });
}

}  // namespace
}  // namespace zero
