// Models in a pipeline of processes. Each model over each transport, with any order of passes, tier of states and type,
// has the bits of a run without a pipeline. `./test.sh` runs two combinations. The full tier runs a table in which each
// two levels of two factors meet.
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/covering_table.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using Json = nlohmann::json;

struct Model {
  std::string_view name;
  std::string_view keys;  // of [model]
};
constexpr std::array kModels{
    Model{"gpt2", "layers = 2\nwidth = 16\nheads = 2\nvocab = 256\ndropout = 0.1\n"},
    Model{"llama", "layers = 2\nwidth = 16\nheads = 2\nkv_heads = 1\nvocab = 256\n"},
    Model{"bert", "layers = 2\nwidth = 16\nheads = 2\ndropout = 0.1\n"},
    Model{"lstm", "layers = 3\nhidden = 12\nvocab = 256\ndropout = 0.1\n"},
};
constexpr std::array<std::string_view, 3> kTransports{"shared_memory", "gloo", "mpi"};
constexpr std::array<std::string_view, 6> kOrders{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"};
constexpr std::array<std::string_view, 6> kPlaces{
    "--zero.stage 0",
    "--zero.stage 1",
    "--zero.stage 2",
    "--zero.stage 3",
    "--zero.stage 2 --zero.optimizer '{host = 1}'",
    "--zero.stage 3 --zero.disk disk --zero.parameter '{disk = 1}' --zero.optimizer '{disk = 1}'"};
constexpr std::array<std::string_view, 2> kTypes{"fp32", "bf16"};

enum Factor : std::size_t { kModel, kTransport, kOrder, kPlace, kType, kNumFactors };
using Recipe = std::array<int, kNumFactors>;  // a level of each factor

constexpr Recipe kNumLevels{kModels.size(), kTransports.size(), kOrders.size(), kPlaces.size(), kTypes.size()};

template <typename Levels>
const auto& level(const Levels& levels, const Recipe& recipe, Factor factor) {
  return levels[static_cast<std::size_t>(recipe[factor])];
}

std::string text_of(const Recipe& recipe) {
  return fmt::format("{} over {}, {}, {}, {}", level(kModels, recipe, kModel).name,
                     level(kTransports, recipe, kTransport), level(kOrders, recipe, kOrder),
                     level(kPlaces, recipe, kPlace), level(kTypes, recipe, kType));
}

bool has_transport(std::string_view transport) {
  if (transport == "gloo") return ZERO_HAS_GLOO;
  return transport != "mpi" || !std::string_view(ZERO_MPIRUN).empty();
}

class PipelineModels : public TrainingTest {
 protected:
  PipelineModels() : TrainingTest("") {}
  void SetUp() override {
    TrainingTest::SetUp();
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += fmt::format("to be or not to be {} that is the question\n", i % 2 == 0 ? "oh" : "sir");
    folder_.write("lines.txt", lines);
    std::filesystem::create_directory(folder_.path() / "disk");
  }

  void write_config(const Model& model) const {
    const std::string data = model.name == "bert" ? "kind = \"word_order\"\npath = \"lines.txt\"\nvalidation = 0.1\n"
                                                  : "path = \"input.txt\"\n";
    folder_.write("c.toml",
                  fmt::format("[model]\nname = \"{}\"\ncontext = 16\n{}[data]\n{}", model.name, model.keys, data) +
                      at_one_rate("steps = 3\nbatch = 2\naccumulate = 4\neval_every = 2\neval_batches = 2\n"));
  }

  // Two ranks without a pipeline. Trains once for each model and type.
  const Json& plain_of(const Recipe& recipe) {
    const std::string_view type = level(kTypes, recipe, kType);
    const auto [found, is_new] = plain_.try_emplace(fmt::format("{}_{}", level(kModels, recipe, kModel).name, type));
    if (is_new) found->second = report_of(fmt::format("-n 2 --zero.stage 0 --train.dtype {}", type), found->first);
    return found->second;
  }

  // Two lines of two ranks.
  Json cut_of(const Recipe& recipe) const {
    const std::string_view transport = level(kTransports, recipe, kTransport);
    const bool by_mpi = transport == "mpi";
    const Ran ran =
        folder_.zero(fmt::format("train c.toml --run.dir cut --overwrite {} --comm.transport {} --parallel.pipeline 2 "
                                 "--parallel.schedule {} {} --train.dtype {}",
                                 by_mpi ? "" : "-n 4", transport, level(kOrders, recipe, kOrder),
                                 level(kPlaces, recipe, kPlace), level(kTypes, recipe, kType)),
                     "timeout 250 " + (by_mpi ? mpirun_ranks(4) : ""));
    EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
    return Json::parse(folder_.read("cut/report.json"), nullptr, /*allow_exceptions=*/false);
  }

  void expect_same(const Recipe& recipe) {
    SCOPED_TRACE(text_of(recipe));
    write_config(level(kModels, recipe, kModel));
    const Json& plain = plain_of(recipe);
    const Json cut = cut_of(recipe);
    ASSERT_TRUE(plain.is_object() && cut.is_object());
    EXPECT_EQ(cut.at("transport"), std::string(level(kTransports, recipe, kTransport)));
    EXPECT_EQ(cut.at("world"), 4);
    for (const char* const key : {"loss_bits", "parameters_sha256", "grad_norms", "val_loss", "num_parameters"})
      EXPECT_EQ(cut.at(key), plain.at(key)) << key;
  }

 private:
  std::map<std::string, Json> plain_;
};
using PipelineModelsSlow = PipelineModels;
using PipelineModelsFull = PipelineModels;

TEST_F(PipelineModelsSlow, KeepBits) {
  expect_same({/*llama*/ 1, /*shared_memory*/ 0, /*zb-v*/ 5, /*disk*/ 5, /*fp32*/ 0});
  if (ZERO_HAS_GLOO) expect_same({/*lstm*/ 3, /*gloo*/ 1, /*interleaved*/ 2, /*stage 2*/ 2, /*bf16*/ 1});
}

TEST_F(PipelineModelsFull, PairsKeepBits) {
  const auto table = tests::covering_table<2>(
      kNumLevels, [](const Recipe& recipe) { return has_transport(level(kTransports, recipe, kTransport)); });
  EXPECT_GE(table.size(), kOrders.size() * kPlaces.size());
  for (const Recipe& recipe : table) expect_same(recipe);
}

}  // namespace
}  // namespace zero
