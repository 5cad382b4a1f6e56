#include "app/models/cnn.h"

#include <fmt/format.h>

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include "zero/base/error/error.h"

#include "app/models/option_checks.h"

namespace zero {
namespace {

constexpr std::int64_t kLeastSide = 12;

// Returns the length of a side after the second pooling.
std::int64_t pooled(std::int64_t side) {
  return (side / 2 - 4) / 2;
}

std::int64_t pooled_area(const CnnOptions& options) {
  return pooled(options.height) * pooled(options.width);
}

torch::nn::Conv2dOptions five_by_five(std::int64_t in, std::int64_t out, std::int64_t padding) {
  return torch::nn::Conv2dOptions(in, out, 5).padding(padding);
}

}  // namespace

void check(const CnnOptions& options) {
  if (options.height < kLeastSide || options.width < kLeastSide)
    throw ConfigError(
        "model.name", "cnn",
        fmt::format("images of {} x {} pixels are too small for two 5 x 5 convolutions", options.height, options.width),
        fmt::format("use images of {0} x {0} pixels or more, or model.name mlp; data.size = {0} resizes "
                    "those of data.kind images",
                    kLeastSide));
  require_classes(options.classes);
}

double flops_per_row(const CnnOptions& options) {
  const auto whole = static_cast<double>(options.height * options.width);
  const auto second = static_cast<double>((options.height / 2 - 4) * (options.width / 2 - 4));
  const double convolutions = 150 * static_cast<double>(options.channels) * whole + 2400 * second;
  return 6 * (convolutions + 120 * 16 * static_cast<double>(pooled_area(options)) + 84 * 120 +
              84 * static_cast<double>(options.classes));
}

CnnImpl::CnnImpl(const CnnOptions& options)
    : options_((check(options), options)),
      conv1_(register_module("conv1", torch::nn::Conv2d(five_by_five(options.channels, 6, 2)))),
      conv2_(register_module("conv2", torch::nn::Conv2d(five_by_five(6, 16, 0)))),
      fc1_(register_module("fc1", torch::nn::Linear(16 * pooled_area(options), 120))),
      fc2_(register_module("fc2", torch::nn::Linear(120, 84))),
      fc3_(register_module("fc3", torch::nn::Linear(84, options.classes))) {}

torch::Tensor CnnImpl::forward(const torch::Tensor& images) {
  auto x =
      images.to(fc3_->weight.scalar_type()).view({images.size(0), options_.channels, options_.height, options_.width});
  x = at::max_pool2d(at::relu(conv1_->forward(x)), 2);
  x = at::max_pool2d(at::relu(conv2_->forward(x)), 2);
  x = at::relu(fc1_->forward(x.flatten(1)));
  x = at::relu(fc2_->forward(x));
  return fc3_->forward(x);
}

}  // namespace zero
