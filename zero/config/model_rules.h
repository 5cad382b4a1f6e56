// ModelRule: what the keys of a configuration may say of a model, by its name. No torch: the command refuses a
// configuration before it loads libtorch. zero/train/model_kind.h has what only a model itself knows; a test compares both.
//
//   const ModelRule& rule = model_rule("gpt2");
//   rule.reads("text")                 // true
//   rule.takes("model.kv_heads")       // false: another model's key
//
// Values; Local.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace zero {

struct ModelRule {
  std::string_view name;
  std::span<const std::string_view> kinds;  // of data.kind
  std::span<const std::string_view> keys;   // of [model], beside name and init, which all take
  bool has_blocks = false;                  // for train.checkpoint_activations

  bool reads(std::string_view kind) const;
  bool takes(std::string_view key) const;  // "model.heads"; true of the keys of other sections
};

std::span<const ModelRule> model_rules();
// `name` is one that the option table allows.
const ModelRule& model_rule(std::string_view name);

// "gpt2 or llama": the models that take a key, or read a kind of data.
std::string models_that_take(std::string_view key);
std::string models_that_read(std::string_view kind);

// Tokens in a sample, as of model.context? Kinds of numbers have none.
bool has_context(std::string_view kind);

// The kinds of data that take a key of [data] which others do not; empty: all kinds do.
std::span<const std::string_view> kinds_that_take(std::string_view key);

// "a, b or c"
std::string one_of(std::span<const std::string_view> names);

}  // namespace zero
