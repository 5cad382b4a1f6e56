#include "zero/checkpoint/safetensors/published_config.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kInit = "model.init";

struct KindName {
  std::string_view name;
  PublishedKind kind;
};
constexpr std::array<KindName, 3> kKinds{
    {{"gpt2", PublishedKind::kGpt2}, {"llama", PublishedKind::kLlama}, {"bert", PublishedKind::kBert}}};

// A key of a file, with transformers' default.
PublishedKey key_of(const Json& config, std::string key, std::string at, Json usual, bool is_of_weights = true) {
  Json value = published_value(config, at, std::move(usual));
  return {std::move(key), std::move(at), std::move(value), is_of_weights};
}

// Transformers 5 has the base of rotary positions within rope_parameters, earlier versions beside rope_scaling.
PublishedKey rope_theta_of(const Json& config) {
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const Json within = published_value(config, name, Json::object());
    if (!within.is_object() || within.empty()) continue;
    Json inner = published_value(within, "rope_theta", nullptr);
    if (!inner.is_null()) return {"model.rope_theta", fmt::format("{}.rope_theta", name), std::move(inner)};
    break;
  }
  return key_of(config, "model.rope_theta", "rope_theta", 10000.0);
}

std::vector<PublishedKey> gpt2_keys(const Json& config) {
  return {key_of(config, "model.layers", "n_layer", 12), key_of(config, "model.width", "n_embd", 768),
          key_of(config, "model.heads", "n_head", 12), key_of(config, "model.context", "n_positions", 1024),
          key_of(config, "model.vocab", "vocab_size", 50257, /*is_of_weights=*/false)};
}

std::vector<PublishedKey> llama_keys(const Json& config) {
  const PublishedKey heads = key_of(config, "model.heads", "num_attention_heads", 32);
  return {key_of(config, "model.layers", "num_hidden_layers", 32),
          key_of(config, "model.width", "hidden_size", 4096),
          heads,
          key_of(config, "model.kv_heads", "num_key_value_heads", heads.value),
          key_of(config, "model.hidden", "intermediate_size", 11008),
          rope_theta_of(config),
          key_of(config, "model.norm_eps", "rms_norm_eps", 1e-6),
          key_of(config, "model.tie_embeddings", "tie_word_embeddings", false),
          key_of(config, "model.context", "max_position_embeddings", 2048, /*is_of_weights=*/false),
          key_of(config, "model.vocab", "vocab_size", 32000, /*is_of_weights=*/false)};
}

std::vector<PublishedKey> bert_keys(const Json& config) {
  return {key_of(config, "model.layers", "num_hidden_layers", 12),
          key_of(config, "model.width", "hidden_size", 768),
          key_of(config, "model.heads", "num_attention_heads", 12),
          key_of(config, "model.hidden", "intermediate_size", 3072),
          key_of(config, "model.context", "max_position_embeddings", 512),
          key_of(config, "model.vocab", "vocab_size", 30522, /*is_of_weights=*/false)};
}

// Configurations from before transformers wrote model_type have heads all the same.
bool describes_a_model(const Json& config) {
  return config.is_object() &&
         (config.contains("model_type") || config.contains("num_attention_heads") || config.contains("n_head"));
}

}  // namespace

Json published_value(const Json& config, std::string_view name, Json usual) {
  const auto found = config.find(name);
  return found == config.end() || found->is_null() ? std::move(usual) : *found;
}

std::vector<PublishedKey> published_keys(PublishedKind kind, const Json& config) {
  switch (kind) {
    case PublishedKind::kGpt2:
      return gpt2_keys(config);
    case PublishedKind::kLlama:
      return llama_keys(config);
    case PublishedKind::kBert:
      break;
  }
  return bert_keys(config);
}

std::vector<PublishedKey> published_dropouts(PublishedKind kind, const Json& config) {
  std::vector<PublishedKey> found;
  const auto add = [&](const char* name, double usual) {
    found.push_back(key_of(config, "model.dropout", name, usual, /*is_of_weights=*/false));
  };
  switch (kind) {
    case PublishedKind::kGpt2:
      for (const char* const name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) add(name, 0.1);
      break;
    case PublishedKind::kLlama:
      add("attention_dropout", 0.0);
      break;
    case PublishedKind::kBert:
      for (const char* const name : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) add(name, 0.1);
      if (!published_value(config, "classifier_dropout", nullptr).is_null()) add("classifier_dropout", 0.1);
      break;
  }
  return found;
}

std::string list_of(const std::vector<PublishedKey>& keys) {
  std::vector<std::string> parts;
  for (const PublishedKey& key : keys)
    parts.push_back(fmt::format("{} = {}", key.at, key.value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool are_equal(const std::vector<PublishedKey>& keys) {
  return std::ranges::all_of(keys, [&](const PublishedKey& key) { return key.value == keys.front().value; });
}

std::vector<std::string> published_classes(const Json& config) {
  const Json named = published_value(config, "id2label", Json::object());
  std::vector<std::string> names;
  if (!named.is_object()) return names;
  bool have_names = false;
  for (std::size_t label = 0; label < named.size(); ++label) {
    const auto found = named.find(fmt::format("{}", label));
    if (found == named.end() || !found->is_string()) return {};
    names.push_back(found->get<std::string>());
    have_names = have_names || names.back() != fmt::format("LABEL_{}", label);
  }
  return have_names ? names : std::vector<std::string>();
}

fs::path folder_of_weights(const fs::path& init) {
  std::error_code ignored;
  if (fs::is_directory(init, ignored)) return init;
  return init.has_parent_path() ? init.parent_path() : ".";
}

std::optional<PublishedConfig> read_published_config(const fs::path& init) {
  const fs::path file = folder_of_weights(init) / "config.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored) || fs::is_directory(file, ignored)) return std::nullopt;
  require_input_file(kInit, file);
  Json json = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw ConfigError(kInit, init.string(),
                      fmt::format("{} is not JSON, so the model of these weights is not known", file.string()),
                      "correct it, or remove it if it does not describe these weights");
  if (!describes_a_model(json)) return std::nullopt;
  const Json type = published_value(json, "model_type", "");
  PublishedConfig found{.file = file, .json = std::move(json), .kind = {}, .kind_name = {}};
  if (type.is_string()) found.kind_name = type;
  const auto known = std::ranges::find(kKinds, found.kind_name, &KindName::name);
  if (known != kKinds.end()) found.kind = known->kind;
  return found;
}

}  // namespace zero
