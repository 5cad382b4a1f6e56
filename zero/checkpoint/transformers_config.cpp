#include "zero/checkpoint/transformers_config.h"

#include <nlohmann/json.hpp>

#include "zero/base/file.h"

namespace zero {

using OrderedJson = nlohmann::ordered_json;

namespace {

std::string_view torch_name(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : dtype == DType::kBFloat16 ? "bfloat16" : "float16";
}

}  // namespace

std::string transformers_config(const TransformersGpt2& model) {
  // Of GPT-2 as zero/models/gpt2.h has it. There is no tokenizer, and so no token that begins or ends a text.
  const OrderedJson json{{"model_type", "gpt2"},
                         {"architectures", {"GPT2LMHeadModel"}},
                         {"n_layer", model.layers},
                         {"n_embd", model.width},
                         {"n_head", model.heads},
                         {"n_positions", model.context},
                         {"vocab_size", model.vocab},
                         {"activation_function", "gelu_new"},
                         {"layer_norm_epsilon", 1e-5},
                         {"tie_word_embeddings", true},
                         {"scale_attn_weights", true},
                         {"embd_pdrop", model.dropout},
                         {"attn_pdrop", model.dropout},
                         {"resid_pdrop", model.dropout},
                         {"bos_token_id", nullptr},
                         {"eos_token_id", nullptr},
                         {"torch_dtype", torch_name(model.dtype)}};
  return json.dump(2) + "\n";
}

bool write_transformers_config(const std::filesystem::path& folder, const TransformersGpt2& model) {
  const std::filesystem::path file = folder / "config.json";
  if (std::filesystem::exists(file)) {
    const auto old = OrderedJson::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
    if (!old.is_object() || !old.contains("model_type")) return false;
  }
  write_file(file, transformers_config(model));
  return true;
}

}  // namespace zero
