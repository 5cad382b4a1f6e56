// make_bert_task(): a bert that classifies texts. Its row is in model_kind.cpp.
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

// Throws the ConfigErrors of token_model.h and of check(BertOptions).
std::unique_ptr<Task> make_bert_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed);

// Returns the shape of word_order, which has two classes, if the vocabulary is given. Otherwise only the data knows the
// shape.
std::optional<SampleShape> bert_shape(const ModelOptions& model, DataKind data, std::int64_t context);

}  // namespace zero
