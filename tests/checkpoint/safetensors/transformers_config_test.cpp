#include "zero/checkpoint/safetensors/transformers_config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/checkpoint/safetensors/published_config.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using Json = nlohmann::ordered_json;

Json written(const TransformersModel& model, const Json& base, DType dtype = DType::kFloat32) {
  return Json::parse(transformers_config(model, dtype, base.dump()));
}

const TransformersModel kGpt2{
    .kind = PublishedKind::kGpt2, .layers = 2, .width = 8, .heads = 4, .context = 16, .vocab = 11, .dropout = 0.1};
const TransformersModel kBert{.kind = PublishedKind::kBert,
                              .layers = 2,
                              .width = 8,
                              .heads = 2,
                              .hidden = 20,
                              .context = 16,
                              .vocab = 11,
                              .classes = 2,
                              .pad = 3,
                              .dropout = 0.1};
const TransformersModel kLlama{.kind = PublishedKind::kLlama,
                               .layers = 2,
                               .width = 8,
                               .heads = 2,
                               .kv_heads = 1,
                               .hidden = 20,
                               .context = 16,
                               .vocab = 11};

TEST(TransformersConfig, ABaseKeepsItsKeys) {
  const Json base{{"model_type", "gpt2"},
                  {"n_layer", 2},
                  {"bos_token_id", 4},
                  {"my_key", "mine"},
                  {"activation_function", "gelu_pytorch_tanh"},
                  {"initializer_range", 0.5},
                  {"n_ctx", 16}};
  const Json json = written(kGpt2, base, DType::kBFloat16);
  for (const auto& [key, value] : base.items()) EXPECT_EQ(json[key], value) << key;
  EXPECT_EQ(json["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(json["vocab_size"], 11);
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_FALSE(json.contains("eos_token_id")) << "null would not be transformers' default";
  EXPECT_FALSE(json.contains("resid_pdrop")) << "0.1 is transformers' default";
}

TEST(TransformersConfig, IgnoresABaseOfAnotherModel) {
  EXPECT_EQ(written(kGpt2, {{"model_type", "bert"}, {"my_key", 1}}),
            Json::parse(transformers_config(kGpt2, DType::kFloat32)));
  EXPECT_EQ(transformers_config(kGpt2, DType::kFloat32, "no JSON"), transformers_config(kGpt2, DType::kFloat32));
}

TEST(TransformersConfig, WritesDropoutUnderEachName) {
  TransformersModel model = kGpt2;
  model.dropout = 0.25;
  const Json gpt2 = written(model, {{"model_type", "gpt2"}, {"embd_pdrop", 0.25}, {"attn_pdrop", 0.1}});
  for (const char* const name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) EXPECT_EQ(gpt2[name], 0.25) << name;
  TransformersModel bert = kBert;
  bert.dropout = 0;
  const Json json = written(bert, {{"model_type", "bert"}, {"classifier_dropout", 0.3}});
  for (const char* const name : {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"})
    EXPECT_EQ(json[name], 0) << name;
  EXPECT_EQ(written(kLlama, {{"model_type", "llama"}, {"attention_dropout", 0.2}})["attention_dropout"], 0.2);
}

TEST(TransformersConfig, KeepsALongerLlamaContext) {
  EXPECT_EQ(written(kLlama, {{"model_type", "llama"}, {"max_position_embeddings", 99}})["max_position_embeddings"], 99);
  EXPECT_EQ(written(kLlama, {{"model_type", "llama"}, {"max_position_embeddings", 8}})["max_position_embeddings"], 16);
  EXPECT_FALSE(written(kLlama, {{"model_type", "llama"}}).contains("max_position_embeddings"));
}

TEST(TransformersConfig, ClassesHaveTheirNames) {
  const Json base{
      {"model_type", "bert"}, {"id2label", {{"0", "no"}, {"1", "yes"}}}, {"num_labels", 2}, {"problem_type", "x"}};
  EXPECT_EQ(written(kBert, base)["id2label"], base["id2label"]);
  EXPECT_EQ(written(kBert, base)["problem_type"], "x");
  EXPECT_EQ(written(kBert, base)["pad_token_id"], 3);
  TransformersModel named = kBert;
  named.class_names = {"bad", "good"};
  EXPECT_EQ(written(named, base)["id2label"], (Json{{"0", "bad"}, {"1", "good"}}));
  EXPECT_EQ(Json::parse(transformers_config(named, DType::kFloat32))["label2id"], (Json{{"bad", 0}, {"good", 1}}));
  TransformersModel more = kBert;
  more.classes = 3;
  EXPECT_EQ(written(more, base)["id2label"]["2"], "LABEL_2");
  EXPECT_EQ(written(more, base)["num_labels"], 3);
}

TEST(TransformersConfig, ADtypeKeepsItsName) {
  const Json json = written(kGpt2, {{"model_type", "gpt2"}, {"dtype", "float32"}}, DType::kFloat16);
  EXPECT_EQ(json["dtype"], "float16");
  EXPECT_FALSE(json.contains("torch_dtype"));
}

TEST(PublishedConfig, DefaultsAreTransformers) {
  const auto value = [](PublishedKind kind, const std::string& key) {
    for (const PublishedKey& each : published_keys(kind, Json::object()))
      if (each.key == key) return each.value;
    return Json();
  };
  EXPECT_EQ(value(PublishedKind::kGpt2, "model.width"), 768);
  EXPECT_EQ(value(PublishedKind::kLlama, "model.hidden"), 11008);
  EXPECT_EQ(value(PublishedKind::kLlama, "model.kv_heads"), 32);
  EXPECT_EQ(value(PublishedKind::kBert, "model.vocab"), 30522);
  EXPECT_EQ(list_of(published_dropouts(PublishedKind::kGpt2, Json::object())),
            "embd_pdrop = 0.1, attn_pdrop = 0.1, resid_pdrop = 0.1");
}

}  // namespace
}  // namespace zero
