#include "app/train/weights/model_of_weights.h"

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

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/name_lists.h"
#include "zero/checkpoint/safetensors/published_config.h"

#include "app/report/same_configuration.h"
#include "app/train/folder/run_files.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kInit = "model.init";
constexpr std::int64_t kMostNumber = 1'000'000'000;  // limit of a number from which others are derived

// A key of [model] whose value differs from that of the weights. `at`: the entry of the file with the weights' value.
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

// Numbers are equal if they are equal in fp32, with which models compute: a file may have 1e-5 rounded to fp32.
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
      fmt::format("the weights of model.init belong to a model with {} ({}: {}){}{}", text_of(first.theirs),
                  file.string(), first.at, others.empty() ? "" : "; other keys also differ: ", fmt::join(others, ", ")),
      fmt::format("set {}", fmt::join(remedies, ", ")));
}

// Compares a config.json with the model here.
class Comparison {
 public:
  explicit Comparison(const Json& config) : config_(config) {}

  // Returns the value under `name`, or transformers' default.
  Json value(std::string_view name, Json usual) const { return published_value(config_, name, std::move(usual)); }
  std::int64_t number(std::string_view name, std::int64_t usual) const {
    const Json found = value(name, usual);
    return found.is_number_integer() && found >= 0 && found <= kMostNumber ? found.get<std::int64_t>() : usual;
  }

  // Compares a value that a key of [model] can set.
  void key(std::string_view key, const Json& ours, std::string_view name, const Json& theirs) {
    if (!is_same(ours, theirs)) differences_.push_back({std::string(key), ours, theirs, std::string(name)});
  }
  // Compares a value for which the model here has only the choices `ours`, which are the same function. No key can
  // change it.
  void only(std::string_view name, const Json& theirs, std::initializer_list<Json> ours) {
    if (std::ranges::none_of(ours, [&](const Json& each) { return is_same(each, theirs); }))
      unknown_.push_back(fmt::format("{} = {}, not {}", name, text_of(theirs), text_of(*ours.begin())));
  }

  // Throws if a value differs.
  void judge(std::string_view model, const std::string& init, const fs::path& file) const {
    if (!unknown_.empty())
      throw ConfigError(kInit, init,
                        fmt::format("its weights belong to a {} that zero.cpp does not support ({}): {}", model,
                                    file.string(), fmt::join(unknown_, "; ")),
                        "no key of [model] changes that: use weights of another model");
    refuse_any(differences_, file);
  }

 private:
  const Json& config_;
  std::vector<Difference> differences_;
  std::vector<std::string> unknown_;
};

void compare_gpt2(Comparison& with) {
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

// Transformers 5 has rotary positions in rope_parameters, earlier versions in rope_scaling.
void compare_rotary_positions(Comparison& with) {
  std::string_view name = "rope_scaling";
  Json parameters = with.value(name, nullptr);
  if (parameters.is_null() || parameters.empty()) parameters = with.value(name = "rope_parameters", Json::object());
  if (!parameters.is_object()) return with.only(name, parameters, {nullptr});
  const Comparison within(parameters);
  for (const Comparison* const place : {static_cast<const Comparison*>(&with), &within})
    with.only("partial_rotary_factor", place->value("partial_rotary_factor", 1.0), {1.0});
  with.only(fmt::format("{}.rope_type", name), within.value("rope_type", within.value("type", "default")), {"default"});
}

void compare_llama(Comparison& with) {
  const std::int64_t width = with.number("hidden_size", 4096), heads = with.number("num_attention_heads", 32);
  compare_rotary_positions(with);
  with.only("hidden_act", with.value("hidden_act", "silu"), {"silu", "swish"});
  for (const char* const name : {"attention_bias", "mlp_bias"}) with.only(name, with.value(name, false), {false});
  const Json head = heads > 0 ? width / heads : 0;
  with.only("head_dim", with.value("head_dim", head), {head});
}

void compare_bert(Comparison& with) {
  with.only("hidden_act", with.value("hidden_act", "gelu"), {"gelu", "gelu_python"});
  with.only("layer_norm_eps", with.value("layer_norm_eps", 1e-12), {1e-12});
  with.only("position_embedding_type", with.value("position_embedding_type", "absolute"), {"absolute"});
  with.only("type_vocab_size", with.value("type_vocab_size", 2), {2});
  for (const char* const name : {"is_decoder", "add_cross_attention"})
    with.only(name, with.value(name, false), {false});
}

// Returns the value of a key of [model] in the configured model.
Json value_here(std::string_view key, const TransformersModel& ours) {
  if (key == "model.layers") return ours.layers;
  if (key == "model.width") return ours.width;
  if (key == "model.heads") return ours.heads;
  if (key == "model.kv_heads") return ours.kv_heads;
  if (key == "model.hidden") return ours.hidden;
  if (key == "model.context") return ours.context;
  if (key == "model.rope_theta") return ours.rope_theta;
  if (key == "model.norm_eps") return ours.norm_eps;
  return ours.tie_embeddings;
}

void compare_keys(Comparison& with, const TransformersModel& ours, const Json& config, bool kv_heads_as_heads) {
  const Json heads = with.value("num_attention_heads", 32);
  for (const PublishedKey& key : published_keys(ours.kind, config)) {
    const bool follows_heads = key.key == "model.kv_heads" && kv_heads_as_heads && key.value == heads;
    if (key.is_of_weights && !follows_heads) with.key(key.key, value_here(key.key, ours), key.at, key.value);
  }
}

// Returns lines for the user: which dropout is used, and which settings of the file zero.cpp ignores.
std::vector<std::string> notes_on(const ModelOptions& model, const TransformersModel& ours,
                                  const PublishedConfig& published) {
  std::vector<std::string> notes;
  const std::string file = published.file.string();
  const std::vector<PublishedKey> dropouts = published_dropouts(ours.kind, published.json);
  if (ours.kind == PublishedKind::kLlama) {
    if (!is_same(dropouts.front().value, 0.0))
      notes.push_back(fmt::format("note: {} of {} is not done: a llama has no dropout here", list_of(dropouts), file));
  } else if (are_equal(dropouts) && is_same(dropouts.front().value, model.dropout)) {
    notes.push_back(fmt::format("dropout {}, as {} has it ({})", model.dropout, file, list_of(dropouts)));
  } else {
    notes.push_back(fmt::format("note: dropout {} by model.dropout; {} has {}, and the run's config.json gets {}",
                                model.dropout, file, list_of(dropouts), model.dropout));
  }
  const Json problem = published_value(published.json, "problem_type", "single_label_classification");
  if (ours.kind == PublishedKind::kBert && problem != "single_label_classification")
    notes.push_back(fmt::format(
        "note: problem_type = {} of {} is kept as it is; this run learns one class a text, by cross entropy",
        text_of(problem), file));
  return notes;
}

void require_kind(const ModelOptions& model, const Json& config, const fs::path& file) {
  const auto type = config.find("model_type");
  if (type == config.end() || *type == model.name) return;
  const auto is_known = [&](const ModelRow& row) { return row.published && *type == row.name; };
  if (std::ranges::any_of(kModelTable, is_known))
    refuse_any({{.key = "model.name", .ours = model.name, .theirs = *type, .at = "model_type"}}, file);
  throw ConfigError(kInit, model.init,
                    fmt::format("its weights belong to a model that zero.cpp does not support ({}: model_type = {})",
                                file.string(), text_of(*type)),
                    "use weights of a " + names_where(kModelTable, &ModelRow::published));
}

std::vector<std::string> compare_transformers(const ModelOptions& model, const TransformersModel& ours) {
  const std::optional<PublishedConfig> published = read_published_config(model.init);
  if (!published) return {};
  const Json& config = published->json;
  require_kind(model, config, published->file);
  Comparison with(config);
  compare_keys(with, ours, config, model.kv_heads == 0);
  switch (ours.kind) {
    case PublishedKind::kGpt2:
      compare_gpt2(with);
      break;
    case PublishedKind::kLlama:
      compare_llama(with);
      break;
    case PublishedKind::kBert:
      compare_bert(with);
      break;
  }
  with.judge(model.name, model.init, published->file);
  return notes_on(model, ours, *published);
}

// Compares the keys that shapes do not determine.
void compare_run(const ModelOptions& model, const RunFiles& run) {
  std::error_code ignored;
  if (!fs::is_regular_file(run.config, ignored) || !fs::is_regular_file(run.report, ignored)) return;
  require_input_file(kInit, run.config);
  const ConfigurationKeys keys = keys_of_configuration(read_file(run.config));
  // Returns the value of a key in that run, or `usual` if the key is missing. The TOML that zero.cpp writes is also
  // JSON.
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

std::vector<std::string> require_model_of_weights(const ModelOptions& model,
                                                  const std::optional<TransformersModel>& published) {
  if (model.init.empty()) return {};
  compare_run(model, RunFiles(folder_of_weights(model.init)));
  return published ? compare_transformers(model, *published) : std::vector<std::string>();
}

}  // namespace zero
