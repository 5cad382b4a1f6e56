// kModelTable: the models that `zero train` knows, one row each, with all facts that need no libtorch.
//
//   model_row("gpt2").reads("text")             // true
//   model_row("gpt2").takes("model.kv_heads")   // false: another model's key
//
// The configuration is checked against it. model.init, `zero export` and `zero generate` read names of weights from it.
// ModelKind (model_kind.h) adds the functions that make the model. To add a model, add a row to both tables.
//
// Values; Local. No torch, because a configuration is checked before libtorch is loaded.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "zero/base/error/check.h"
#include "zero/checkpoint/safetensors/transformers_config.h"

namespace zero {

// The end of a name, and the end that old files have instead.
struct OldEnding {
  std::string_view now;  // "LayerNorm.weight"
  std::string_view old;  // "LayerNorm.gamma"
};

// Differences of published files from the model's own names, which model.init allows. A pattern is an end of names
// ("*.attn.bias") or a beginning ("cls.*").
struct PublishedFiles {
  std::string_view prefix{};                        // "bert.": files of a model without its head lack it
  std::span<const std::string_view> passed_over{};  // patterns of constants, and of heads of other tasks
  std::string_view tied_head{};                     // a copy of the table of tokens, if the model has no such parameter
  std::span<const std::string_view> new_heads{};    // modules that files of other tasks lack; random at first
  std::span<const OldEnding> old_endings{};

  // True if a tensor of this name is not a weight of the model.
  constexpr bool passes_over(std::string_view name) const {
    return std::ranges::any_of(passed_over, [name](std::string_view pattern) {
      return pattern.starts_with('*') ? name.ends_with(pattern.substr(1))
                                      : name.starts_with(pattern.substr(0, pattern.find('*')));
    });
  }
  // True if a tensor of this name, with the prefix or without, belongs to `head`, a head in new_heads.
  constexpr bool is_of(std::string_view head, std::string_view name) const {
    const auto begins = [name](std::string_view module) {
      return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
    };
    return begins(head) || (!prefix.empty() && head.starts_with(prefix) && begins(head.substr(prefix.size())));
  }
};

struct ModelRow {
  std::string_view name;                    // model.name
  std::span<const std::string_view> kinds;  // values of data.kind that the model reads
  std::span<const std::string_view> keys;   // keys of [model] that change the shapes of its weights, or its function
  std::span<const std::string_view> pass_keys{};  // keys of [model] that do not change the shapes of its weights
  bool has_blocks = false;                        // blocks that an activation checkpoint can compute again
  std::string_view token_weight{};                // a parameter [vocab, ...]; empty: the model has none
  std::optional<PublishedKind> published{};       // the model's kind in transformers
  std::string_view hidden_weight{};               // a parameter with a row for each feature of the feed-forward part
  std::string_view classes_weight{};              // a parameter with a row for each class
  PublishedFiles files{};

  constexpr bool reads(std::string_view kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
  // True if the model uses `key`, for example "model.heads". Always true for model.name and model.init, and for keys of
  // other sections.
  constexpr bool takes(std::string_view key) const {
    return !key.starts_with("model.") || key == "model.name" || key == "model.init" ||
           std::ranges::find(keys, key) != keys.end() || std::ranges::find(pass_keys, key) != pass_keys.end();
  }
};

namespace model_words {

using Words = std::string_view;

inline constexpr std::array kTokens{Words("text"), Words("tokens")};
inline constexpr std::array kTexts{Words("tsv"), Words("csv"), Words("word_order")};  // csv with data.text_column
inline constexpr std::array kRows{Words("mnist"), Words("images"), Words("csv")};
inline constexpr std::array kImages{Words("mnist"), Words("images")};
inline constexpr std::array kTable{Words("csv")};
inline constexpr std::array kImagesOrTokens{Words("mnist"), Words("images"), Words("text"), Words("tokens")};

inline constexpr std::array kGpt2Keys{Words("model.layers"), Words("model.width"), Words("model.heads"),
                                      Words("model.context"), Words("model.vocab")};
inline constexpr std::array kLlamaKeys{Words("model.layers"),        Words("model.width"),      Words("model.heads"),
                                       Words("model.kv_heads"),      Words("model.hidden"),     Words("model.context"),
                                       Words("model.vocab"),         Words("model.rope_theta"), Words("model.norm_eps"),
                                       Words("model.tie_embeddings")};
inline constexpr std::array kBertKeys{Words("model.layers"), Words("model.width"),   Words("model.heads"),
                                      Words("model.hidden"), Words("model.context"), Words("model.vocab")};
inline constexpr std::array kMlpKeys{Words("model.sizes")};
inline constexpr std::array kRecurrentKeys{Words("model.layers"), Words("model.hidden"), Words("model.vocab")};
inline constexpr std::array kDropout{Words("model.dropout")};
inline constexpr std::array kDropoutAndContext{Words("model.dropout"), Words("model.context")};

inline constexpr std::array kGpt2Masks{Words("*.attn.bias"), Words("*.attn.masked_bias")};
inline constexpr std::array kLlamaFrequencies{Words("*.rotary_emb.inv_freq")};
inline constexpr std::array kBertOtherHeads{Words("*embeddings.position_ids"), Words("cls.*")};
inline constexpr std::array kBertNewHeads{Words("classifier"), Words("bert.pooler")};
inline constexpr std::array kBertOldNorms{OldEnding{"LayerNorm.weight", "LayerNorm.gamma"},
                                          OldEnding{"LayerNorm.bias", "LayerNorm.beta"}};

constexpr ModelRow recurrent(std::string_view name) {
  return {.name = name,
          .kinds = kImagesOrTokens,
          .keys = kRecurrentKeys,
          .pass_keys = kDropoutAndContext,
          .token_weight = "embed.weight"};
}

}  // namespace model_words

// The most common models come first.
inline constexpr std::array kModelTable{
    ModelRow{
        .name = "gpt2",
        .kinds = model_words::kTokens,
        .keys = model_words::kGpt2Keys,
        .pass_keys = model_words::kDropout,
        .has_blocks = true,
        .token_weight = "transformer.wte.weight",
        .published = PublishedKind::kGpt2,
        .files = {.prefix = "transformer.", .passed_over = model_words::kGpt2Masks, .tied_head = "lm_head.weight"}},
    ModelRow{
        .name = "llama",
        .kinds = model_words::kTokens,
        .keys = model_words::kLlamaKeys,
        .has_blocks = true,
        .token_weight = "model.embed_tokens.weight",
        .published = PublishedKind::kLlama,
        .hidden_weight = "model.layers.0.mlp.gate_proj.weight",
        .files = {.prefix = "model.", .passed_over = model_words::kLlamaFrequencies, .tied_head = "lm_head.weight"}},
    ModelRow{.name = "bert",
             .kinds = model_words::kTexts,
             .keys = model_words::kBertKeys,
             .pass_keys = model_words::kDropout,
             .has_blocks = true,
             .token_weight = "bert.embeddings.word_embeddings.weight",
             .published = PublishedKind::kBert,
             .hidden_weight = "bert.encoder.layer.0.intermediate.dense.weight",
             .classes_weight = "classifier.weight",
             .files = {.prefix = "bert.",
                       .passed_over = model_words::kBertOtherHeads,
                       .new_heads = model_words::kBertNewHeads,
                       .old_endings = model_words::kBertOldNorms}},
    ModelRow{.name = "mlp", .kinds = model_words::kRows, .keys = model_words::kMlpKeys},
    ModelRow{.name = "cnn", .kinds = model_words::kImages, .keys = {}},
    model_words::recurrent("rnn"),
    model_words::recurrent("lstm"),
    model_words::recurrent("gru"),
    ModelRow{.name = "linear", .kinds = model_words::kTable, .keys = {}},
};

// Returns the row of `name`, which must be in the table.
inline const ModelRow& model_row(std::string_view name) {
  const auto* const found = std::ranges::find(kModelTable, name, &ModelRow::name);
  ZERO_CHECK(found != kModelTable.end(), "no row for model {}", name);
  return *found;
}

}  // namespace zero
