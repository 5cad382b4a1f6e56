// Cnn: LeNet-5 for images of one or more channels, with max pooling and ReLU, which are common today.
//
//   conv1.{weight [6, channels, 5, 5], bias}    5 x 5, padding 2, then 2 x 2 pooling
//   conv2.{weight [16, 6, 5, 5], bias}   5 x 5, then 2 x 2 pooling
//   fc1.{weight [120, 16 * rows * columns], bias}    fc2.{weight [84, 120], bias}    fc3.{weight [classes, 84], bias}
//
//   Cnn model(CnnOptions{.height = 28, .width = 28, .classes = 10});
//   auto scores = model->forward(images);      // [batch, channels * height * width], in any shape -> [batch, classes]
//
// It is the network of LeCun et al., "Gradient-based learning applied to document recognition", 1998. Images are
// squares or other rectangles. It knows nothing of ZeRO. Local.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace zero {

struct CnnOptions {
  std::int64_t height = 28, width = 28;  // of the images, 12 pixels or more
  std::int64_t channels = 1;
  std::int64_t classes = 10;
};

// Throws ConfigError under "model.name" for images that are too small, "data.classes" for fewer than two.
void check(const CnnOptions& options);

// Returns the operations of a forward and a backward pass, per image: 6 for each weight and position where it is used.
double flops_per_row(const CnnOptions& options);

class CnnImpl : public torch::nn::Module {
 public:
  explicit CnnImpl(const CnnOptions& options);
  // Converts pixels to the parameters' type.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  CnnOptions options_;
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_, fc3_;
};
TORCH_MODULE(Cnn);

}  // namespace zero
