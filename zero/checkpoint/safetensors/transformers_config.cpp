#include "zero/checkpoint/safetensors/transformers_config.h"

#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/published_config.h"

namespace zero {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string_view torch_name(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : dtype == DType::kBFloat16 ? "bfloat16" : "float16";
}

// Without a tokenizer, no token begins or ends a text.
OrderedJson gpt2_config(const TransformersModel& model) {
  return {{"model_type", "gpt2"},        {"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", model.layers},     {"n_embd", model.width},
          {"n_head", model.heads},       {"n_positions", model.context},
          {"vocab_size", model.vocab},   {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},  {"tie_word_embeddings", true},
          {"scale_attn_weights", true},  {"embd_pdrop", model.dropout},
          {"attn_pdrop", model.dropout}, {"resid_pdrop", model.dropout},
          {"bos_token_id", nullptr},     {"eos_token_id", nullptr}};
}

OrderedJson llama_config(const TransformersModel& model) {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"num_hidden_layers", model.layers},
          {"hidden_size", model.width},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"intermediate_size", model.hidden},
          {"max_position_embeddings", model.context},
          {"vocab_size", model.vocab},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_eps},
          {"rope_theta", model.rope_theta},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0},
          {"tie_word_embeddings", model.tie_embeddings},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"pad_token_id", nullptr}};
}

// id2label and label2id.
std::pair<OrderedJson, OrderedJson> labels_of(const TransformersModel& model) {
  OrderedJson labels = OrderedJson::object(), numbers = OrderedJson::object();
  for (std::int64_t label = 0; label < model.classes; ++label) {
    const std::string name = label < std::ssize(model.class_names) ? model.class_names[static_cast<std::size_t>(label)]
                                                                   : fmt::format("LABEL_{}", label);
    labels[std::to_string(label)] = name;
    numbers[name] = label;
  }
  return {std::move(labels), std::move(numbers)};
}

OrderedJson bert_config(const TransformersModel& model) {
  const auto [labels, numbers] = labels_of(model);
  return {{"model_type", "bert"},
          {"architectures", {"BertForSequenceClassification"}},
          {"num_hidden_layers", model.layers},
          {"hidden_size", model.width},
          {"num_attention_heads", model.heads},
          {"intermediate_size", model.hidden},
          {"max_position_embeddings", model.context},
          {"vocab_size", model.vocab},
          {"type_vocab_size", 2},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-12},
          {"hidden_dropout_prob", model.dropout},
          {"attention_probs_dropout_prob", model.dropout},
          {"pad_token_id", model.pad},
          {"id2label", labels},
          {"label2id", numbers}};
}

OrderedJson config_of(const TransformersModel& model) {
  switch (model.kind) {
    case PublishedKind::kGpt2:
      return gpt2_config(model);
    case PublishedKind::kLlama:
      return llama_config(model);
    case PublishedKind::kBert:
      break;
  }
  return bert_config(model);
}

// Probabilities of dropout, each where the base has another, by transformers' default if it has none.
void put_dropout(OrderedJson& json, const TransformersModel& model) {
  if (model.kind == PublishedKind::kLlama) return;  // it has none here, and so asks for none
  for (const PublishedKey& key : published_dropouts(model.kind, json))
    if (key.value != OrderedJson(model.dropout)) json[key.at] = model.dropout;
}

void put_classes(OrderedJson& json, const TransformersModel& model) {
  if (model.kind != PublishedKind::kBert) return;
  const OrderedJson named = published_value(json, "id2label", OrderedJson::object());
  const bool are_kept = model.class_names.empty() && named.is_object() && std::ssize(named) == model.classes;
  if (!are_kept) std::tie(json["id2label"], json["label2id"]) = labels_of(model);
  if (json.contains("num_labels")) json["num_labels"] = model.classes;
}

// The base says nothing else about the model than `model` does: model_of_weights.h refuses contradictions.
OrderedJson with_base(OrderedJson json, const TransformersModel& model, DType dtype) {
  const OrderedJson ours = config_of(model);
  for (const char* const name : {"model_type", "architectures", "vocab_size"}) json[name] = ours[name];
  put_dropout(json, model);
  put_classes(json, model);
  if (model.kind == PublishedKind::kLlama &&
      published_value(json, "max_position_embeddings", 2048) < OrderedJson(model.context))
    json["max_position_embeddings"] = model.context;
  if (model.kind == PublishedKind::kBert && published_value(json, "pad_token_id", 0) != OrderedJson(model.pad))
    json["pad_token_id"] = model.pad;
  const bool is_new = json.contains("dtype");  // transformers 5 calls it so
  if (is_new) json["dtype"] = torch_name(dtype);
  if (!is_new || json.contains("torch_dtype")) json["torch_dtype"] = torch_name(dtype);
  return json;
}

// Names of classes may be no UTF-8.
std::string text_of(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

bool is_of_kind(const OrderedJson& base, const TransformersModel& model) {
  return base.is_object() &&
         published_value(base, "model_type", config_of(model)["model_type"]) == config_of(model)["model_type"];
}

}  // namespace

std::string transformers_config(const TransformersModel& model, DType dtype, std::string_view base) {
  OrderedJson based = OrderedJson::parse(base, nullptr, /*allow_exceptions=*/false);
  if (is_of_kind(based, model)) return text_of(with_base(std::move(based), model, dtype));
  OrderedJson json = config_of(model);
  json["torch_dtype"] = torch_name(dtype);
  return text_of(json);
}

bool has_foreign_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::exists(file)) return false;
  const auto json = OrderedJson::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  return !json.is_object() || !json.contains("model_type");
}

bool write_transformers_config(const std::filesystem::path& folder, const std::optional<TransformersModel>& model,
                               DType dtype, std::string_view base) {
  if (!model) return true;
  if (has_foreign_config(folder)) return false;
  write_file(folder / "config.json", transformers_config(*model, dtype, base));
  return true;
}

std::string transformers_config_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return "";
  std::string text = read_file(file);
  const auto json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() &&
                 (json.contains("model_type") || json.contains("num_attention_heads") || json.contains("n_head"))
             ? text
             : "";
}

}  // namespace zero
