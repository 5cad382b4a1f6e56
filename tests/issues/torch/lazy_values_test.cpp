// Lazily negated and conjugated tensors: their bytes have other signs than their values.
#include <gtest/gtest.h>

#include "zero/torch/attached/rank_extras.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

// The gradient of `b` is a lazily negated view.
struct ComplexWeight : torch::nn::Module {
  ComplexWeight() {
    a = register_parameter("a", torch::full({}, 2.F));
    b = register_parameter("b", torch::full({}, 3.F));
  }
  torch::Tensor loss() {
    const torch::Tensor factor = torch::complex(torch::full({}, 5.F), torch::full({}, 7.F));
    return torch::real(torch::conj(torch::complex(a, b)) * factor);
  }
  torch::Tensor a, b;
};

// One step of plain SGD with rate 1 subtracts the gradient.
TEST(LazyValues, GradientsKeepTheirSign) {
  ComplexWeight plain;
  plain.loss().backward();
  ASSERT_TRUE(plain.b.grad().is_neg()) << "the case of this test";
  tests::on_every_rank(1, [](World& ranks) {
    ComplexWeight net;
    Engine engine = attach(net, ranks, {.stage = 0, .optimizer = SgdOptions{.lr = 1}});
    net.loss().backward();
    engine.step(1.0);
    engine.for_each_parameter([](const std::string& name, const torch::Tensor& value) {
      EXPECT_EQ(value.item<float>(), name == "a" ? 2.F - 5.F : 3.F - 7.F) << name;
    });
  });
}

TEST(LazyValues, SavedBuffersAreConjugated) {
  const torch::Tensor spectrum = torch::complex(torch::full({2}, 1.F), torch::full({2}, 4.F));
  const std::vector<Extra> extras = extras_of({{"spectrum", torch::conj(spectrum)}}, /*with_generator=*/false);
  NamedBuffers loaded{{"spectrum", torch::zeros({2}, torch::kComplexFloat)}};
  take_extras(extras, loaded, /*with_generator=*/false, "a checkpoint");
  EXPECT_TRUE(torch::equal(loaded.front().second, torch::conj(spectrum).resolve_conj()));
}

}  // namespace
}  // namespace zero
