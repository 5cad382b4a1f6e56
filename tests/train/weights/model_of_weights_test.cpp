#include "app/train/weights/model_of_weights.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A model of zero.cpp, and the config.json of the same model in Transformers.
struct Same {
  ModelOptions model;
  TransformersModel published;
  Json config;
};

Same gpt2() {
  return {.model = {.name = "gpt2", .layers = 2, .width = 8, .heads = 4, .context = 16},
          .published = {.kind = PublishedKind::kGpt2, .layers = 2, .width = 8, .heads = 4, .context = 16, .vocab = 11},
          .config = {{"model_type", "gpt2"}, {"n_layer", 2}, {"n_embd", 8}, {"n_head", 4}, {"n_positions", 16}}};
}

// As Llama 3 is published, except for its sizes.
Same llama() {
  return {.model = {.name = "llama",
                    .layers = 2,
                    .width = 16,
                    .heads = 4,
                    .hidden = 24,
                    .kv_heads = 2,
                    .rope_theta = 500000,
                    .norm_eps = 1e-5,
                    .context = 16},
          .published = {.kind = PublishedKind::kLlama,
                        .layers = 2,
                        .width = 16,
                        .heads = 4,
                        .kv_heads = 2,
                        .hidden = 24,
                        .context = 16,
                        .vocab = 11,
                        .rope_theta = 500000,
                        .norm_eps = 1e-5},
          .config = {{"model_type", "llama"},
                     {"num_hidden_layers", 2},
                     {"hidden_size", 16},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"intermediate_size", 24},
                     {"max_position_embeddings", 8192},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 500000.0}}};
}

Same bert() {
  return {.model = {.name = "bert", .layers = 2, .width = 8, .heads = 2, .hidden = 20, .context = 16},
          .published = {.kind = PublishedKind::kBert,
                        .layers = 2,
                        .width = 8,
                        .heads = 2,
                        .hidden = 20,
                        .context = 16,
                        .vocab = 11,
                        .classes = 2},
          .config = {{"model_type", "bert"},
                     {"num_hidden_layers", 2},
                     {"hidden_size", 8},
                     {"num_attention_heads", 2},
                     {"intermediate_size", 20},
                     {"max_position_embeddings", 16}}};
}

// Returns "" if the model is accepted.
std::string refusal(const ModelOptions& model, const std::optional<TransformersModel>& published) {
  try {
    require_model_of_weights(model, published);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

class ModelOfWeights : public testing::Test {
 protected:
  // The error for `model` when this text is beside its weights, or "" if it is accepted.
  std::string said(Same same, const std::string& config) const {
    folder_.write("config.json", config);
    same.model.init = folder_.path().string();
    return refusal(same.model, same.published);
  }
  std::string said(const Same& same) const { return said(same, same.config.dump()); }
  // The same with another value for one key.
  std::string with(Same same, const std::string& key, const Json& value) const {
    same.config[key] = value;
    return said(same);
  }
  std::string without(Same same, const std::string& key) const {
    same.config.erase(key);
    return said(same);
  }
  std::string file() const { return (folder_ / "config.json").string(); }
  // The error for `model` with the weights of a run that has these keys of [model].
  std::string of_run(ModelOptions model, const std::string& keys) const {
    folder_.write("config.toml", "[model]\n" + keys + "\n[train]\nsteps = 3\n");
    folder_.write("report.json", "{}");
    model.init = (folder_ / "model.safetensors").string();
    return refusal(model, std::nullopt);
  }

  TemporaryFolder folder_;
};

TEST_F(ModelOfWeights, TheSameModelIsTaken) {
  for (const Same& same : {gpt2(), llama(), bert()}) EXPECT_EQ(said(same), "");
}

TEST_F(ModelOfWeights, TakesTransformersAndZeroFiles) {
  for (Same same : {gpt2(), llama(), bert()})
    EXPECT_EQ(said(same, transformers_config(same.published, DType::kFloat32)), "");
  Same published = llama();
  published.model = {.name = "llama", .kv_heads = 2};
  published.model.init =
      (fs::path(built::kSourceFolder) / "tests/train/transformers/llama_tied/model.safetensors.index.json").string();
  published.published.hidden = 19;
  published.published.rope_theta = 500;
  published.published.norm_eps = 1e-6;
  published.published.tie_embeddings = true;
  EXPECT_EQ(refusal(published.model, published.published), "");
}

// The error names the value to set.
TEST_F(ModelOfWeights, RefusesOtherRopeBase) {
  Same same = llama();
  same.published.rope_theta = 10000;
  EXPECT_EQ(said(same), "model.rope_theta = 10000: the weights of model.init belong to a model with 500000 (" + file() +
                            ": rope_theta)\n  set model.rope_theta to 500000");
}

TEST_F(ModelOfWeights, NamesAllDifferingKeys) {
  Same same = llama();
  same.published.rope_theta = 10000;
  same.config["rms_norm_eps"] = 1e-6;
  same.config["tie_word_embeddings"] = true;
  same.config["num_attention_heads"] = 8;
  const std::string message = said(same);
  EXPECT_TRUE(says(message, "model.heads = 4: the weights of model.init belong to a model with 8 (" + file() +
                                ": num_attention_heads); other keys also differ: model.rope_theta = 10000, not 500000 "
                                "(rope_theta), model.norm_eps = 1e-05, not 1e-06 (rms_norm_eps), model.tie_embeddings "
                                "= false, not true (tie_word_embeddings)"))
      << message;
  EXPECT_TRUE(
      message.ends_with("\n  set model.heads to 8, model.rope_theta to 500000, model.norm_eps to 1e-06, "
                        "model.tie_embeddings to true"))
      << message;
}

TEST_F(ModelOfWeights, ComparesEachKeyOfEachModel) {
  for (const auto& [key, name] : {std::pair("n_layer", "model.layers"),
                                  {"n_embd", "model.width"},
                                  {"n_head", "model.heads"},
                                  {"n_positions", "model.context"}})
    EXPECT_TRUE(says(with(gpt2(), key, 32), name) && says(with(gpt2(), key, 32), std::string(name) + " to 32")) << key;
  for (const auto& [key, name] : {std::pair("num_hidden_layers", "model.layers"),
                                  {"hidden_size", "model.width"},
                                  {"num_attention_heads", "model.heads"},
                                  {"intermediate_size", "model.hidden"}}) {
    EXPECT_TRUE(says(with(llama(), key, 32), std::string(name) + " to 32")) << key;
    EXPECT_TRUE(says(with(bert(), key, 32), std::string(name) + " to 32")) << key;
  }
  EXPECT_TRUE(says(with(llama(), "num_key_value_heads", 1), "model.kv_heads = 2"));
  EXPECT_TRUE(says(with(bert(), "max_position_embeddings", 512), "model.context to 512"));
  EXPECT_EQ(with(llama(), "max_position_embeddings", 8), "") << "positions are computed";
}

TEST_F(ModelOfWeights, MissingKeysUseTransformersDefaults) {
  EXPECT_TRUE(says(without(gpt2(), "n_head"), "model.heads to 12"));
  EXPECT_TRUE(says(without(bert(), "num_attention_heads"), "model.heads to 12"));
  EXPECT_TRUE(says(without(llama(), "rope_theta"), "model.rope_theta to 10000"));
  EXPECT_TRUE(says(without(llama(), "rms_norm_eps"), "model.norm_eps to 1e-06"));
  EXPECT_TRUE(says(without(llama(), "num_key_value_heads"), "model.kv_heads to 4")) << "as many as heads";
  Same tied = llama();
  tied.published.tie_embeddings = true;
  EXPECT_TRUE(says(said(tied), "model.tie_embeddings to false"));
  Same old = gpt2();
  old.config.erase("model_type");  // transformers did not always write it
  old.config["n_head"] = 2;
  EXPECT_TRUE(says(said(old), "model.heads to 2"));
}

// The key's place depends on the version of Transformers.
TEST_F(ModelOfWeights, FindsRopeBaseOfAnyVersion) {
  Same same = llama();
  same.config.erase("rope_theta");
  same.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(said(same), "");
  same.config["rope_parameters"]["rope_theta"] = 1000000;
  EXPECT_TRUE(says(said(same), "model.rope_theta to 1000000"));
  EXPECT_TRUE(says(said(same), "rope_parameters.rope_theta"));
  same.config["rope_theta"] = 500000.0;
  same.config["rope_parameters"] = nullptr;
  same.config["rope_scaling"] = nullptr;
  EXPECT_EQ(said(same), "");
}

TEST_F(ModelOfWeights, Fp32RoundedEpsIsEqual) {
  EXPECT_EQ(with(llama(), "rms_norm_eps", 9.999999747378752e-06), "");
  EXPECT_EQ(with(gpt2(), "layer_norm_epsilon", 9.999999747378752e-06), "");
}

TEST_F(ModelOfWeights, RefusesUnsupportedComputationByName) {
  const auto is_refused = [&](const Same& same, const std::string& key, const Json& value, const std::string& what) {
    const std::string message = with(same, key, value);
    EXPECT_TRUE(says(message, "model.init = " + folder_.path().string() + ": its weights belong to a " +
                                  same.model.name + " that zero.cpp does not support (" + file() + "): " + what))
        << key << ": " << message;
  };
  is_refused(gpt2(), "activation_function", "relu", R"(activation_function = "relu", not "gelu_new")");
  is_refused(gpt2(), "layer_norm_epsilon", 1e-6, "layer_norm_epsilon = 1e-06, not 1e-05");
  is_refused(gpt2(), "scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx = true, not false");
  is_refused(gpt2(), "scale_attn_weights", false, "scale_attn_weights = false");
  is_refused(gpt2(), "tie_word_embeddings", false, "tie_word_embeddings = false, not true");
  is_refused(gpt2(), "n_inner", 48, "n_inner = 48, not 32");
  is_refused(llama(), "hidden_act", "gelu", R"(hidden_act = "gelu", not "silu")");
  is_refused(llama(), "attention_bias", true, "attention_bias = true");
  is_refused(llama(), "mlp_bias", true, "mlp_bias = true");
  is_refused(llama(), "head_dim", 8, "head_dim = 8, not 4");
  is_refused(llama(), "rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}},
             R"(rope_scaling.rope_type = "llama3", not "default")");
  is_refused(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}, R"(rope_scaling.rope_type = "linear")");
  is_refused(llama(), "rope_parameters", {{"rope_type", "yarn"}}, R"(rope_parameters.rope_type = "yarn")");
  is_refused(bert(), "hidden_act", "gelu_new", R"(hidden_act = "gelu_new", not "gelu")");
  is_refused(bert(), "layer_norm_eps", 1e-5, "layer_norm_eps = 1e-05, not 1e-12");
  is_refused(bert(), "position_embedding_type", "relative_key", R"(position_embedding_type = "relative_key")");
  is_refused(bert(), "is_decoder", true, "is_decoder = true");
  is_refused(bert(), "type_vocab_size", 3, "type_vocab_size = 3, not 2");
  EXPECT_EQ(with(gpt2(), "reorder_and_upcast_attn", true), "") << "the same function";
  EXPECT_EQ(with(gpt2(), "activation_function", "gelu_pytorch_tanh"), "") << "the same function";
  EXPECT_EQ(with(bert(), "tie_word_embeddings", false), "") << "the key of a head that a classifier does not have";
  EXPECT_EQ(with(llama(), "attention_dropout", 0.1), "") << "keys of training only";
}

TEST_F(ModelOfWeights, RefusesOtherModelKindByName) {
  EXPECT_TRUE(says(with(gpt2(), "model_type", "llama"),
                   "model.name = \"gpt2\": the weights of model.init belong to a model with \"llama\" (" + file() +
                       ": model_type)\n  set model.name to \"llama\""));
  EXPECT_TRUE(says(with(llama(), "model_type", "qwen2"),
                   "its weights belong to a model that zero.cpp does not support (" + file() +
                       ": model_type = \"qwen2\")\n"
                       "  use weights of a gpt2, llama or bert"));
}

// A file that describes no model is skipped. An unreadable file is refused.
TEST_F(ModelOfWeights, SkipsForeignFilesRefusesUnreadable) {
  EXPECT_EQ(said(llama(), "{\"port\": 80}"), "");
  EXPECT_EQ(said(llama(), "[1, 2]"), "");
  EXPECT_TRUE(says(said(llama(), "{\"model_type\": \"lla"), file() + " is not JSON"));
  const std::vector<Json> strange{"x", -1, 9e300, {{"a", 1}}, Json::array({1, 2}), true};
  for (const char* const key : {"n_embd", "hidden_size", "num_attention_heads", "rope_theta", "rope_scaling", "n_inner",
                                "head_dim", "model_type"})
    for (const Json& value : strange)
      for (const Same& same : {gpt2(), llama()}) with(same, key, value);  // must return or throw, not crash
  fs::remove(folder_ / "config.json");
  Same same = llama();
  same.model.init = folder_.path().string();
  EXPECT_EQ(refusal(same.model, same.published), "") << "weights without config.json";
  fs::create_directories(folder_ / "config.json");
  EXPECT_EQ(refusal(same.model, same.published), "");
}

TEST_F(ModelOfWeights, UnknownModelIsNotCompared) {
  folder_.write("config.json", llama().config.dump());
  EXPECT_EQ(refusal({.name = "mlp", .init = folder_.path().string()}, std::nullopt), "");
}

TEST_F(ModelOfWeights, ComparesKeysThatShapesHide) {
  const ModelOptions model = llama().model;
  const std::string same =
      "name = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\nrope_theta = 500000.0\nnorm_eps = 1e-05\n";
  EXPECT_EQ(of_run(model, same), "");
  EXPECT_EQ(of_run(model, same + "dropout = 0.5\ncontext = 99\nlayers = 7\n"), "");
  const std::string message = of_run(model, "name = \"llama\"\nheads = 2\nkv_heads = 0\nrope_theta = 10000.0\n");
  EXPECT_TRUE(says(message, "model.heads = 4: the weights of model.init belong to a model with 2 (" +
                                (folder_ / "config.toml").string() + ": model.heads)"))
      << message;
  EXPECT_TRUE(message.ends_with("\n  set model.heads to 2, model.rope_theta to 10000")) << message;
  EXPECT_TRUE(says(of_run(model, same + "tie_embeddings = true\n"), "model.tie_embeddings = false"));
  EXPECT_TRUE(says(of_run(model, "name = \"gpt2\"\nheads = 2\n"), "set model.name to \"gpt2\""));
  EXPECT_EQ(of_run({.name = "gpt2", .heads = 2}, "name = \"gpt2\"\nheads = 2\n"), "")
      << "as written by earlier versions";
  fs::remove(folder_ / "report.json");
  ModelOptions other = model;
  other.init = (folder_ / "model.safetensors").string();
  folder_.write("config.toml", "[model]\nname = \"llama\"\nheads = 2\n");
  EXPECT_EQ(refusal(other, std::nullopt), "") << "a configuration, but not a run's";
}

}  // namespace
}  // namespace zero
