#include "app/cli/verbs.h"

// `zero export RUN -o FILE`: writes the weights of a checkpoint as safetensors that other programs load.
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/name_lists.h"
#include "zero/checkpoint/export_weights.h"
#include "zero/checkpoint/safetensors/companion_files.h"
#include "zero/checkpoint/safetensors/published_config.h"
#include "zero/checkpoint/safetensors/transformers_config.h"
#include "zero/checkpoint/whole_checkpoint.h"

#include "app/cli/command/flags.h"
#include "app/cli/export_companions.h"
#include "app/config/load.h"
#include "app/data/tokens/vocabulary.h"
#include "app/train/folder/run_files.h"
#include "app/train/tasks/model_table.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeightsName = "model.safetensors";

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// Refuses the names of a run's own weights in its folder. A finished run has them, in the type in which it trained
// them; an unfinished run would seem finished.
void refuse_weights_of_a_run(const std::string& output, const fs::path& file) {
  const RunFiles run(folder_of(file));
  const auto is_there = [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
  };
  const bool is_name_of_run =
      file.filename() == run.model.filename() || file.filename() == run.averaged_model.filename();
  if (!is_name_of_run || !is_there(run.config)) return;
  if (is_there(file))
    throw ConfigError("-o", output, fmt::format("{} belongs to a run, and would be replaced", file.string()),
                      "name another folder, or another file");
  if (is_there(run.metrics) || is_there(run.plan) || is_there(run.checkpoints.path()))
    throw ConfigError("-o", output,
                      fmt::format("{} is the folder of a run, which would seem finished", run.folder.string()),
                      "name another folder, or another file");
}

// Returns the file that `output` names: for a folder, model.safetensors in it.
fs::path file_of(const std::string& output) {
  if (output.empty()) throw ConfigError("-o", "\"\"", "no file is given", "give NAME.safetensors, or a folder for it");
  const fs::path path = output;
  std::error_code ignored;
  if (!path.has_extension() || !path.has_filename() || fs::is_directory(path, ignored)) return path / kWeightsName;
  if (path.extension() != ".safetensors")
    throw ConfigError("-o", output, "is not the name of a safetensors file",
                      "end it with .safetensors, or name a folder");
  return path;
}

// Returns the first dimension of a tensor in the checkpoint; 0 if there is no such tensor.
std::int64_t rows_of(const CheckpointReader& reader, std::string_view name) {
  const int tensor = reader.find(std::string(name));
  return tensor < 0 ? 0 : reader.manifest().tensors[static_cast<std::size_t>(tensor)].shape.front();
}

// The run of a checkpoint RUN/checkpoints/step-00000006.
fs::path run_of(const fs::path& checkpoint) {
  const fs::path path = checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();
  const fs::path folder = path.parent_path().parent_path();
  return folder.empty() ? "." : folder;
}

// A model as transformers knows it, and the folders in which files about it may be.
struct PublishedModel {
  TransformersModel model;
  fs::path run;        // folder of the run, to which it copied companion files at its begin
  fs::path init;       // folder of its first weights; empty: there is none
  fs::path tokenizer;  // folder of its tokenizer; empty: there is none
};

// Returns the model of a checkpoint; empty: transformers does not know the model, or `zero train` did not write the
// checkpoint. Options that the configuration leaves to data or model are derived from the weights.
std::optional<PublishedModel> published_model(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  if (manifest.config.empty()) return std::nullopt;
  const Config config = load_config({.text = manifest.config,
                                     .text_name = (reader.path() / kManifestName).string(),
                                     .check_files = false,
                                     .recorded = true})
                            .config;
  const ModelOptions& model = config.model;
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
  PublishedModel published{.model = std::move(found), .run = run_of(reader.path()), .init = {}, .tokenizer = {}};
  if (!model.init.empty()) published.init = folder_of_weights(model.init);
  published.tokenizer = config.data.tokenizer.empty() ? published.init : config.data.tokenizer;
  return published;
}

// Adds the companion files that the run wrote at its begin. If a run of an earlier version has not written them, they
// are copied from the folder of its first weights. A tokenizer's files replace those of another tokenizer.
void add_published(const PublishedModel& published, ExportCompanions& companions) {
  const auto& [model, run, init, tokenizer] = published;
  const fs::path& from = has_tokenizer_files(run) ? run : tokenizer;
  if (!from.empty() && has_tokenizer_files(from)) {
    for (const std::string_view name : kTokenizerFiles)
      fs::is_regular_file(from / name) ? companions.copy(name, from) : companions.remove(name);
  }
  companions.copy(kGenerationConfig, fs::exists(run / kGenerationConfig) ? run : init);
}

// Adds the words that the run learned. If it has none, other words in the folder are not those of the weights.
void add_words(const fs::path& run, ExportCompanions& companions) {
  std::error_code ignored;
  fs::exists(run / kWordsName, ignored) ? companions.copy(kWordsName, run) : companions.remove(kWordsName);
}

// Returns why the export has no config.json; "": it has one, or transformers does not know the model.
std::string why_no_config(const std::optional<PublishedModel>& published, const fs::path& file) {
  if (!published) return "";
  if (file.filename() != kWeightsName)
    return fmt::format("no config.json: transformers loads a folder with {}; name the file so", kWeightsName);
  if (has_foreign_config(folder_of(file)))
    return fmt::format("no config.json: {} exists already, and does not describe a model",
                       (folder_of(file) / "config.json").string());
  return "";
}

// Returns the files that are copied beside the weights, also what a model of images needs to know of its inputs.
ExportCompanions companions_of(const PublishedModel* published, const fs::path& run, const fs::path& file) {
  ExportCompanions companions(folder_of(file));
  if (file.filename() == kWeightsName) {
    companions.copy(kClassesName, run);
    add_words(run, companions);
  }
  if (published != nullptr) add_published(*published, companions);
  companions.copy(RunFiles(run).preprocessing.filename().string(), run);
  return companions;
}

void write_config(const PublishedModel& published, const fs::path& file, DType dtype, ExportedWeights& exported) {
  std::string base = transformers_config_in(published.run);
  if (base.empty() && !published.init.empty()) base = transformers_config_in(published.init);
  write_transformers_config(folder_of(file), published.model, dtype, base);
  exported.files.push_back(file.parent_path() / "config.json");
}

}  // namespace

int run_export(Arguments arguments) {
  CLI::App app(
      "Writes the weights and buffers of a run's newest checkpoint as safetensors, in shards if they are large,\n"
      "and for a " +
          names_where(kModelTable, &ModelRow::published) +
          " what transformers reads beside them: config.json, generation_config.json and the tokenizer's files;\n"
          "for a model of images preprocessor_config.json: how its inputs are made of pictures.",
      "zero export");
  std::string run, output, dtype = "fp32", shard = "5GB";
  bool json = false, best = false;
  app.add_option("RUN", run, "folder of a run, or of one of its checkpoints")->required();
  app.add_option("-o,--output", output, "file to write, NAME.safetensors, or a folder")->required();
  app.add_option("--dtype", dtype, "type of trained parameters: fp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--shard-size", shard, "largest size of a file; larger weights become several files with an index");
  app.add_flag("--best", best, "use the best checkpoint (checkpoint.keep_best), not the newest");
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  const fs::path file = file_of(output);
  refuse_weights_of_a_run(output, file);
  const DType type = dtype == "bf16" ? DType::kBFloat16 : dtype == "fp16" ? DType::kFloat16 : DType::kFloat32;
  const ExportOptions options{.dtype = type, .shard_bytes = parse_bytes(shard, "--shard-size")};
  CheckpointReader reader = best ? open_best_checkpoint(run) : open_whole_checkpoint(run);
  const auto model = published_model(reader);
  const std::string no_config = why_no_config(model, file);
  const PublishedModel* const published = model && no_config.empty() ? &*model : nullptr;
  ExportCompanions companions = companions_of(published, run_of(reader.path()), file);
  companions.require_free();
  ExportedWeights exported = export_weights(reader, file, options);
  if (published != nullptr) write_config(*published, file, type, exported);
  for (fs::path& copy : companions.write()) exported.files.push_back(std::move(copy));
  if (json) {
    nlohmann::ordered_json out{{"checkpoint", reader.path().string()},
                               {"parameters", exported.num_parameters},
                               {"buffers", exported.num_buffers},
                               {"left_out", exported.left_out},
                               {"files", nlohmann::ordered_json::array()}};
    for (const fs::path& written : exported.files) out["files"].push_back(written.string());
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
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
