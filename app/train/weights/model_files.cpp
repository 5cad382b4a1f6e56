#include "app/train/weights/model_files.h"

#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/safetensors/companion_files.h"
#include "zero/checkpoint/safetensors/published_config.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

void write_config(const TrainJob& job, const Task& task, const Corpus& corpus, const fs::path& folder,
                  ModelFiles files) {
  std::string base = files == ModelFiles::kResumed ? transformers_config_in(folder) : "";
  if (base.empty() && !job.model.init.empty()) base = transformers_config_in(folder_of_weights(job.model.init));
  if (is_there(folder / "config.json") && transformers_config_in(folder).empty()) return;
  task.describe_weights(folder, job.attach.dtype.value_or(DType::kFloat32), corpus.class_names, base);
}

// Returns the folder of the tokenizer's files; empty: there is none.
fs::path tokenizer_folder(const TrainJob& job) {
  if (!job.data.tokenizer.empty()) return job.data.tokenizer;
  if (job.data.vocab.filename() == "vocab.txt") return folder_of_weights(job.data.vocab);
  return job.model.init.empty() ? fs::path() : folder_of_weights(job.model.init);
}

// Says how the data makes tokens, if not with a tokenizer beside the first weights; empty: it may use that tokenizer.
std::string other_tokens(const TrainJob& job) {
  if (job.data.kind == DataKind::kText) return "makes a token of each byte";
  return is_labelled_text(job.data) && job.data.vocab.empty() ? "learns words of its own" : "";
}

bool is_one_folder(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return !one.empty() && fs::equivalent(one, other, ignored);
}

void remove_if_there(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw IoError(file.string(), "remove", error.value());
}

}  // namespace

void remove_model_files(const TrainJob& job, const fs::path& folder) {
  if (!job.model.init.empty() && is_one_folder(folder_of_weights(job.model.init), folder)) return;
  if (!transformers_config_in(folder).empty()) remove_if_there(folder / "config.json");
  for (const std::string_view name : {kGenerationConfig, kClassesName, kWordsName}) remove_if_there(folder / name);
  const bool reads_vocab = !job.data.vocab.empty() && is_one_folder(folder_of_weights(job.data.vocab), folder);
  if (!reads_vocab && !is_one_folder(job.data.tokenizer, folder)) remove_tokenizer_files(folder);
}

std::vector<std::string> write_model_files(const TrainJob& job, const Task& task, const Corpus& corpus,
                                           const fs::path& folder, ModelFiles files) {
  std::vector<std::string> notes;
  if (task.published()) {
    write_config(job, task, corpus, folder, files);
    const fs::path init = job.model.init.empty() ? fs::path() : folder_of_weights(job.model.init);
    const fs::path tokenizer = tokenizer_folder(job);
    const bool resumed = files == ModelFiles::kResumed;
    if (!init.empty() && !(resumed && is_there(folder / kGenerationConfig)))
      copy_companion(kGenerationConfig, init, folder);
    if (!tokenizer.empty() && !(resumed && has_tokenizer_files(folder)) &&
        !copy_tokenizer_files(tokenizer, folder).empty()) {
      if (const std::string tokens = other_tokens(job); !tokens.empty() && tokenizer == init)
        notes.push_back(fmt::format("note: the tokenizer's files of {} are copied beside the weights, but this data {}",
                                    init.string(), tokens));
    }
  }
  if (!corpus.class_names.empty()) write_file(folder / kClassesName, classes_json(corpus.class_names));
  if (!corpus.words.empty())
    write_file(folder / kWordsName, corpus.words);
  else if (files == ModelFiles::kResumed)
    remove_if_there(folder / kWordsName);  // of this run; a new run keeps the user's file of that name
  return notes;
}

void require_classes_of_run(const fs::path& folder, const std::vector<std::string>& class_names) {
  const fs::path file = folder / kClassesName;
  if (!is_there(file)) return;
  const std::vector<std::string> before = names_in_classes_json(read_file(file));
  // As the file would hold them: JSON has only UTF-8.
  if (before.empty() || before == names_in_classes_json(classes_json(class_names))) return;
  throw ConfigError("data.labels", fmt::format("[{}]", fmt::join(class_names, ", ")),
                    fmt::format("the run began with the classes {} ({})", fmt::join(before, ", "), file.string()),
                    fmt::format("set data.labels to [\"{}\"], or begin another run", fmt::join(before, "\", \"")));
}

}  // namespace zero
