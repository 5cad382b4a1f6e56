#include "app/train/tasks/model_kind.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"
#include "zero/torch/deferred/deferred.h"

#include "app/models/gpt2.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(ModelKinds, ModulesAreDeferred) {
  for (const auto& task : {make_task(some_gpt2(), kTextShape, 1), make_task(some_mlp({4, 3}), kImageShape, 1),
                           make_task({.name = "linear"}, kTableShape, 1)}) {
    for (const auto& tensor : task->module().parameters()) EXPECT_TRUE(is_deferred(tensor));
  }
}

// The model's weights will be loaded.
TEST(ModelKinds, LoadedModelHasNoMemoryYet) {
  ModelOptions options = some_gpt2();
  options.init = "weights to come";
  const auto task = make_task(options, kTextShape, 1);
  for (const auto& tensor : task->module().parameters()) EXPECT_TRUE(is_deferred(tensor));
}

TEST(ModelKinds, RefusesUnreadableDataForModel) {
  EXPECT_TRUE(says(refusal_of_task(some_gpt2(), kImageShape), "model.name = gpt2"));
  EXPECT_TRUE(says(refusal_of_task(some_mlp({8, 2}), kTextShape), "model.name = mlp"));
  EXPECT_TRUE(says(refusal_of_task({.name = "linear"}, kImageShape), "model.name = linear"));
  EXPECT_TRUE(says(refusal_of_task(some_gpt2(), kImageShape),
                   "use [data] kind text or tokens, or model.name mlp, cnn, rnn, lstm or gru"))
      << "the models that read this data";
  EXPECT_TRUE(says(refusal_of_task({.name = "resnet"}, kImageShape),
                   "use gpt2, llama, bert, mlp, cnn, rnn, lstm, gru or linear"));
}

TEST(ModelKinds, OnlyBlocksAreComputedAgain) {
  ModelOptions options = some_gpt2();
  options.checkpoint_activations = true;
  const auto task = make_task(options, kTextShape, 1);
  EXPECT_TRUE(dynamic_cast<Gpt2Impl&>(task->module()).options().checkpoint);
  options = some_mlp({4, 3});
  options.checkpoint_activations = true;
  EXPECT_TRUE(says(refusal_of_task(options, kImageShape),
                   "train.checkpoint_activations = true: model.name = mlp has no blocks"));
  options.name = "linear";
  EXPECT_TRUE(says(refusal_of_task(options, kTableShape), "set it to false, or use model.name gpt2, llama or bert"));
}

TEST(ModelKinds, EachIsFoundByItsName) {
  for (const ModelKind& kind : model_kinds()) {
    EXPECT_EQ(&model_kind(kind.name), &kind);
  }
}

struct SmallModel {
  ModelOptions options;
  SampleShape shape;
  std::int64_t vocab;
};

// Tests one model for each row with tokens. `zero export` and `zero generate` read the vocabulary from that weight.
TEST(ModelKinds, TokenWeightHasRowPerToken) {
  const std::map<std::string_view, SmallModel> models{
      {"gpt2", {some_gpt2(), kTextShape, 256}},
      {"llama", {some_llama(), kTextShape, 256}},
      {"bert", {some_bert(), kTextsShape, 11}},
      {"rnn", {{.name = "rnn", .layers = 1, .hidden = 8}, kTextShape, 256}},
      {"lstm", {{.name = "lstm", .layers = 1, .hidden = 8}, kTextShape, 256}},
      {"gru", {{.name = "gru", .layers = 1, .hidden = 8}, kTextShape, 256}},
  };
  for (const ModelRow& row : kModelTable) {
    ASSERT_EQ(models.contains(row.name), !row.token_weight.empty()) << row.name;
    if (row.token_weight.empty()) continue;
    const SmallModel& model = models.at(row.name);
    const auto task = make_task(model.options, model.shape, 1);
    const auto parameters = task->module().named_parameters();
    const torch::Tensor* const weight = parameters.find(std::string(row.token_weight));
    ASSERT_NE(weight, nullptr) << row.name << " has no " << row.token_weight;
    EXPECT_EQ(weight->size(0), model.vocab) << row.name;
  }
}

// The other weight names in a row are names in the model. `zero export` reads sizes from these weights, and model.init
// uses the names to find those of published files.
TEST(ModelKinds, OtherWeightNamesExist) {
  for (const ModelRow& row : kModelTable) {
    if (!row.published) continue;
    const ModelOptions options{
        .name = std::string(row.name), .layers = 1, .width = 8, .heads = 2, .hidden = 24, .context = 8};
    const auto parameters =
        make_task(options, row.reads("tsv") ? kTextsShape : kTextShape, 1)->module().named_parameters();
    const auto rows_in = [&](std::string_view name) {
      const torch::Tensor* const weight = parameters.find(std::string(name));
      return weight == nullptr ? 0 : weight->size(0);
    };
    const auto some = [&](auto&& holds) {
      return std::ranges::any_of(parameters.keys(), [&](const std::string& name) { return holds(name); });
    };
    const auto& files = row.files;
    EXPECT_EQ(rows_in(row.hidden_weight), row.hidden_weight.empty() ? 0 : 24) << row.name;
    EXPECT_EQ(rows_in(row.classes_weight), row.classes_weight.empty() ? 0 : 2) << row.name;
    EXPECT_TRUE(row.token_weight.starts_with(files.prefix)) << row.name;
    for (const std::string_view head : files.new_heads)
      EXPECT_TRUE(some([&](const std::string& name) { return files.is_of(head, name); })) << head;
    EXPECT_FALSE(some([&](const std::string& name) { return files.passes_over(name); })) << row.name;
    for (const OldEnding& ending : files.old_endings)
      EXPECT_TRUE(some([&](const std::string& name) { return name.ends_with(ending.now); })) << ending.now;
  }
}

// Published rows write a configuration for Transformers.
TEST(ModelKinds, PublishedRowsDescribeThemselves) {
  for (const ModelRow& row : kModelTable) {
    if (!row.published) continue;
    const TemporaryFolder folder;
    const bool texts = row.reads("tsv");
    const auto task = make_task({.name = std::string(row.name), .layers = 1, .width = 8, .heads = 2, .context = 8},
                                texts ? kTextsShape : kTextShape, 1);
    EXPECT_TRUE(task->describe_weights(folder.path(), DType::kFloat32)) << row.name;
    const std::string model_type = "\"model_type\": \"" + std::string(row.name) + "\"";
    EXPECT_TRUE(says(read_file(folder / "config.json"), model_type)) << read_file(folder / "config.json");
  }
}

TEST(ModelKinds, NoTwoHaveOneName) {
  for (const ModelKind& kind : model_kinds())
    EXPECT_EQ(std::ranges::count(model_kinds(), kind.name, &ModelKind::name), 1) << kind.name;
}

TEST(ModelKinds, OptionShapesMatchTheDatas) {
  const auto shape_of = [](const ModelOptions& model, DataKind data) {
    return model_kind(model.name).planned_shape(model, data, 8);
  };
  EXPECT_EQ(shape_of(some_gpt2(), DataKind::kText)->classes, 256);
  EXPECT_FALSE(shape_of(some_gpt2(), DataKind::kTokens)) << "the vocabulary is the data's";
  EXPECT_EQ(shape_of(some_mlp({784, 10}), DataKind::kMnist)->classes, 10);
  EXPECT_EQ(shape_of(some_mlp({784, 10}), DataKind::kMnist)->features, 784);
  EXPECT_FALSE(shape_of({.name = "linear"}, DataKind::kCsv));
}

}  // namespace
}  // namespace zero
