#include "zero/train/model_of_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/base/name_lists.h"
#include "zero/report/same_configuration.h"
#include "zero/train/model_table.h"
#include "zero/train/run_files.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kInit = "model.init";
constexpr std::int64_t kMostNumber = 1'000'000'000;  // of a number that others are derived from

// A key of [model] that stands at another value than the weights were made with. `at`: what says so, within the file.
struct Difference {
  std::string key;
  Json ours, theirs;
  std::string at;
};

std::string text_of(const Json& value) {
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

// Models compute with fp32: a file may have 1e-5 as fp32 has it.
bool is_same(const Json& one, const Json& other) {
  if (!one.is_number() || !other.is_number()) return one == other;
  if (!one.is_number_float() && !other.is_number_float()) return one == other;
  const auto a = one.get<double>(), b = other.get<double>();
  return std::abs(a - b) <= 1e-7 * std::max(std::abs(a), std::abs(b));
}

void refuse_any(const std::vector<Difference>& found, const fs::path& file) {
  if (found.empty()) return;
  std::vector<std::string> others, remedies;
  for (const Difference& each : found) {
    if (&each != &found.front())
      others.push_back(
          fmt::format("{} = {}, not {} ({})", each.key, text_of(each.ours), text_of(each.theirs), each.at));
    remedies.push_back(fmt::format("{} to {}", each.key, text_of(each.theirs)));
  }
  const Difference& first = found.front();
  throw ConfigError(
      first.key, text_of(first.ours),
      fmt::format("the weights of model.init are of a model with {} ({}: {}){}{}", text_of(first.theirs), file.string(),
                  first.at, others.empty() ? "" : "; other keys differ, too: ", fmt::join(others, ", ")),
      fmt::format("set {}", fmt::join(remedies, ", ")));
}

// A config.json, compared with the model here.
class Comparison {
 public:
  explicit Comparison(const Json& config) : config_(config) {}

  // What it has under `name`, or transformers' default.
  Json value(std::string_view name, Json usual) const {
    const auto found = config_.find(name);
    return found == config_.end() || found->is_null() ? std::move(usual) : *found;
  }
  std::int64_t number(std::string_view name, std::int64_t usual) const {
    const Json found = value(name, usual);
    return found.is_number_integer() && found >= 0 && found <= kMostNumber ? found.get<std::int64_t>() : usual;
  }

  // A key of [model] has it, and so it can be set.
  void key(std::string_view key, const Json& ours, std::string_view name, const Json& theirs) {
    if (!is_same(ours, theirs)) differences_.push_back({std::string(key), ours, theirs, std::string(name)});
  }
  // The model here has nothing but these values, which are one function; no key changes that.
  void only(std::string_view name, const Json& theirs, std::initializer_list<Json> ours) {
    if (std::ranges::none_of(ours, [&](const Json& each) { return is_same(each, theirs); }))
      unknown_.push_back(fmt::format("{} = {}, not {}", name, text_of(theirs), text_of(*ours.begin())));
  }

  // Throws where something differs.
  void judge(std::string_view model, const std::string& init, const fs::path& file) const {
    if (!unknown_.empty())
      throw ConfigError(kInit, init,
                        fmt::format("its weights are of a {} that zero.cpp does not have ({}): {}", model,
                                    file.string(), fmt::join(unknown_, "; ")),
                        "no key of [model] changes that: use weights of another model");
    refuse_any(differences_, file);
  }

 private:
  const Json& config_;
  std::vector<Difference> differences_;
  std::vector<std::string> unknown_;
};

void compare_gpt2(Comparison& with, const TransformersModel& ours) {
  with.key("model.layers", ours.layers, "n_layer", with.value("n_layer", 12));
  with.key("model.width", ours.width, "n_embd", with.value("n_embd", 768));
  with.key("model.heads", ours.heads, "n_head", with.value("n_head", 12));
  with.key("model.context", ours.context, "n_positions", with.value("n_positions", 1024));
  const Json inner = 4 * with.number("n_embd", 768);
  with.only("n_inner", with.value("n_inner", inner), {inner});
  with.only("activation_function", with.value("activation_function", "gelu_new"),
            {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"});
  with.only("layer_norm_epsilon", with.value("layer_norm_epsilon", 1e-5), {1e-5});
  with.only("tie_word_embeddings", with.value("tie_word_embeddings", true), {true});
  with.only("scale_attn_weights", with.value("scale_attn_weights", true), {true});
  for (const char* const name : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    with.only(name, with.value(name, false), {false});
}

// Transformers 5 has the base of rotary positions within rope_parameters, earlier versions beside rope_scaling.
void compare_rotary_positions(Comparison& with, const TransformersModel& ours) {
  std::string_view name = "rope_scaling";
  Json parameters = with.value(name, nullptr);
  if (parameters.is_null() || parameters.empty()) parameters = with.value(name = "rope_parameters", Json::object());
  if (!parameters.is_object()) return with.only(name, parameters, {nullptr});
  const Comparison within(parameters);
  for (const Comparison* const place : {static_cast<const Comparison*>(&with), &within})
    with.only("partial_rotary_factor", place->value("partial_rotary_factor", 1.0), {1.0});
  with.only(fmt::format("{}.rope_type", name), within.value("rope_type", within.value("type", "default")), {"default"});
  const Json inner = within.value("rope_theta", nullptr);
  with.key("model.rope_theta", ours.rope_theta, inner.is_null() ? "rope_theta" : fmt::format("{}.rope_theta", name),
           inner.is_null() ? with.value("rope_theta", 10000.0) : inner);
}

void compare_llama(Comparison& with, const TransformersModel& ours, bool kv_heads_as_heads) {
  const std::int64_t width = with.number("hidden_size", 4096), heads = with.number("num_attention_heads", 32);
  const Json kv_heads = with.value("num_key_value_heads", heads);
  with.key("model.layers", ours.layers, "num_hidden_layers", with.value("num_hidden_layers", 32));
  with.key("model.width", ours.width, "hidden_size", with.value("hidden_size", 4096));
  with.key("model.heads", ours.heads, "num_attention_heads", with.value("num_attention_heads", 32));
  if (!kv_heads_as_heads || kv_heads != heads)
    with.key("model.kv_heads", ours.kv_heads, "num_key_value_heads", kv_heads);
  with.key("model.hidden", ours.hidden, "intermediate_size", with.value("intermediate_size", 11008));
  compare_rotary_positions(with, ours);
  with.key("model.norm_eps", ours.norm_eps, "rms_norm_eps", with.value("rms_norm_eps", 1e-6));
  with.key("model.tie_embeddings", ours.tie_embeddings, "tie_word_embeddings",
           with.value("tie_word_embeddings", false));
  with.only("hidden_act", with.value("hidden_act", "silu"), {"silu", "swish"});
  for (const char* const name : {"attention_bias", "mlp_bias"}) with.only(name, with.value(name, false), {false});
  const Json head = heads > 0 ? width / heads : 0;
  with.only("head_dim", with.value("head_dim", head), {head});
}

void compare_bert(Comparison& with, const TransformersModel& ours) {
  with.key("model.layers", ours.layers, "num_hidden_layers", with.value("num_hidden_layers", 12));
  with.key("model.width", ours.width, "hidden_size", with.value("hidden_size", 768));
  with.key("model.heads", ours.heads, "num_attention_heads", with.value("num_attention_heads", 12));
  with.key("model.hidden", ours.hidden, "intermediate_size", with.value("intermediate_size", 3072));
  with.key("model.context", ours.context, "max_position_embeddings", with.value("max_position_embeddings", 512));
  with.only("hidden_act", with.value("hidden_act", "gelu"), {"gelu", "gelu_python"});
  with.only("layer_norm_eps", with.value("layer_norm_eps", 1e-12), {1e-12});
  with.only("position_embedding_type", with.value("position_embedding_type", "absolute"), {"absolute"});
  with.only("type_vocab_size", with.value("type_vocab_size", 2), {2});
  for (const char* const name : {"is_decoder", "add_cross_attention"})
    with.only(name, with.value(name, false), {false});
}

// Configurations from before transformers wrote model_type have heads all the same.
bool describes_a_model(const Json& config) {
  return config.is_object() &&
         (config.contains("model_type") || config.contains("num_attention_heads") || config.contains("n_head"));
}

void require_kind(const ModelOptions& model, const Json& config, const fs::path& file) {
  const auto type = config.find("model_type");
  if (type == config.end() || *type == model.name) return;
  const auto is_known = [&](const ModelRow& row) { return row.published && *type == row.name; };
  if (std::ranges::any_of(kModelTable, is_known))
    refuse_any({{.key = "model.name", .ours = model.name, .theirs = *type, .at = "model_type"}}, file);
  throw ConfigError(kInit, model.init,
                    fmt::format("its weights are of a model that zero.cpp does not have ({}: model_type = {})",
                                file.string(), text_of(*type)),
                    "use weights of a " + names_where(kModelTable, &ModelRow::published));
}

void compare_transformers(const ModelOptions& model, const TransformersModel& ours, const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored) || fs::is_directory(file, ignored)) return;
  require_input_file(kInit, file);
  const Json config = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (config.is_discarded())
    throw ConfigError(kInit, model.init,
                      fmt::format("{} is no JSON, and so does not say what model its weights are of", file.string()),
                      "mend it, or remove it if it says nothing of them");
  if (!describes_a_model(config)) return;
  require_kind(model, config, file);
  Comparison with(config);
  switch (ours.kind) {
    case PublishedKind::kGpt2:
      compare_gpt2(with, ours);
      break;
    case PublishedKind::kLlama:
      compare_llama(with, ours, model.kv_heads == 0);
      break;
    case PublishedKind::kBert:
      compare_bert(with, ours);
      break;
  }
  with.judge(model.name, model.init, file);
}

// The keys that shapes do not tell.
void compare_run(const ModelOptions& model, const RunFiles& run) {
  std::error_code ignored;
  if (!fs::is_regular_file(run.config, ignored) || !fs::is_regular_file(run.report, ignored)) return;
  require_input_file(kInit, run.config);
  const ConfigurationKeys keys = keys_of_configuration(read_file(run.config));
  // The value of a key then; without it, `usual`. What zero.cpp writes as TOML is JSON, too.
  const auto then = [&keys](std::string_view key, const Json& usual) {
    const auto found = keys.find(key);
    if (found == keys.end()) return usual;
    const Json value = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? Json(found->second) : value;
  };
  std::vector<Difference> differences;
  const auto compare = [&](std::string_view key, const Json& ours, const Json& theirs) {
    if (!is_same(ours, theirs)) differences.push_back({std::string(key), ours, theirs, std::string(key)});
  };
  compare("model.name", model.name, then("model.name", model.name));
  if (differences.empty()) {
    const ModelRow& row = model_row(model.name);
    const Json heads = then("model.heads", model.heads), kv_heads = then("model.kv_heads", 0);
    if (row.takes("model.heads")) compare("model.heads", model.heads, heads);
    if (row.takes("model.kv_heads") && (model.kv_heads != 0 || kv_heads != 0))
      compare("model.kv_heads", model.kv_heads == 0 ? model.heads : model.kv_heads, kv_heads == 0 ? heads : kv_heads);
    const ModelOptions usual;
    if (row.takes("model.rope_theta"))
      compare("model.rope_theta", model.rope_theta, then("model.rope_theta", usual.rope_theta));
    if (row.takes("model.norm_eps")) compare("model.norm_eps", model.norm_eps, then("model.norm_eps", usual.norm_eps));
    if (row.takes("model.tie_embeddings"))
      compare("model.tie_embeddings", model.tie_embeddings, then("model.tie_embeddings", usual.tie_embeddings));
  }
  refuse_any(differences, run.config);
}

}  // namespace

void require_model_of_weights(const ModelOptions& model, const std::optional<TransformersModel>& published) {
  if (model.init.empty()) return;
  const fs::path init = model.init;
  std::error_code ignored;
  const fs::path parent = init.has_parent_path() ? init.parent_path() : ".";
  const fs::path folder = fs::is_directory(init, ignored) ? init : parent;
  compare_run(model, RunFiles(folder));
  if (published) compare_transformers(model, *published, folder / "config.json");
}

}  // namespace zero
