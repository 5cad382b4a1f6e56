#include "zero/models/cnn.h"

#include <fmt/format.h>

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include "zero/base/error.h"
#include "zero/models/option_checks.h"

namespace zero {
namespace {

// Returns the side of the image after the second pooling.
std::int64_t pooled_side(const CnnOptions& options) {
  return (options.side / 2 - 4) / 2;
}

torch::nn::Conv2dOptions five_by_five(std::int64_t in, std::int64_t out, std::int64_t padding) {
  return torch::nn::Conv2dOptions(in, out, 5).padding(padding);
}

}  // namespace

void check(const CnnOptions& options) {
  if (options.side < 12)
    throw ConfigError("data.path", fmt::format("{} x {} pixels", options.side, options.side),
                      "too small for two 5 x 5 convolutions", "use images of 12 x 12 pixels or more");
  require_classes(options.classes);
}

double flops_per_row(const CnnOptions& options) {
  const auto half = static_cast<double>(options.side / 2), side = static_cast<double>(pooled_side(options));
  const auto whole = static_cast<double>(options.side);
  const double convolutions =
      150 * static_cast<double>(options.channels) * whole * whole + 2400 * (half - 4) * (half - 4);
  return 6 * (convolutions + 120 * 16 * side * side + 84 * 120 + 84 * static_cast<double>(options.classes));
}

CnnImpl::CnnImpl(const CnnOptions& options)
    : options_((check(options), options)),
      conv1_(register_module("conv1", torch::nn::Conv2d(five_by_five(options.channels, 6, 2)))),
      conv2_(register_module("conv2", torch::nn::Conv2d(five_by_five(6, 16, 0)))),
      fc1_(register_module("fc1", torch::nn::Linear(16 * pooled_side(options) * pooled_side(options), 120))),
      fc2_(register_module("fc2", torch::nn::Linear(120, 84))),
      fc3_(register_module("fc3", torch::nn::Linear(84, options.classes))) {}

torch::Tensor CnnImpl::forward(const torch::Tensor& images) {
  auto x =
      images.to(fc3_->weight.scalar_type()).view({images.size(0), options_.channels, options_.side, options_.side});
  x = at::max_pool2d(at::relu(conv1_->forward(x)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  x = at::relu(fc1_->forward(x.flatten(1)));
  x = at::relu(fc2_->forward(x));
  return fc3_->forward(x);
}

}  // namespace zero
