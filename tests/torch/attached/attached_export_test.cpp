// Engine::export_weights() writes the whole module to a file for other programs.
#include <map>

#include <gtest/gtest.h>

#include "zero/checkpoint/safetensors/safetensors_file.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

struct NormNet : torch::nn::Module {
  NormNet() {
    register_module("in", in);
    register_module("norm", norm);
    register_module("out", out);
    register_parameter("tied", in->weight);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(norm(in(x))); }
  torch::nn::Linear in{3, 5};
  torch::nn::BatchNorm1d norm{5};
  torch::nn::Linear out{5, 2};
};

using Values = std::map<std::string, std::pair<ElementType, std::vector<std::byte>>>;

Values values_in(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  Values values;
  for (const SafetensorsEntry& entry : file.entries()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.end - entry.begin));
    file.read(entry, 0, bytes);
    values[entry.name] = {entry.dtype, bytes};
  }
  return values;
}

std::pair<ElementType, std::vector<std::byte>> value_of(const torch::Tensor& tensor) {
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  const ElementType type = tensor.scalar_type() == torch::kLong       ? ElementType::kI64
                           : tensor.scalar_type() == torch::kBFloat16 ? ElementType::kBF16
                           : tensor.scalar_type() == torch::kHalf     ? ElementType::kF16
                                                                      : ElementType::kF32;
  return {type, {data, data + tensor.nbytes()}};
}

// Calls body(net, engine, rank) on every rank after two steps.
void trained(const AttachOptions& options, int world, const std::function<void(NormNet&, Engine&, int)>& body) {
  std::vector<std::shared_ptr<NormNet>> nets;
  for (int rank = 0; rank < world; ++rank) nets.push_back(std::make_shared<NormNet>());
  tests::on_every_rank(world, [&](World& ranks) {
    NormNet& net = *nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(net, ranks, options);
    for (int step = 0; step < 2; ++step) {
      const torch::Tensor x = torch::sin(torch::arange(12.0F) + 5 * step + ranks.rank()).reshape({4, 3});
      engine.scaled(net.forward(x.to(net.in->weight.scalar_type())).square().mean()).backward();
      engine.step(1e-2);
    }
    body(net, engine, ranks.rank());
  });
}

// At every stage the file has the buffers of rank 0.
TEST(ExportedWeights, AreWholeParametersAndRootBuffers) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const AttachOptions& options : tests::all_stages({.dtype = dtype})) {
      for (const int world : {1, 2}) {
        SCOPED_TRACE(tests::placement_of(options) + " of " + std::to_string(world));
        trained(options, world, [&](NormNet& net, Engine& engine, int rank) {
          for (const bool full_precision : {false, true}) {
            engine.export_weights(folder / "model.safetensors", full_precision);
            Values expected;
            engine.for_each_parameter(
                [&](const std::string& name, const torch::Tensor& value) { expected[name] = value_of(value); },
                full_precision);
            for (const auto& buffer : net.named_buffers()) expected[buffer.key()] = value_of(buffer.value());
            EXPECT_EQ(expected.size(), 9U);
            EXPECT_EQ(expected.at("out.weight").first, full_precision ? ElementType::kF32 : element_type_of(dtype));
            if (rank == 0) {
              EXPECT_EQ(values_in(folder / "model.safetensors"), expected);
            }
          }
        });
      }
    }
  }
  EXPECT_EQ(folder.num_files(), 1U);
}

// After the error the engine continues.
TEST(ExportedWeights, FailedWriteReachesEveryRank) {
  const TemporaryFolder folder;
  trained({.stage = 3}, 2, [&](NormNet& net, Engine& engine, int) {
    EXPECT_TRUE(
        says(message_of<IoError>([&] { engine.export_weights(folder / "missing" / "model.safetensors"); }), "missing"));
    net.forward(torch::ones({4, 3})).square().mean().backward();
    EXPECT_EQ(engine.step().step, 3);
  });
}

TEST(ExportedWeights, AreRefusedBeforeThereAreAny) {
  const TemporaryFolder folder;
  NormNet net;
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(net, ranks, {.stage = 3, .awaits_load = true});
    EXPECT_THROW(engine.export_weights(folder / "model.safetensors"), ConfigError);
  });
  EXPECT_EQ(folder.num_files(), 0U);
}

}  // namespace
}  // namespace zero
