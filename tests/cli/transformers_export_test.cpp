// `zero export` writes the same model as transformers. A run begins with transformers' weights (model.init) and does
// not change them. Its export has the same tensors, bit for bit, and an equal config.json, so transformers loads both
// alike. tests/train/transformers_numbers.py wrote the folders. The test needs no Python.
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/checkpoint/safetensors_set.h"

#include "tests/cli/training_test.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Published {
  std::string folder;  // in tests/train/transformers
  std::string model;   // keys of [model]
  std::string data;    // keys of [data]

  fs::path path() const { return fs::path(built::kSourceFolder) / "tests/train/transformers" / folder; }
};

void PrintTo(const Published& published, std::ostream* out) {
  *out << published.folder;
}

constexpr const char* kLlama =
    "name = \"llama\"\nlayers = 2\nwidth = 16\nheads = 4\nkv_heads = 2\nhidden = 19\nvocab = 29\nrope_theta = 500.0\n"
    "norm_eps = 1e-6\n";
constexpr const char* kTokens = "kind = \"tokens\"\npath = \"tokens.bin\"\n";

std::vector<Published> published() {
  const Published bert{"bert", "name = \"bert\"\nlayers = 2\nwidth = 10\nheads = 2\nhidden = 23\n", ""};
  return {{"gpt2", "name = \"gpt2\"\nlayers = 2\nwidth = 9\nheads = 3\nvocab = 37\n", kTokens},
          {"llama", kLlama, kTokens},
          {"llama_tied", std::string(kLlama) + "tie_embeddings = true\n", kTokens},
          {"bert", bert.model,
           "kind = \"tsv\"\npath = \"texts.tsv\"\nvocab = \"" + (bert.path() / "vocab.txt").string() + "\"\n"}};
}

class TransformersExport : public TrainingTest, public testing::WithParamInterface<Published> {
 protected:
  // The run has one step with a learning rate of 0.
  TransformersExport()
      : TrainingTest(
            "[model]\ncontext = 11\ninit = \"" + GetParam().path().string() + "\"\n" + GetParam().model + "[data]\n" +
            GetParam().data +
            "[train]\nsteps = 1\nbatch = 2\n[optimizer]\nlr = 0.0\n[schedule]\nname = \"constant\"\nwarmup = 0\n"
            "[zero]\nstage = 3\n[checkpoint]\nevery = 1\n[run]\nthreads = 1\n") {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::string tokens;  // 16 bits each
    for (int i = 0; i < 400; ++i) tokens += {static_cast<char>(i * 5 % 29), '\0'};
    folder_.write("tokens.bin", tokens);
    std::string texts = "sentence\tlabel\n";
    for (int i = 0; i < 12; ++i)
      texts += (i % 2 ? "all the women play\t" : "a stage and men\t") + std::to_string(i % 3) + "\n";
    folder_.write("texts.tsv", texts);
  }
};

std::string bytes_of(const SafetensorsSet::Tensor& tensor) {
  std::string bytes(static_cast<std::size_t>(tensor.entry->end - tensor.entry->begin), '\0');
  tensor.file->read(*tensor.entry, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::set<std::string> names_of(const SafetensorsSet& set) {
  std::set<std::string> names;
  for (const SafetensorsSet::Tensor& tensor : set.tensors()) names.insert(tensor.entry->name);
  return names;
}

// The value of `key` in a config.json of transformers 5.
Json at_key(const Json& config, const std::string& key) {
  if (key == "rope_theta") return config.value("rope_parameters", Json::object()).value(key, Json());
  if (key == "torch_dtype") return config.value("dtype", Json());
  return config.value(key, Json());
}

void expect_same_tensors(const SafetensorsSet& ours, const SafetensorsSet& theirs) {
  ASSERT_GT(theirs.tensors().size(), 19u);
  EXPECT_EQ(names_of(ours), names_of(theirs));
  for (const SafetensorsSet::Tensor& tensor : theirs.tensors()) {
    const std::string& name = tensor.entry->name;
    const SafetensorsSet::Tensor* const mine = ours.find(name);
    if (mine == nullptr) continue;  // the comparison of names has reported it
    EXPECT_EQ(tensor.entry->dtype, ElementType::kF32) << name;
    EXPECT_EQ(mine->entry->dtype, tensor.entry->dtype) << name;
    EXPECT_EQ(mine->entry->shape, tensor.entry->shape) << name;
    EXPECT_TRUE(bytes_of(*mine) == bytes_of(tensor)) << name;
  }
}

void expect_same_model(const Json& ours, const Json& theirs) {
  // Keys of training only: by default transformers drops a tenth.
  const std::set<std::string> dropouts{"attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout_prob",
                                       "attention_probs_dropout_prob"};
  int same = 0;
  for (const auto& [key, value] : ours.items()) {
    if (dropouts.contains(key)) continue;
    EXPECT_EQ(value, at_key(theirs, key)) << key;
    ++same;
  }
  EXPECT_GE(same, 13);
}
using TransformersExportSlow = TransformersExport;

TEST_P(TransformersExportSlow, IsWhatTransformersWrote) {
  report_of("-n 2", "run");
  const Ran exported = folder_.zero("export run -o out");
  ASSERT_EQ(exported.status, 0) << exported.errors;
  expect_same_tensors(SafetensorsSet::open(folder_.path() / "out", "ours"),
                      SafetensorsSet::open(GetParam().path(), "theirs"));
  expect_same_model(Json::parse(folder_.read("out/config.json"), nullptr, /*allow_exceptions=*/false),
                    Json::parse(std::ifstream(GetParam().path() / "config.json"), nullptr, /*allow_exceptions=*/false));
}

INSTANTIATE_TEST_SUITE_P(Models, TransformersExportSlow, testing::ValuesIn(published()),
                         [](const auto& given) { return given.param.folder; });

}  // namespace
}  // namespace zero
