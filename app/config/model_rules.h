// The words of a refusal: which models take a key or read a kind of data, which kinds take a key of [data], and which rules
// one of [optimizer]. By the tables of models (app/train/tasks/model_table.h) and of rules (zero/optim/rule_registry.h), which
// need no torch: the command refuses before it loads libtorch.
//
//   models_that_take("model.kv_heads")   // "llama"
//
// Values; Local.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/config/config.h"

namespace zero {

// "gpt2 or llama": the models that take a key, or read a kind of data.
std::string models_that_take(std::string_view key);
std::string models_that_read(std::string_view kind);

// Tokens in a sample, as of model.context? Kinds of numbers have none.
bool has_context(const DataConfig& data);

// The kinds of data that take a key of [data] which others do not; empty: all kinds do.
std::span<const std::string_view> kinds_that_take(std::string_view key);
// Does this data read a key of [data]? A csv is of texts or of numbers, which have keys of their own.
bool data_reads(const DataConfig& data, std::string_view key);

// "sgd or muon": the update rules that read a key, by their optimizer.name.
std::string rules_that_read(std::string_view key);

}  // namespace zero
