#include "zero/cli/verbs.h"

// `zero export RUN -o FILE`: writes the weights of a checkpoint as safetensors that other programs load.
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/name_lists.h"
#include "zero/checkpoint/export_weights.h"
#include "zero/checkpoint/transformers_config.h"
#include "zero/checkpoint/whole_checkpoint.h"
#include "zero/command/flags.h"
#include "zero/config/load.h"
#include "zero/data/vocabulary.h"
#include "zero/train/model_table.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeightsName = "model.safetensors";

// Refuses to replace a run's own model.safetensors, which has the weights of the run's end in the type in which it
// trained them.
void refuse_weights_of_a_run(const std::string& output, const fs::path& file) {
  std::error_code ignored;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (file.filename() == kWeightsName && fs::exists(file, ignored) && fs::exists(folder / "config.toml", ignored))
    throw ConfigError("-o", output, fmt::format("{} is a run's own, and would be replaced", file.string()),
                      "name another folder, or another file");
}

// Returns the file that `output` names: for a folder, model.safetensors in it.
fs::path file_of(const std::string& output) {
  if (output.empty()) throw ConfigError("-o", "\"\"", "no file is named", "give NAME.safetensors, or a folder for it");
  const fs::path path = output;
  std::error_code ignored;
  if (!path.has_extension() || !path.has_filename() || fs::is_directory(path, ignored)) return path / kWeightsName;
  if (path.extension() != ".safetensors")
    throw ConfigError("-o", output, "is no name of a safetensors file", "end it with .safetensors, or name a folder");
  return path;
}

// Returns the first dimension of a tensor in the checkpoint; 0 if there is no such tensor.
std::int64_t rows_of(const CheckpointReader& reader, std::string_view name) {
  const int tensor = reader.find(std::string(name));
  return tensor < 0 ? 0 : reader.manifest().tensors[static_cast<std::size_t>(tensor)].shape.front();
}

// Returns the model as transformers describes it; nullopt if transformers has no such model, or if the checkpoint is
// not of `zero train`. Reads sizes that the configuration leaves to the data or to the model from the weights.
std::optional<TransformersModel> published_model(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  if (manifest.config.empty()) return std::nullopt;
  const Config config = load_config({.text = manifest.config,
                                     .text_name = (reader.path() / kManifestName).string(),
                                     .check_files = false,
                                     .recorded = true})
                            .config;
  const ModelConfig& model = config.model;
  const ModelRow& row = model_row(model.name);
  if (!row.published) return std::nullopt;
  const std::int64_t vocab = rows_of(reader, row.token_weight);
  if (vocab == 0) return std::nullopt;
  TransformersModel found{.kind = *row.published,
                          .layers = model.layers,
                          .width = model.width,
                          .heads = model.heads,
                          .kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads,
                          .hidden = rows_of(reader, row.hidden_weight),
                          .context = model.context,
                          .vocab = vocab,
                          .classes = rows_of(reader, row.classes_weight),
                          .dropout = model.dropout,
                          .rope_theta = model.rope_theta,
                          .norm_eps = model.norm_eps,
                          .tie_embeddings = model.tie_embeddings};
  if (!config.data.vocab.empty()) found.pad = Vocabulary::read(config.data.vocab, "data.vocab").pad();
  return found;
}

// Adds config.json to the exported files, or returns the reason why not.
std::string add_config(const std::optional<TransformersModel>& model, const fs::path& file, DType dtype,
                       ExportedWeights& exported) {
  if (!model) return "";
  if (file.filename() != kWeightsName)
    return fmt::format("no config.json: transformers loads a folder with {}; name the file so", kWeightsName);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!write_transformers_config(folder, model, dtype))
    return fmt::format("no config.json: {} is there already, and is no model's", (folder / "config.json").string());
  exported.files.push_back(file.parent_path() / "config.json");
  return "";
}

}  // namespace

int run_export(Arguments arguments) {
  CLI::App app(
      "Writes the weights and buffers of a run's newest checkpoint as safetensors, sharded where they are large,\n"
      "and the config.json that transformers needs to load a " +
          names_where(kModelTable, &ModelRow::published) + ".",
      "zero export");
  std::string run, output, dtype = "fp32", shard = "5GB";
  bool json = false;
  app.add_option("RUN", run, "a run folder, or one of its checkpoints")->required();
  app.add_option("-o,--output", output, "the file to write, NAME.safetensors, or a folder for it")->required();
  app.add_option("--dtype", dtype, "type of trained parameters: fp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--shard-size", shard, "most bytes of a file; larger weights become several files with an index");
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  const fs::path file = file_of(output);
  refuse_weights_of_a_run(output, file);
  const DType type = dtype == "bf16" ? DType::kBFloat16 : dtype == "fp16" ? DType::kFloat16 : DType::kFloat32;
  const ExportOptions options{.dtype = type, .shard_bytes = parse_bytes(shard, "--shard-size")};
  CheckpointReader reader = open_whole_checkpoint(run);
  const auto model = published_model(reader);
  ExportedWeights exported = export_weights(reader, file, options);
  const std::string no_config = add_config(model, file, type, exported);
  if (json) {
    nlohmann::ordered_json out{{"checkpoint", reader.path().string()},
                               {"parameters", exported.num_parameters},
                               {"buffers", exported.num_buffers},
                               {"left_out", exported.left_out},
                               {"files", nlohmann::ordered_json::array()}};
    for (const fs::path& written : exported.files) out["files"].push_back(written.string());
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("{}: {} parameters, {} buffers\n", reader.path().string(), exported.num_parameters, exported.num_buffers);
  for (const fs::path& written : exported.files)
    fmt::print("  {}  {}\n", written.string(), format_bytes(static_cast<std::int64_t>(fs::file_size(written))));
  if (!exported.left_out.empty()) fmt::print("  left out: {}\n", fmt::join(exported.left_out, "; "));
  if (!no_config.empty()) fmt::print("  {}\n", no_config);
  return 0;
}

}  // namespace zero::cli
