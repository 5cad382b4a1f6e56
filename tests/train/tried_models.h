// TriedModel: a small model of `zero train` with data for each step, micro-batch and rank.
//
//   std::unique_ptr<Task> task = make_tried_task(kModels[0]);
//   tried_loss(*task, kModels[0], /*step=*/0, /*micro=*/1, /*rank=*/0).backward();
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <torch/torch.h>

#include "app/train/tasks/model_kind.h"
#include "app/train/tasks/task.h"

namespace zero::tests {

enum class Reads : std::uint8_t { kText, kLabelledText, kImages, kRows };

struct TriedModel {
  std::string_view name;
  std::string_view model;  // value of model.name
  Reads reads;
};

inline constexpr std::array kModels{
    TriedModel{"gpt2", "gpt2", Reads::kText},  TriedModel{"llama", "llama", Reads::kText},
    TriedModel{"rnn_lm", "rnn", Reads::kText}, TriedModel{"lstm_lm", "lstm", Reads::kText},
    TriedModel{"gru_lm", "gru", Reads::kText}, TriedModel{"bert", "bert", Reads::kLabelledText},
    TriedModel{"mlp", "mlp", Reads::kImages},  TriedModel{"cnn", "cnn", Reads::kImages},
    TriedModel{"rnn", "rnn", Reads::kImages},  TriedModel{"lstm", "lstm", Reads::kImages},
    TriedModel{"gru", "gru", Reads::kImages},  TriedModel{"linear", "linear", Reads::kRows}};

inline std::unique_ptr<Task> make_tried_task(const TriedModel& tried) {
  ModelOptions options{
      .name = std::string(tried.model), .layers = 2, .width = 12, .heads = 2, .hidden = 10, .context = 8};
  if (tried.model == "bert" || tried.model == "gpt2" || tried.model == "cnn") options.hidden = 0;
  if (tried.model == "mlp") options.sizes = {144, 16, 3};
  SampleShape shape{.context = 8, .classes = 11};
  if (tried.reads == Reads::kLabelledText) shape = {.context = 8, .classes = 3, .vocab = 11};
  if (tried.reads == Reads::kImages) shape = {.features = 144, .height = 12, .width = 12, .classes = 3};
  if (tried.reads == Reads::kRows) shape = {.features = 144};
  return make_task(options, shape, /*seed=*/5);
}

// Local. Returns the loss of two samples, which differ in every micro-batch. Steps count from -1.
inline torch::Tensor tried_loss(Task& task, const TriedModel& tried, int step, int micro, int rank) {
  const int which = (step + 1) * 100 + micro * 10 + rank;
  const torch::Tensor numbers = (torch::arange(16) * (which + 3) + which).remainder(11).reshape({2, 8});
  const torch::Tensor pixels = (torch::arange(288, torch::kFloat) * 0.37 + which).sin().reshape({2, 144});
  const torch::Tensor classes = torch::arange(2).add(which).remainder(3);
  switch (tried.reads) {
    case Reads::kText:
      return task.loss(numbers, numbers.roll(-1, 1));
    case Reads::kLabelledText:
      return task.loss(numbers, classes);
    case Reads::kImages:
      return task.loss(pixels, classes);
    case Reads::kRows:
      break;
  }
  return task.loss(pixels, pixels.sum(1, /*keepdim=*/true));
}

}  // namespace zero::tests
