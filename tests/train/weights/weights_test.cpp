#include "app/train/weights/weights.h"

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ATen/record_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include "zero/base/error/error.h"
#include "zero/base/files/sha256.h"
#include "zero/checkpoint/export_weights.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"
#include "zero/torch/deferred/deferred.h"

#include "app/models/bert.h"
#include "app/models/gpt2.h"
#include "app/models/llama.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

Gpt2 some_model(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return Gpt2(Gpt2Options{.layers = 2, .width = 8, .heads = 2, .context = 4, .vocab = 11});
}

using Tensors = std::map<std::string, torch::Tensor>;

Tensors tensors_of(torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value().detach().clone();
  return tensors;
}

ElementType type_of(const torch::Tensor& tensor) {
  if (tensor.scalar_type() == at::kHalf) return ElementType::kF16;
  if (tensor.scalar_type() == at::kBFloat16) return ElementType::kBF16;
  return tensor.scalar_type() == at::kInt ? ElementType::kI32 : ElementType::kF32;
}

void write(const std::filesystem::path& path, const Tensors& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({.name = name, .dtype = type_of(tensor), .shape = tensor.sizes().vec()});
  SafetensorsWriter writer(path, entries);
  for (const auto& [name, tensor] : tensors) {
    writer.write(name, 0, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  writer.commit();
}

void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
}

class Weights : public testing::Test {
 protected:
  // The error for a file of these tensors, before any value is read.
  std::string refusal(const Tensors& tensors) {
    write(file_, tensors);
    auto model = some_model();
    return message_of<ConfigError>([&] { InitialWeights(*model, file_); });
  }
  Tensors loaded(const Tensors& tensors) {
    write(file_, tensors);
    auto model = some_model(2);
    read_weights(*model, file_);
    return tensors_of(*model);
  }

  // As loaded(), but through an engine, at a stage with shards and at one without.
  Tensors attached(const Tensors& tensors) {
    write(file_, tensors);
    std::vector<Tensors> found(2);
    for (const int stage : {0, 3}) {
      run_ranks(2, [&](World& world) {
        auto model = some_model(2);
        const InitialWeights weights(*model, file_);
        { const Engine engine = attach(*model, world, {.stage = stage, .weights = weights.source()}); }
        found[static_cast<std::size_t>(world.rank())] = tensors_of(*model);
      });
      expect_equal(found[0], found[1]);
    }
    return found[0];
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "init.safetensors";
  Tensors tensors_ = tensors_of(*some_model());
};

TEST_F(Weights, AreReadUnderTheModelsNames) {
  expect_equal(loaded(tensors_), tensors_);
}

TEST_F(Weights, AreReadWithoutThePrefixToo) {
  Tensors bare;
  for (const auto& [name, tensor] : tensors_) bare[name.substr(std::string("transformer.").size())] = tensor;
  expect_equal(loaded(bare), tensors_);
}

TEST_F(Weights, SkipsPublishedMasksAndTiedHead) {
  auto published = tensors_;
  published["transformer.h.0.attn.bias"] = torch::ones({1, 1, 4, 4});
  published["transformer.h.1.attn.masked_bias"] = torch::tensor(-1e4F);
  published["lm_head.weight"] = tensors_.at("transformer.wte.weight");
  expect_equal(loaded(published), tensors_);
}

TEST_F(Weights, ReadsPublishedLlama) {
  const auto llama = [](bool tied, std::uint64_t seed) {
    torch::manual_seed(seed);
    return Llama(LlamaOptions{
        .layers = 1, .width = 8, .heads = 2, .kv_heads = 1, .context = 4, .vocab = 11, .tie_embeddings = tied});
  };
  for (const bool tied : {false, true}) {
    Tensors published = tensors_of(*llama(tied, 1));
    const Tensors expected = published;
    published["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch::ones({2});
    if (tied) published["lm_head.weight"] = published.at("model.embed_tokens.weight");
    write(file_, published);
    auto model = llama(tied, 2);
    read_weights(*model, file_);
    expect_equal(tensors_of(*model), expected);
  }
  write(file_, tensors_of(*llama(true, 1)));
  auto untied = llama(false, 2);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { InitialWeights(*untied, file_); }), "model.tie_embeddings = true"));
}

// The file is like that of BERT's pretraining: other heads, old names of the norms, a constant, and no classifier.
TEST_F(Weights, OtherTaskBertGetsNewClassifier) {
  const auto bert = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    return Bert(BertOptions{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocab = 11, .classes = 3});
  };
  Tensors expected = tensors_of(*bert(1)), published;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("classifier.")) continue;
    std::string old = name;
    if (old.ends_with("LayerNorm.weight")) old.replace(old.size() - 6, 6, "gamma");
    if (old.ends_with("LayerNorm.bias")) old.replace(old.size() - 4, 4, "beta");
    published[old] = tensor;
  }
  published["bert.embeddings.position_ids"] = torch::arange(4, at::kInt).view({1, 4});
  published["cls.predictions.bias"] = torch::ones({11});
  write(file_, published);
  auto model = bert(2);
  const InitialWeights weights(*model, file_, /*seed=*/5), again(*model, file_, 5), other(*model, file_, 6);
  std::vector<float> head(24), same(24), different(24), bias(3, 9);
  weights.read("classifier.weight", head);
  again.read("classifier.weight", same);
  other.read("classifier.weight", different);
  weights.read("classifier.bias", bias);
  EXPECT_EQ(head, same);
  EXPECT_NE(head, different);
  EXPECT_NEAR(torch::tensor(head).std().item<double>(), 0.02, 0.01);
  EXPECT_EQ(bias, std::vector<float>(3));
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("classifier.")) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    weights.read(name, values);
    EXPECT_TRUE(torch::equal(torch::tensor(values), tensor.flatten())) << name;
  }
  // A model that was trained only on masked words also has no pooler. transformers draws one.
  for (const char* const part : {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}) published.erase(part);
  write(file_, published);
  const InitialWeights without_pooler(*model, file_, 5);
  EXPECT_EQ(without_pooler.notes().size(), 3U) << "classifier, pooler, and skipped tensors";
  EXPECT_TRUE(says(without_pooler.notes().at(1), "has no bert.pooler, which begins with random values"));
  std::vector<float> pooler(64), first(24);
  without_pooler.read("bert.pooler.dense.weight", pooler);
  without_pooler.read("classifier.weight", first);
  EXPECT_EQ(first, head) << "as for a file with a pooler";
  EXPECT_FALSE(std::equal(first.begin(), first.end(), pooler.begin())) << "the same numbers twice";
  EXPECT_NEAR(torch::tensor(pooler).std().item<double>(), 0.02, 0.01);
  published["classifier.weight"] = expected.at("classifier.weight");
  write(file_, published);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { InitialWeights(*model, file_); }), "has no classifier.bias"));
}

constexpr std::array kNoWeights{std::string_view("*.mask"), std::string_view("other_task.*")};
constexpr std::array kOldGain{OldEnding{"scale.weight", "gain"}};
constexpr std::array kNewHeads{std::string_view("judge")};
constexpr ModelRow kMadeUp{.name = "made_up",
                           .kinds = {},
                           .keys = {},
                           .token_weight = "trunk.tokens.weight",
                           .files = {.prefix = "trunk.",
                                     .passed_over = kNoWeights,
                                     .tied_head = "words.weight",
                                     .new_heads = kNewHeads,
                                     .old_endings = kOldGain}};

std::vector<ParamSpec> made_up_model(std::int64_t tokens) {
  return {{.name = "trunk.tokens.weight", .shape = {tokens, 8}},
          {.name = "trunk.scale.weight", .shape = {8}},
          {.name = "judge.weight", .shape = {2, 8}}};
}

// A model is added with a row: no other code knows the names of tensors that a published file may have.
TEST_F(Weights, ModelRowDecidesOptionalTensors) {
  write(file_, {{"tokens.weight", torch::zeros({11, 8})},
                {"gain", torch::zeros({8})},
                {"words.weight", torch::zeros({11, 8})},
                {"layers.0.mask", torch::zeros({3})},
                {"other_task.bias", torch::zeros({2})}});
  const auto set = SafetensorsSet::open(file_, "model.init");
  const auto [matched, notes] = match_weights(set, made_up_model(11), "file", "", &kMadeUp);
  ASSERT_EQ(matched.size(), 3U);
  EXPECT_EQ(matched[0].entry->name, "tokens.weight");
  EXPECT_EQ(matched[1].entry->name, "gain");
  EXPECT_EQ(matched[2].entry, nullptr) << "to be drawn";
  EXPECT_EQ(notes,
            (std::vector<std::string>{
                "note: file has no judge, which begins with random values",
                "note: words.weight of file is skipped: the head of this model is trunk.tokens.weight",
                "note: skipped in file, because this model has no such weights: layers.0.mask, other_task.bias"}));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { match_weights(set, made_up_model(11), "file"); }),
                   "has no trunk.tokens.weight"))
      << "kModelTable has no such row";

  write(file_, {{"trunk.tokens.weight", torch::zeros({11, 8})}, {"trunk.scale.weight", torch::zeros({8})}});
  const auto bare = SafetensorsSet::open(file_, "model.init");
  const auto refusal_of = [&](const std::vector<ParamSpec>& specs) {
    return message_of<ConfigError>([&] { match_weights(bare, specs, "file", "the tokenizer T has", &kMadeUp); });
  };
  EXPECT_TRUE(says(refusal_of(made_up_model(12)), "tokens.weight has 11 tokens, and the tokenizer T has 12"));
  auto untied = made_up_model(11);
  untied.push_back({.name = "words.weight", .shape = {11, 8}});
  EXPECT_TRUE(says(refusal_of(untied),
                   "has no words.weight: its head shares the token embedding; set model.tie_embeddings = true"));
}

// A user's module has no row. A file may leave out a prefix, as for any model, but may have no other tensors.
TEST_F(Weights, UnknownModuleAllowsAnyPrefix) {
  const std::vector<ParamSpec> specs{{.name = "model.scale", .shape = {8}},
                                     {.name = "bert.LayerNorm.bias", .shape = {8}}};
  Tensors tensors{{"scale", torch::zeros({8})}, {"LayerNorm.beta", torch::zeros({8})}};
  write(file_, tensors);
  const auto set = SafetensorsSet::open(file_, "model.init");
  const auto matched = match_weights(set, specs, "file").tensors;
  EXPECT_EQ(matched[0].entry->name, "scale");
  EXPECT_EQ(matched[1].entry->name, "LayerNorm.beta");
  tensors["h.0.attn.bias"] = torch::zeros({1});
  write(file_, tensors);
  const auto other = SafetensorsSet::open(file_, "model.init");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { match_weights(other, specs, "file"); }),
                   "tensors that the model does not have: h.0.attn.bias"));
}

TEST_F(Weights, HalfPrecisionIsTakenIn) {
  Tensors half, rounded;
  for (const auto& [name, tensor] : tensors_) {
    half[name] = tensor.to(at::kHalf);
    rounded[name] = tensor.to(at::kHalf).to(at::kFloat);
  }
  expect_equal(loaded(half), rounded);
  expect_equal(attached(half), rounded);
}

TEST_F(Weights, TakesBfloat16Unchanged) {
  Tensors low, rounded;
  for (const auto& [name, tensor] : tensors_) {
    low[name] = tensor.to(at::kBFloat16);
    rounded[name] = low[name].to(at::kFloat);
  }
  expect_equal(loaded(low), low);
  expect_equal(attached(low), rounded);
}

TEST_F(Weights, LongTensorsComeInPieces) {
  Gpt2 model(
      Gpt2Options{.layers = 1, .width = 8, .heads = 2, .context = 4, .vocab = 70'000});  // more than 2^19 elements
  Tensors half = tensors_of(*model);
  for (auto& [name, tensor] : half) tensor = tensor.to(at::kHalf);
  write(file_, half);
  read_weights(*model, file_);
  for (const auto& [name, tensor] : tensors_of(*model))
    EXPECT_TRUE(torch::equal(tensor, half.at(name).to(at::kFloat))) << name;
}

// attach() ends on every rank.
TEST_F(Weights, ShrinkingFileEndsAttachEverywhere) {
  write(file_, tensors_);
  const auto size = std::filesystem::file_size(file_);
  run_ranks(2, [&](World& world) {
    auto model = some_model(7);
    const auto before = tensors_of(*model);
    const InitialWeights weights(*model, file_);
    world.communicator().barrier({.control = true}).wait();
    if (world.rank() == 0) std::filesystem::resize_file(file_, size - 100);
    const auto message = message_of<IoError>([&] { attach(*model, world, {.weights = weights.source()}); });
    EXPECT_TRUE(says(message, file_.string() + ": read of "));
    EXPECT_TRUE(says(message, "the file became shorter: it ended after "));
    expect_equal(tensors_of(*model), before);
  });
}

// attach() ends on every rank, whatever the source throws.
TEST_F(Weights, ThrowingSourceEndsAttachEverywhere) {
  run_ranks(2, [&](World& world) {
    auto model = some_model(7);
    const auto attach_it = [&] {
      attach(*model, world, {.weights = [](const std::string&, std::span<float>) { throw 7; }});
    };
    if (world.rank() == 0) {
      EXPECT_THROW(attach_it(), int);
    } else {
      EXPECT_TRUE(says(message_of<IoError>(attach_it), "rank 0: an exception without a message"));
    }
  });
}

// Counts how often this thread draws values into a tensor.
class CountedDraws {
 public:
  CountedDraws() : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&look))) { count_ = 0; }
  CountedDraws(const CountedDraws&) = delete;
  CountedDraws& operator=(const CountedDraws&) = delete;
  ~CountedDraws() { at::removeCallback(callback_); }
  int count() const { return count_; }

 private:
  static std::unique_ptr<at::ObserverContext> look(const at::RecordFunction& function) {
    if (std::string_view(function.name()) == "aten::normal_") ++count_;
    return nullptr;
  }
  static inline std::atomic<int> count_;
  at::CallbackHandle callback_;
};

TEST_F(Weights, DeferredModelBuildsNothing) {
  write(file_, tensors_);
  run_ranks(1, [&](World& world) {
    {
      auto built = deferred([] { return some_model(); });
      const CountedDraws draws;
      const Engine engine = attach(*built, world, {.stage = 3});
      EXPECT_GT(draws.count(), 0) << "drawn values are counted";
    }
    auto model = deferred([] { return some_model(); });
    const InitialWeights weights(*model, file_);
    {
      const CountedDraws draws;
      const Engine engine = attach(*model, world, {.stage = 3, .weights = weights.source()});
      EXPECT_EQ(draws.count(), 0);
    }
    expect_equal(tensors_of(*model), tensors_);
  });
}

TEST_F(Weights, AMissingTensorIsNamed) {
  tensors_.erase("transformer.h.1.ln_2.bias");
  EXPECT_TRUE(says(refusal(tensors_), "has no transformer.h.1.ln_2.bias"));
}

TEST_F(Weights, ManyMissingTensorsFitOneScreen) {
  const auto message = refusal({{"transformer.wte.weight", tensors_.at("transformer.wte.weight")}});
  EXPECT_TRUE(says(message, "and 23 more"));
  EXPECT_LT(message.size(), 600U);
}

TEST_F(Weights, ATensorTooMuchIsNamed) {
  tensors_["transformer.h.2.ln_1.bias"] = torch::zeros({8});
  EXPECT_TRUE(says(refusal(tensors_), "tensors that the model does not have: transformer.h.2.ln_1.bias"));
}

TEST_F(Weights, RefusesHeadOfOtherShape) {
  tensors_["lm_head.weight"] = torch::zeros({12, 8});
  EXPECT_TRUE(says(refusal(tensors_), "lm_head.weight has shape [12, 8], and the model has [11, 8]"));
}

TEST_F(Weights, AnotherShapeIsRefusedWithBoth) {
  tensors_["transformer.wpe.weight"] = torch::zeros({5, 8});
  EXPECT_TRUE(says(refusal(tensors_), "transformer.wpe.weight has shape [5, 8], and the model has [4, 8]"));
}

TEST_F(Weights, AnotherTypeIsRefused) {
  tensors_["transformer.ln_f.bias"] = torch::zeros({8}, at::kInt);
  EXPECT_TRUE(says(refusal(tensors_), "transformer.ln_f.bias is I32"));
}

TEST_F(Weights, ComeBackAsTheyWere) {
  write(file_, tensors_);
  for (const int stage : {0, 3}) {
    run_ranks(2, [&](World& world) {
      auto model = some_model(7);
      auto weights = std::make_optional<InitialWeights>(*model, file_);
      Engine engine = attach(*model, world, {.stage = stage, .weights = weights->source()});
      weights.reset();
      const auto saved = folder_ / ("saved" + std::to_string(stage) + ".safetensors");
      const auto sha = save_weights(engine, *model, world.rank() == 0 ? open_weights(engine, *model, saved) : nullptr);
      engine.abandon();
      if (world.rank() != 0) {
        EXPECT_EQ(sha, "");
        return;
      }
      expect_equal(loaded(tensors_), tensors_);
      auto reread = some_model(8);
      read_weights(*reread, saved);
      expect_equal(tensors_of(*reread), tensors_);
      Sha256 expected;
      for (const auto& [name, tensor] : tensors_) {
        expected.update({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
      }
      EXPECT_EQ(sha, expected.finish_hex()) << "over all parameters in name order";
    });
  }
}

TEST_F(Weights, Bfloat16SavesRoundedHashesFull) {
  write(file_, tensors_);
  run_ranks(1, [&](World& world) {
    auto model = some_model(7);
    const InitialWeights weights(*model, file_);
    Engine engine = attach(*model, world, {.stage = 3, .dtype = DType::kBFloat16, .weights = weights.source()});
    const auto sha = save_weights(engine, *model, open_weights(engine, *model, folder_ / "saved.safetensors"));
    engine.abandon();
    const auto saved = SafetensorsFile::open(folder_ / "saved.safetensors");
    for (const auto& entry : saved.entries()) EXPECT_EQ(entry.dtype, ElementType::kBF16) << entry.name;
    Sha256 full;
    for (const auto& [name, tensor] : tensors_)
      full.update({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    EXPECT_EQ(sha, full.finish_hex()) << "the master is fp32 and exact";
  });
}

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)); }
  torch::nn::Conv1d conv{torch::nn::Conv1dOptions(3, 4, 2)};
  torch::nn::BatchNorm1d norm{4};
};
TORCH_MODULE(Normed);

std::map<std::string, ElementType> types_in(const SafetensorsFile& file) {
  std::map<std::string, ElementType> types;
  for (const SafetensorsEntry& entry : file.entries()) types[entry.name] = entry.dtype;
  return types;
}

// A BatchNorm without its running statistics is another model.
TEST_F(Weights, SavesAndExportsIncludeBuffers) {
  torch::Tensor mean, count;
  run_ranks(2, [&](World& world) {
    Normed model = deferred([] { return Normed(); });
    Engine engine = attach(*model, world, {.stage = 3, .optimizer = Sgd{.lr = 0.1}});
    for (int step = 0; step < 2; ++step) {
      model->forward(torch::full({2, 3, 5}, step + 1.0) * torch::arange(5)).square().sum().backward();
      engine.step();
    }
    engine.save(folder_ / "checkpoint");
    const bool writes = world.rank() == 0;
    save_weights(engine, *model, writes ? open_weights(engine, *model, folder_ / "saved.safetensors") : nullptr);
    if (writes) mean = model->norm->running_mean.clone(), count = model->norm->num_batches_tracked.clone();
    engine.abandon();
  });
  CheckpointReader reader(folder_ / "checkpoint");
  const ExportedWeights exported =
      export_weights(reader, folder_ / "new/exported.safetensors", {.dtype = DType::kBFloat16});
  EXPECT_EQ(exported.num_parameters, 4);
  EXPECT_EQ(exported.num_buffers, 3);
  for (const std::string name : {"saved.safetensors", "new/exported.safetensors"}) {
    const auto file = SafetensorsFile::open(folder_ / name);
    EXPECT_EQ(file.entries().size(), 7u) << name;
    torch::Tensor values = torch::zeros({4});
    file.read(file.at("norm.running_mean"), 0, {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
    EXPECT_TRUE(torch::equal(values, mean)) << name;
    EXPECT_GT(values.abs().sum().item<double>(), 0);
    torch::Tensor batches = torch::zeros({}, at::kLong);
    file.read(file.at("norm.num_batches_tracked"), 0, {static_cast<std::byte*>(batches.mutable_data_ptr()), 8});
    EXPECT_EQ(batches.item<std::int64_t>(), 2) << name;
    EXPECT_EQ(types_in(file)["norm.running_var"], ElementType::kF32) << "whatever the parameters are rounded to";
  }
}

// A save also removes the files that a killed run left.
TEST_F(Weights, ReserveDiskFromStart) {
  write(file_, tensors_);
  run_ranks(1, [&](World& world) {
    auto model = some_model(7);
    Engine engine = attach(*model, world, {.stage = 0});
    const auto path = folder_ / "weights/model.safetensors";
    std::filesystem::create_directory(path.parent_path());
    std::ofstream(path.parent_path() / "model.safetensors.tmp-7-0") << "half of a file";
    {
      const auto file = open_weights(engine, *model, path);
      std::vector<std::filesystem::path> there;
      for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) there.push_back(entry.path());
      ASSERT_EQ(there.size(), 1u);
      EXPECT_EQ(std::filesystem::file_size(there.front()), static_cast<std::uintmax_t>(file->size_bytes()));
      struct stat info {};
      ASSERT_EQ(::stat(there.front().c_str(), &info), 0);
      EXPECT_GE(info.st_blocks * 512, file->size_bytes()) << "a hole would reserve no space";
    }
    EXPECT_TRUE(std::filesystem::is_empty(path.parent_path())) << "a run that does not end leaves nothing";
    engine.abandon();
  });
}

TEST_F(Weights, ReachStatesThatLieOnDisk) {
  write(file_, tensors_);
  const TemporaryFolder disk;
  run_ranks(2, [&](World& world) {
    auto model = deferred([] { return some_model(7); });
    const InitialWeights weights(*model, file_);
    const OffloadOptions offload{.fractions = {.parameter = {.disk = 1}, .optimizer = {.host = 0.5, .disk = 0.5}},
                                 .disk = {disk.path().string()}};
    Engine engine =
        attach(*model, world, {.stage = 3, .dtype = DType::kBFloat16, .offload = offload, .weights = weights.source()});
    Tensors found;
    engine.for_each_parameter(
        [&](const std::string& name, const torch::Tensor& tensor) { found[name] = tensor.clone(); },
        /*full_precision=*/true);
    expect_equal(found, tensors_);
    engine.abandon();
  });
}

}  // namespace
}  // namespace zero
