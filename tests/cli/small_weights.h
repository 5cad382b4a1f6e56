// small_weights: weight files for a small GPT-2 and a small BERT, and safetensors files that are broken on purpose.
//
//   folder.write("gpt2.safetensors", small_weights::file_of(small_weights::kGpt2Weights));
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace zero::small_weights {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string safetensors(const std::string& header, std::size_t num_bytes, std::uint64_t announced = 0) {
  return bytes_of<std::uint64_t>({announced != 0 ? announced : header.size()}) + header + std::string(num_bytes, '\0');
}

inline std::string entry(const std::string& name, const std::string& shape, int begin, int end) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name, shape, begin, end);
}

struct Weight {
  const char* name;
  const char* shape;
  int numel;
};
inline constexpr std::array kGpt2Weights{
    Weight{"transformer.wte.weight", "300,8", 2400},
    Weight{"transformer.wpe.weight", "16,8", 128},
    Weight{"transformer.h.0.ln_1.weight", "8", 8},
    Weight{"transformer.h.0.ln_1.bias", "8", 8},
    Weight{"transformer.h.0.attn.c_attn.weight", "8,24", 192},
    Weight{"transformer.h.0.attn.c_attn.bias", "24", 24},
    Weight{"transformer.h.0.attn.c_proj.weight", "8,8", 64},
    Weight{"transformer.h.0.attn.c_proj.bias", "8", 8},
    Weight{"transformer.h.0.ln_2.weight", "8", 8},
    Weight{"transformer.h.0.ln_2.bias", "8", 8},
    Weight{"transformer.h.0.mlp.c_fc.weight", "8,32", 256},
    Weight{"transformer.h.0.mlp.c_fc.bias", "32", 32},
    Weight{"transformer.h.0.mlp.c_proj.weight", "32,8", 256},
    Weight{"transformer.h.0.mlp.c_proj.bias", "8", 8},
    Weight{"transformer.ln_f.weight", "8", 8},
    Weight{"transformer.ln_f.bias", "8", 8},
};
inline constexpr std::array kBertWeights{
    Weight{"bert.embeddings.word_embeddings.weight", "30,8", 240},
    Weight{"bert.embeddings.position_embeddings.weight", "16,8", 128},
    Weight{"bert.embeddings.token_type_embeddings.weight", "2,8", 16},
    Weight{"bert.embeddings.LayerNorm.weight", "8", 8},
    Weight{"bert.embeddings.LayerNorm.bias", "8", 8},
    Weight{"bert.encoder.layer.0.attention.self.query.weight", "8,8", 64},
    Weight{"bert.encoder.layer.0.attention.self.query.bias", "8", 8},
    Weight{"bert.encoder.layer.0.attention.self.key.weight", "8,8", 64},
    Weight{"bert.encoder.layer.0.attention.self.key.bias", "8", 8},
    Weight{"bert.encoder.layer.0.attention.self.value.weight", "8,8", 64},
    Weight{"bert.encoder.layer.0.attention.self.value.bias", "8", 8},
    Weight{"bert.encoder.layer.0.attention.output.dense.weight", "8,8", 64},
    Weight{"bert.encoder.layer.0.attention.output.dense.bias", "8", 8},
    Weight{"bert.encoder.layer.0.attention.output.LayerNorm.weight", "8", 8},
    Weight{"bert.encoder.layer.0.attention.output.LayerNorm.bias", "8", 8},
    Weight{"bert.encoder.layer.0.intermediate.dense.weight", "32,8", 256},
    Weight{"bert.encoder.layer.0.intermediate.dense.bias", "32", 32},
    Weight{"bert.encoder.layer.0.output.dense.weight", "8,32", 256},
    Weight{"bert.encoder.layer.0.output.dense.bias", "8", 8},
    Weight{"bert.encoder.layer.0.output.LayerNorm.weight", "8", 8},
    Weight{"bert.encoder.layer.0.output.LayerNorm.bias", "8", 8},
    Weight{"bert.pooler.dense.weight", "8,8", 64},
    Weight{"bert.pooler.dense.bias", "8", 8},
    Weight{"classifier.weight", "2,8", 16},
    Weight{"classifier.bias", "2", 2},
};

// Returns a file with these names and shapes; all values are 0.
inline std::string file_of(std::span<const Weight> weights) {
  std::string entries;
  int end = 0;
  for (const auto& [name, shape, numel] : weights) {
    entries += (entries.empty() ? "" : ",") + entry(name, shape, end, end + 4 * numel);
    end += 4 * numel;
  }
  return safetensors("{" + entries + "}", static_cast<std::size_t>(end));
}

}  // namespace zero::small_weights
