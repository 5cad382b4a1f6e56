// A published folder (weights, config.json, generation_config.json, a tokenizer) trains without given shapes. The run
// and `zero export` keep all values of its files. tests/train/transformers_numbers.py wrote the weights.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/message_of.h"
#include "tests/support/transformers_python.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class PublishedModel : public TrainingTest {
 protected:
  PublishedModel()
      : TrainingTest(
            "[data]\nvalidation = 0\n[train]\nsteps = 2\nbatch = 2\n[checkpoint]\nevery = 1\n[run]\nthreads = 1\n") {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::string tokens;  // 16 bits each
    for (int i = 0; i < 400; ++i) tokens += {static_cast<char>(i * 5 % 29), '\0'};
    folder_.write("tokens.bin", tokens);
  }
  // Copies a folder of tests/train/transformers, and changes values in its config.json.
  Json published(const std::string& name, const Json& patch) const {
    const fs::path from = fs::path(built::kSourceFolder) / "tests/train/transformers" / name;
    fs::copy(from, folder_.path() / name);
    Json config = Json::parse(folder_.read(name + "/config.json"));
    config.merge_patch(patch);
    folder_.write(name + "/config.json", config.dump());
    folder_.write(name + "/generation_config.json", R"({"eos_token_id": 7, "temperature": 0.6})");
    folder_.write(name + "/tokenizer.json", R"({"of": "the model"})");
    folder_.write(name + "/tokenizer_config.json", R"({"model_max_length": 11})");
    return config;
  }
  Json json(const std::string& file) const {
    return Json::parse(folder_.read(file), nullptr, /*allow_exceptions=*/false);
  }
  void expect_files(const std::string& of, const std::string& published) const {
    for (const std::string name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(folder_.read(of + "/" + name), folder_.read(published + "/" + name)) << of << "/" << name;
  }
};

TEST_F(PublishedModel, KeepsItsConfigurationAndFiles) {
  const Json config = published("gpt2", {{"bos_token_id", 3}, {"eos_token_id", 7}, {"my_key", {1, 2}}});
  const Ran ran = folder_.zero("train c.toml --model.init gpt2 --data.kind tokens --data.path tokens.bin --run.dir run",
                               "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "dropout 0.1, as gpt2/config.json has it (embd_pdrop = 0.1, attn_pdrop = 0.1"));
  EXPECT_EQ(json("run/config.json"), config);
  expect_files("run", "gpt2");
  EXPECT_TRUE(says(folder_.read("run/config.toml"), "dropout = 0.1"));
  const Ran exported = folder_.zero("export run -o out --dtype bf16");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  Json in_bf16 = config;
  in_bf16["dtype"] = "bfloat16";
  EXPECT_EQ(json("out/config.json"), in_bf16);
  expect_files("out", "gpt2");
  EXPECT_TRUE(says(exported.output, "out/generation_config.json"));
}

TEST_F(PublishedModel, GivenDropoutWinsAndIsPrinted) {
  published("gpt2", Json::object());
  const Ran ran = folder_.zero(
      "train c.toml --model.init gpt2 --model.dropout 0 --data.kind tokens --data.path tokens.bin --run.dir run",
      "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "note: dropout 0 by model.dropout; gpt2/config.json has embd_pdrop = 0.1"));
  EXPECT_EQ(json("run/config.json")["resid_pdrop"], 0);
  EXPECT_EQ(json("run/config.json")["summary_first_dropout"], 0.1);
}

// A run that continues, or that is exported before its end, keeps the files without the folder of model.init.
TEST_F(PublishedModel, AnUnfinishedRunHasTheFiles) {
  const Json config = published("llama", {{"attention_dropout", 0.2}, {"my_key", "mine"}});
  const std::string flags = "train c.toml --data.kind tokens --data.path tokens.bin --run.dir run ";
  const Ran ran = folder_.zero(flags + "--model.init llama --model.context 8", "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(
      says(ran.output, "note: attention_dropout = 0.2 of llama/config.json is not done: a llama has no dropout"));
  EXPECT_EQ(json("run/config.json"), config) << "positions have no weights, so max_position_embeddings stays";
  fs::remove_all(folder_.path() / "llama");
  for (const char* const name : {"run/model.safetensors", "run/report.json"}) fs::remove(folder_.path() / name);
  const Ran exported = folder_.zero("export run -o out");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_EQ(json("out/config.json"), config);
  expect_files("out", "run");
}

TEST_F(PublishedModel, BertKeepsNamesOfClasses) {
  const Json named{{"0", "neutral"}, {"1", "bad"}, {"2", "good"}};
  const Json config = published(
      "bert",
      {{"id2label", named},
       {"label2id",
        {{"neutral", 0}, {"bad", 1}, {"good", 2}, {"LABEL_0", nullptr}, {"LABEL_1", nullptr}, {"LABEL_2", nullptr}}},
       {"problem_type", "single_label_classification"}});
  std::string texts = "text,mood\n";
  for (int i = 0; i < 12; ++i)
    texts += i % 3 == 0 ? "\"all, the women\",good\n" : i % 3 == 1 ? "a stage,bad\n" : "men,neutral\n";
  folder_.write("texts.csv", texts);
  const std::string data = "--data.kind csv --data.path texts.csv --data.text_column text --data.label_column mood";
  const Ran ran =
      folder_.zero("train c.toml --model.init bert --data.vocab bert/vocab.txt --run.dir run " + data, "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "classes of texts.csv: 0 = neutral (4 rows), 1 = bad (4), 2 = good (4)"));
  EXPECT_EQ(json("run/config.json"), config);
  expect_files("run", "bert");
  ASSERT_EQ(folder_.zero("export run -o out").status, 0);
  EXPECT_EQ(json("out/config.json"), config);
  EXPECT_EQ(json("out/classes.json")["id2label"], named);
}

TEST_F(PublishedModel, TableWordsAreTheRunsClasses) {
  std::string rows = "width,height,kind\n";
  for (int i = 0; i < 12; ++i) rows += std::to_string(i) + ",1," + (i % 2 ? "setosa" : "\"iris, blue\"") + "\n";
  folder_.write("rows.csv", rows);
  const std::string flags =
      "train c.toml --model.name mlp --model.sizes '[2, 4, 2]' --data.kind csv --data.path rows.csv --run.dir run ";
  const Ran ran = folder_.zero(flags, "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(says(ran.output, "classes of rows.csv: 0 = iris, blue (6 rows), 1 = setosa (6)"));
  const Json named{{"0", "iris, blue"}, {"1", "setosa"}};
  EXPECT_EQ(json("run/classes.json")["id2label"], named);
  ASSERT_EQ(folder_.zero("export run -o out").status, 0);
  EXPECT_EQ(json("out/classes.json")["id2label"], named);
  EXPECT_EQ(json("out/classes.json")["label2id"]["setosa"], 1);
  const Ran other = folder_.zero(flags + "--train.steps 3 --data.labels '[\"setosa\", \"iris, blue\"]'", "timeout 250");
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_TRUE(
      says(other.errors, "data.labels = [setosa, iris, blue]: the run began with the classes iris, blue, setosa"));
  EXPECT_EQ(folder_.zero(flags + "--train.steps 3", "timeout 250").status, 0);
}

// The second run has other data, in which the words would have other numbers.
TEST_F(PublishedModel, ExportsKeepTheLearnedWords) {
  folder_.write("a.tsv", "sentence\tlabel\nx x x y y z\t0\nx y\t1\n");
  folder_.write("b.tsv", "sentence\tlabel\nz z z y y x\t0\nz y\t1\n");
  const std::string flags =
      "train c.toml --model.name bert --model.layers 1 --model.width 8 --model.heads 2 --model.context 8 "
      "--data.kind tsv ";
  const Ran ran = folder_.zero(flags + "--data.path a.tsv --run.dir run", "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const std::string words = "[PAD]\n[UNK]\n[CLS]\nx\ny\nz\n";
  EXPECT_EQ(folder_.read("run/words.txt"), words);
  const Ran exported = folder_.zero("export run -o out");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  EXPECT_TRUE(says(exported.output, "out/words.txt"));
  EXPECT_EQ(folder_.read("out/words.txt"), words);
  const Ran tuned = folder_.zero(flags + "--data.path b.tsv --model.init out --run.dir tuned", "timeout 250");
  ASSERT_EQ(tuned.status, 0) << tuned.errors;
  EXPECT_TRUE(says(tuned.output, "words: as in out/words.txt"));
  EXPECT_EQ(folder_.read("tuned/words.txt"), words);
}

// If python has transformers, it loads the run and generates with the run's own bos, eos and tokenizer.
TEST_F(PublishedModel, TransformersReadsTheRun) {
  const auto python = transformers_python();
  if (!python) GTEST_SKIP() << kNoTransformers;
  folder_.write("make.py", R"(
import torch, transformers
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
tokenizer = Tokenizer(models.BPE(letters, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
end = "<|endoftext|>"
fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, bos_token=end)
fast.save_pretrained("theirs")
config = transformers.GPT2Config(
    n_layer=1, n_embd=8, n_head=2, n_positions=16, vocab_size=257, bos_token_id=256, eos_token_id=256)
model = transformers.GPT2LMHeadModel(config)
model.generation_config.temperature = 0.5
model.generation_config.do_sample = True
model.save_pretrained("theirs")
open("text.txt", "w").write("to be or not to be<|endoftext|>" * 40)
)");
  folder_.write("check.py", R"(
import transformers
for folder in ("run", "out"):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id == 256, tokenizer
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.eos_token_id == 256 and model.config.resid_pdrop == 0.1, model.config
    assert model.generation_config.temperature == 0.5
    theirs = transformers.AutoConfig.from_pretrained("theirs").to_dict()
    ours = model.config.to_dict()
    other = {k for k in theirs if k not in ("_name_or_path", "transformers_version") and theirs[k] != ours.get(k)}
    assert not other, other
    text = open("text.txt").read()
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
    import numpy
    mine = numpy.fromfile("text.bin", dtype="<u2")[512:]
    assert tokens == mine.tolist()
)");
  const auto script = [&](const std::string& name) {
    return std::system(
        ("cd '" + folder_.path().string() + "' && " + *python + " " + name + " > py.out 2> py.err").c_str());
  };
  ASSERT_EQ(script("make.py"), 0) << folder_.read("py.err");
  const Ran tokens = folder_.zero("tokenize text.txt --tokenizer theirs -o text.bin");
  ASSERT_EQ(tokens.status, 0) << tokens.errors;
  EXPECT_TRUE(says(tokens.output, "40 added tokens were named in the texts"));
  const Ran ran = folder_.zero("train c.toml --model.init theirs --data.kind tokens --data.path text.bin --run.dir run",
                               "timeout 250");
  ASSERT_EQ(ran.status, 0) << ran.errors;
  ASSERT_EQ(folder_.zero("export run -o out").status, 0);
  ASSERT_EQ(script("check.py"), 0) << folder_.read("py.err");
}

}  // namespace
}  // namespace zero
