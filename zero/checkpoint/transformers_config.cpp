#include "zero/checkpoint/transformers_config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/file.h"

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

OrderedJson bert_config(const TransformersModel& model) {
  OrderedJson labels = OrderedJson::object(), numbers = OrderedJson::object();
  for (std::int64_t label = 0; label < model.classes; ++label) {
    labels[std::to_string(label)] = fmt::format("LABEL_{}", label);
    numbers[fmt::format("LABEL_{}", label)] = label;
  }
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

}  // namespace

std::string transformers_config(const TransformersModel& model, DType dtype) {
  OrderedJson json = config_of(model);
  json["torch_dtype"] = torch_name(dtype);
  return json.dump(2) + "\n";
}

bool write_transformers_config(const std::filesystem::path& folder, const std::optional<TransformersModel>& model,
                               DType dtype) {
  if (!model) return true;
  const std::filesystem::path file = folder / "config.json";
  if (std::filesystem::exists(file)) {
    const auto old = OrderedJson::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
    if (!old.is_object() || !old.contains("model_type")) return false;
  }
  write_file(file, transformers_config(*model, dtype));
  return true;
}

}  // namespace zero
