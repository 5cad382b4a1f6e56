#include "app/config/model_of_init.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/config/command_line.h"
#include "app/config/load.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class ModelOfInit : public testing::Test {
 protected:
  LoadedConfig loaded(const std::string& json, std::vector<std::string> arguments = {}) const {
    folder_.write("config.json", json);
    arguments.insert(arguments.end(), {"--model.init", folder_.path().string()});
    return load_config({.overrides = split_command_line(arguments).overrides, .check_files = false});
  }
  std::string refusal(const std::string& json, std::vector<std::string> arguments = {}) const {
    return message_of<ConfigError>([&] { loaded(json, arguments); });
  }
  TemporaryFolder folder_;
};

constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 4, "n_positions": 16, "vocab_size": 300})";

TEST_F(ModelOfInit, MissingKeysFollowTheFile) {
  const ModelOptions gpt2 = loaded(kGpt2).config.model;
  EXPECT_EQ(gpt2.name, "gpt2");
  EXPECT_EQ(gpt2.layers, 2);
  EXPECT_EQ(gpt2.width, 8);
  EXPECT_EQ(gpt2.heads, 4);
  EXPECT_EQ(gpt2.context, 16);
  EXPECT_EQ(gpt2.vocab, 300);
  EXPECT_EQ(gpt2.dropout, 0.1) << "transformers' default, which the file leaves out";
  const ModelOptions llama = loaded(R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 16,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 99,
      "vocab_size": 31, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "attention_dropout": 0.2,
      "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}})")
                                 .config.model;
  EXPECT_EQ(llama.name, "llama");
  EXPECT_EQ(llama.layers, 3);
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.hidden, 24);
  EXPECT_EQ(llama.context, 99);
  EXPECT_EQ(llama.vocab, 31);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_EQ(llama.rope_theta, 500);
  EXPECT_TRUE(llama.tie_embeddings);
  EXPECT_EQ(llama.dropout, 0);
}

TEST_F(ModelOfInit, GivenKeysStay) {
  const auto found = loaded(kGpt2, {"--model.layers", "5", "--model.dropout", "0"});
  EXPECT_EQ(found.config.model.layers, 5) << "refused when the weights are opened";
  EXPECT_EQ(found.config.model.dropout, 0);
  EXPECT_EQ(found.config.model.width, 8);
  EXPECT_EQ(found.origins.at("model.layers"), "command line");
  EXPECT_EQ(found.origins.at("model.width"), (folder_ / "config.json").string());
  EXPECT_EQ(loaded(kGpt2, {"--model.name", "llama"}).config.model.width, ModelOptions{}.width) << "another model";
}

TEST_F(ModelOfInit, OneDropoutIsNeeded) {
  const std::string json = R"({"model_type": "gpt2", "embd_pdrop": 0.1, "attn_pdrop": 0.0, "resid_pdrop": 0.1})";
  const std::string text = refusal(json);
  EXPECT_TRUE(
      says(text, "config.json has embd_pdrop = 0.1, attn_pdrop = 0.0, resid_pdrop = 0.1, and a gpt2 here has one"));
  EXPECT_TRUE(says(text, "set model.dropout"));
  EXPECT_EQ(loaded(json, {"--model.dropout", "0.2"}).config.model.dropout, 0.2);
}

TEST_F(ModelOfInit, WrongValuesNameTheFile) {
  EXPECT_TRUE(says(refusal(R"({"model_type": "gpt2", "n_layer": "two"})"),
                   "config.json: model.layers = \"two\": a string does not fit"));
  EXPECT_TRUE(says(refusal(R"({"model_type": "gpt2", "n_layer": 0})"), "config.json: model.layers = 0: out of range"));
  EXPECT_TRUE(says(refusal(R"({"model_type": "gpt2", "n_embd": 10, "n_head": 4})"),
                   "config.json: model.heads = 4: must divide"));
  EXPECT_TRUE(says(refusal("{"), "config.json is not JSON"));
}

TEST_F(ModelOfInit, NamedClassesAreTheLabels) {
  const std::string json = R"({"model_type": "bert", "id2label": {"0": "neutral", "1": "bad", "2": "good"}})";
  const std::vector<std::string> tsv{"--data.kind", "tsv", "--data.path", "t.tsv"};
  EXPECT_EQ(loaded(json, tsv).config.data.labels, (std::vector<std::string>{"neutral", "bad", "good"}));
  EXPECT_EQ(loaded(R"({"model_type": "bert", "id2label": {"0": "LABEL_0", "1": "LABEL_1"}})", tsv).config.data.labels,
            std::vector<std::string>{});
}

TEST_F(ModelOfInit, IgnoresAFileOfNoModel) {
  EXPECT_EQ(loaded(R"({"port": 80})").config.model.layers, ModelOptions{}.layers);
  EXPECT_EQ(loaded(R"({"model_type": "mistral", "num_hidden_layers": 9})").config.model.layers, ModelOptions{}.layers);
}

}  // namespace
}  // namespace zero
