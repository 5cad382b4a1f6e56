// Small models, and shapes of the data that they read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zero/base/error/error.h"

#include "app/train/tasks/model_kind.h"
#include "tests/support/message_of.h"
#include "tests/train/filled.h"

namespace zero {

constexpr SampleShape kTextShape{.context = 8, .classes = 256};
constexpr SampleShape kImageShape{.features = 4, .height = 2, .width = 2, .classes = 3};
constexpr SampleShape kTableShape{.features = 4};
constexpr SampleShape kTextsShape{.context = 8, .classes = 2, .vocab = 11};

inline ModelOptions some_gpt2() {
  return {.name = "gpt2", .layers = 1, .width = 8, .heads = 2, .context = 8};
}
inline ModelOptions some_llama() {
  return {.name = "llama", .layers = 1, .width = 8, .heads = 2, .kv_heads = 1, .context = 8};
}
inline ModelOptions some_bert() {
  return {.name = "bert", .layers = 1, .width = 8, .heads = 2, .context = 8};
}
inline ModelOptions some_mlp(std::vector<std::int64_t> sizes) {
  return {.name = "mlp", .sizes = std::move(sizes)};
}

// A task with memory and values.
inline std::unique_ptr<Task> real_task(const ModelOptions& options, const SampleShape& shape) {
  auto task = make_task(options, shape, 1);
  fill(task->module(), 0.02, 3);
  return task;
}

inline std::string refusal_of_task(const ModelOptions& options, const SampleShape& shape) {
  return message_of<ConfigError>([&] { make_task(options, shape, 1); });
}

}  // namespace zero
