// make_bert_task(): a bert that sorts texts into the data's classes. A row of model_kind.h.
//
//   auto task = make_bert_task({.name = "bert", .layers = 2, .width = 128, .heads = 2}, corpus.shape(), seed);
//
// Local.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/data/open_data.h"
#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/task.h"

namespace zero {

// Throws ConfigError: what token_model.h throws, and check(BertOptions).
std::unique_ptr<Task> make_bert_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Of word_order, which has two classes, where the vocabulary is given; else only the data knows.
std::optional<SampleShape> bert_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
