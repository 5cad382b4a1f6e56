// Every way to read the value of an attached parameter gives the whole value, or an error with the parameter's name.
#include <sstream>

#include <gtest/gtest.h>

#include <ATen/DLConvertor.h>

#include "tests/support/message_of.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

using torch::nn::Sequential;

constexpr std::int64_t kRows = 5, kColumns = 3;

Sequential make_net() {
  torch::manual_seed(11);
  return Sequential(torch::nn::Linear(kColumns, kRows), torch::nn::ReLU(), torch::nn::Linear(kRows, 2));
}

torch::Tensor& first_weight(Sequential& net) {
  return net[0]->as<torch::nn::LinearImpl>()->weight;
}

torch::Tensor values_at(const void* data) {
  return torch::from_blob(const_cast<void*>(data), {kRows, kColumns}).clone();
}

struct WayOut {
  std::string name;
  bool by_operator;                                // an operator reads the value, so there is no error
  std::function<torch::Tensor(Sequential&)> take;  // reads the first weight in this way
};

std::vector<WayOut> ways_out() {
  std::vector<WayOut> ways;
  const auto from_module = [&](const std::string& name, bool by_operator, auto take) {
    ways.push_back({name, by_operator, take});
  };
  const auto from_weight = [&](const std::string& name, bool by_operator, auto take) {
    ways.push_back({name, by_operator, [take](Sequential& net) { return take(first_weight(net)); }});
  };
  from_module("SaveModule", false, [](Sequential& net) {
    std::stringstream file;
    torch::save(net, file);
    Sequential other = make_net();
    torch::load(other, file);
    return first_weight(other);
  });
  from_module("OutputArchive", false, [](Sequential& net) {
    torch::serialize::OutputArchive out;
    net->save(out);
    std::stringstream file;
    out.save_to(file);
    Sequential other = make_net();
    torch::serialize::InputArchive in;
    in.load_from(file);
    other->load(in);
    return first_weight(other);
  });
  from_module("CloneModule", true, [](Sequential& net) {
    return std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone())->children()[0]->parameters()[0];
  });
  from_weight("SaveTensor", false, [](const torch::Tensor& weight) {
    std::stringstream file;
    torch::save(weight, file);
    torch::Tensor other;
    torch::load(other, file);
    return other;
  });
  from_weight("SaveTensors", false, [](const torch::Tensor& weight) {
    std::stringstream file;
    torch::save(std::vector<torch::Tensor>{weight}, file);
    std::vector<torch::Tensor> others;
    torch::load(others, file);
    return others.at(0);
  });
  from_weight("Pickle", false, [](const torch::Tensor& weight) {
    return torch::pickle_load(torch::pickle_save(weight.detach())).toTensor();
  });
  from_weight("ConstDataPtr", false, [](const torch::Tensor& w) { return values_at(w.const_data_ptr()); });
  from_weight("MutableDataPtr", false, [](const torch::Tensor& w) { return values_at(w.mutable_data_ptr()); });
  from_weight("TypedDataPtr", false, [](const torch::Tensor& w) { return values_at(w.data_ptr<float>()); });
  from_weight("DataPtrOfAView", false, [](const torch::Tensor& w) { return values_at(w.t().const_data_ptr()); });
  from_weight("DataPtrOfData", false, [](const torch::Tensor& w) { return values_at(w.data().const_data_ptr()); });
  from_weight("ContiguousDataPtr", false,
              [](const torch::Tensor& w) { return values_at(w.contiguous().const_data_ptr()); });
  from_weight("StorageData", false, [](const torch::Tensor& w) { return values_at(w.storage().data()); });
  from_weight("StorageMutableData", false,
              [](const torch::Tensor& w) { return values_at(w.storage().mutable_data()); });
  from_weight("StorageDataPtr", false, [](const torch::Tensor& w) { return values_at(w.storage().data_ptr().get()); });
  from_weight("TensorImplData", false,
              [](const torch::Tensor& w) { return values_at(w.unsafeGetTensorImpl()->data()); });
  from_weight("Accessor", false, [](const torch::Tensor& weight) {
    const auto elements = weight.accessor<float, 2>();
    torch::Tensor values = torch::empty({kRows, kColumns});
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t column = 0; column < kColumns; ++column) values[row][column] = elements[row][column];
    }
    return values;
  });
  from_weight("PackedAccessor", false,
              [](const torch::Tensor& w) { return values_at(w.packed_accessor64<float, 2>().data()); });
  from_weight("DLPack", false, [](const torch::Tensor& w) { return at::fromDLPack(at::toDLPack(w.detach())).clone(); });
  from_weight("DLPackVersioned", false, [](const torch::Tensor& w) {
    return at::fromDLPackVersioned(at::toDLPackVersioned(w.detach())).clone();
  });
  from_weight("Item", true, [](const torch::Tensor& weight) {
    torch::Tensor values = torch::empty({kRows, kColumns});
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t column = 0; column < kColumns; ++column)
        values[row][column] = weight[row][column].item<float>();
    }
    return values;
  });
  from_weight("To", true, [](const torch::Tensor& w) { return w.to(torch::kDouble).to(torch::kFloat); });
  from_weight("Clone", true, [](const torch::Tensor& w) { return w.detach().clone(); });
  from_weight("CopyInto", true, [](const torch::Tensor& w) {
    torch::Tensor values = torch::empty({kRows, kColumns});
    values.copy_(w.detach());
    return values;
  });
  return ways;
}

// Calls body(net, engine) on every rank after a step. No parameter has been used since.
void after_a_step(AttachOptions options, int world, const std::function<void(Sequential&, Engine&)>& body) {
  options.optimizer = AdamW{.lr = 0.1};
  std::vector<Sequential> nets;
  for (int rank = 0; rank < world; ++rank) nets.push_back(make_net());
  tests::on_every_rank(world, [&](World& ranks) {
    Sequential& net = nets[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(*net, ranks, options);
    net->forward(torch::ones({4, kColumns}) * (ranks.rank() + 1)).square().mean().backward();
    engine.step();
    body(net, engine);
  });
}

torch::Tensor weight_of(Engine& engine) {
  torch::Tensor weight;
  engine.for_each_parameter([&](const std::string& name, const torch::Tensor& values) {
    if (name == "0.weight") weight = values.clone();
  });
  return weight;
}

class WaysOut : public ::testing::TestWithParam<std::tuple<WayOut, int, int>> {};

TEST_P(WaysOut, GiveValuesOrNameTheParameter) {
  const auto& [way, stage, world] = GetParam();
  after_a_step({.stage = stage}, world, [&, &way = way](Sequential& net, Engine& engine) {
    torch::Tensor taken;
    std::string refusal;
    try {
      taken = way.take(net);
    } catch (const c10::Error& error) {
      refusal = error.what_without_backtrace();
    }
    if (taken.defined()) {
      EXPECT_TRUE(tests::same_bits(taken.detach().contiguous(), weight_of(engine)));
    } else {
      EXPECT_TRUE(says(refusal, "0.weight: this parameter"));
      EXPECT_TRUE(says(refusal, "export_weights"));
    }
    EXPECT_EQ(taken.defined(), way.by_operator) << refusal;

    // The parameter is used by an operator, or held by a scope.
    const auto scope = engine.gathered(*net);
    EXPECT_TRUE(tests::same_bits(way.take(net).detach().contiguous(), first_weight(net).detach()));
  });
}

INSTANTIATE_TEST_SUITE_P(All, WaysOut,
                         ::testing::Combine(::testing::ValuesIn(ways_out()), ::testing::Range(0, 4),
                                            ::testing::Values(1, 2)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "AtStage" + std::to_string(std::get<1>(info.param)) +
                                  "Of" + std::to_string(std::get<2>(info.param));
                         });

TEST(WaysOut, PrintingGivesTheWholeValue) {
  const auto printed = [](const torch::Tensor& tensor) {
    std::ostringstream text;
    text << tensor.detach();
    return text.str();
  };
  for (int stage = 0; stage < 4; ++stage) {
    after_a_step({.stage = stage}, 2, [&](Sequential& net, Engine& engine) {
      const std::string text = printed(first_weight(net));
      EXPECT_EQ(text, printed(weight_of(engine)));
    });
  }
}

TEST(WaysOut, EmptyParameterIsNotZeros) {
  after_a_step({.stage = 3}, 1, [](Sequential& net, Engine& engine) {
    engine.abandon();
    { const Engine ended = std::move(engine); }
    std::stringstream file;
    EXPECT_TRUE(
        says(message_of<c10::Error>([&] { torch::save(net, file); }), "0.weight: this parameter has no values"));
  });
}

TEST(WaysOut, ReturnedValuesSaveNormally) {
  Sequential net = make_net();
  tests::on_every_rank(1, [&](World& ranks) { attach(*net, ranks, {.stage = 3}); });
  std::stringstream file;
  torch::save(net, file);
  Sequential other(torch::nn::Linear(kColumns, kRows), torch::nn::ReLU(), torch::nn::Linear(kRows, 2));
  torch::load(other, file);
  Sequential fresh = make_net();
  EXPECT_TRUE(tests::same_bits(first_weight(other).detach(), first_weight(fresh).detach()));
}

}  // namespace
}  // namespace zero
