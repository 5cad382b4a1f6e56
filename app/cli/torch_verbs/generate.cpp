// `zero generate`: prints text from the weights of a run, finished or not, or of a checkpoint.
#include "app/models/generate.h"

#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/name_lists.h"
#include "zero/checkpoint/whole_checkpoint.h"

#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/data/token_text.h"
#include "app/train/folder/run_files.h"
#include "app/train/folder/run_folder.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/weights.h"

namespace zero::cli {
namespace {

// The source of the weights: the file of a finished run, or a checkpoint.
struct Source {
  Config config;
  std::int64_t vocab = 0;  // from the weights, because model.vocab is 0 if the data decided it
  std::optional<CheckpointReader> checkpoint;
};

// Returns the parameter whose rows are the model's tokens. Throws ConfigError if the run did not train a language
// model.
std::string token_weight_of(const Config& config, const std::string& run) {
  if (!is_language_model(config.model.name, config.data.kind))
    throw ConfigError(
        "RUN", run,
        fmt::format("trained a {} on data.kind {}, which writes no text", config.model.name, name_of(config.data.kind)),
        fmt::format("name the run of a language model: a {} on {}",
                    names_where(kModelTable, [](const ModelRow& row) { return row.reads("text"); }),
                    one_of(model_words::kTokens)));
  return std::string(model_row(config.model.name).token_weight);
}

Source source_of(const std::string& run, bool best) {
  const RunFolder folder(run);
  std::error_code ignored;
  if (!best && !is_checkpoint(run) && std::filesystem::exists(folder.files().model, ignored)) {
    folder.require_finished();
    Source source{.config =
                      load_config({.file = folder.files().config, .check_files = false, .recorded = true}).config};
    const auto file = SafetensorsFile::open(folder.files().model, "RUN");
    if (const SafetensorsEntry* const tokens = file.find(token_weight_of(source.config, run)))
      source.vocab = tokens->shape.at(0);
    return source;
  }
  CheckpointReader reader = best ? open_best_checkpoint(run) : open_whole_checkpoint(run);
  const Manifest& manifest = reader.manifest();
  if (manifest.config.empty())
    throw ConfigError("RUN", run, "is a checkpoint that does not say its configuration",
                      "name a run of `zero train`, or one of its checkpoints");
  const auto step = manifest.run.find("step");
  fmt::print(stderr, "step {}: {}\n", step == manifest.run.end() ? "?" : step->second, reader.path().string());
  Source source{.config = load_config({.text = manifest.config,
                                       .text_name = (reader.path() / kManifestName).string(),
                                       .check_files = false,
                                       .recorded = true})
                              .config};
  if (const int tokens = reader.find(token_weight_of(source.config, run)); tokens >= 0)
    source.vocab = manifest.tensors[static_cast<std::size_t>(tokens)].shape.at(0);
  source.checkpoint.emplace(std::move(reader));
  return source;
}

// Weights may have more tokens than their tokenizer only if [model] vocab set the number.
void require_tokenizer(const TokenText& text, const Source& source, const std::string& run) {
  const std::int64_t known = text.tokenizer_size();
  const bool fits = source.config.model.vocab == 0 ? known == source.vocab : known <= source.vocab;
  if (known == 0 || fits) return;
  throw ConfigError("data.tokenizer", BytePairTokenizer::file_of(source.config.data.tokenizer).string(),
                    fmt::format("it has {} tokens, and the weights of {} have {}: they were not made for each other",
                                known, run, source.vocab),
                    "restore the earlier tokenizer in its folder");
}

// Returns the prompt; a text without a prompt begins with a new line.
std::string start_of(const std::string& prompt, const TokenText& text) {
  return prompt.empty() && text.is_text() ? "\n" : prompt;
}

}  // namespace

int generate_verb(const GenerateRequest& request) {
  Source source = source_of(request.run, request.best);
  const Config& config = source.config;
  const TokenText text = TokenText::of(config.data.kind, config.data.tokenizer);
  require_tokenizer(text, source, request.run);
  const std::vector<std::int64_t> prompt = text.read(start_of(request.prompt, text));
  at::set_num_threads(num_usable_cores());
  ModelOptions options = model_options(config);
  options.init = request.run;  // so no first weights are drawn
  options.checkpoint_activations = false;
  options.activation_offload.reset();
  const auto task = make_task(options, {.context = options.context, .classes = source.vocab}, /*seed=*/0);
  if (source.checkpoint)
    read_weights(task->module(), *source.checkpoint);
  else
    read_weights(task->module(), RunFiles(request.run).model);
  source.checkpoint.reset();
  // Standard output has only the text.
  if (request.temperature > 0) fmt::print(stderr, "seed {}; another --seed draws another text\n", request.seed);
  std::cout << request.prompt << (text.is_text() || request.prompt.empty() ? "" : " ");
  generate(*task->language_model(), prompt,
           {.tokens = request.tokens, .temperature = request.temperature, .top_k = request.top_k, .seed = request.seed},
           [&](std::int64_t token) { std::cout << text.show(token) << std::flush; });
  std::cout << '\n';
  return 0;
}

}  // namespace zero::cli
