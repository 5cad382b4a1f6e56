// models_that_take(): which models, kinds of data and update rules read a key; the words of error messages.
//
//   models_that_take("model.kv_heads")   // "llama"
//
// The answers are from the tables of models (app/train/tasks/model_table.h) and rules (zero/optim/rule_registry.h).
// These do not need libtorch, so the command can refuse a key before it loads libtorch.
//
// Values; Local.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/config/options/config.h"

namespace zero {

// Return the models that take a key, or that read a kind of data: "gpt2 or llama".
std::string models_that_take(std::string_view key);
std::string models_that_read(std::string_view kind);

// Do samples have a number of tokens (model.context)? Samples of numbers do not.
bool has_context(const DataOptions& data);

// Returns the kinds of data that take a key of [data]; empty: all kinds take it.
std::span<const std::string_view> kinds_that_take(std::string_view key);
// Does this data read a key of [data]? A csv has texts or numbers, and each of these has its own keys.
bool data_reads(const DataOptions& data, std::string_view key);

// Returns the update rules that read a key, as values of optimizer.name: "sgd or muon".
std::string rules_that_read(std::string_view key);

}  // namespace zero
