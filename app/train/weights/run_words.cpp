#include "app/train/weights/run_words.h"

#include <algorithm>
#include <cstdint>
#include <system_error>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/safetensors/companion_files.h"
#include "zero/checkpoint/safetensors/published_config.h"

#include "app/data/tokens/vocabulary.h"
#include "app/train/folder/run_folder.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

// Returns the number of tokens of the model in a checkpoint; 0: it is not known. Loading reports a damaged checkpoint.
std::int64_t tokens_in(const fs::path& checkpoint, std::string_view token_weight) {
  std::int64_t tokens = 0;
  static_cast<void>(failure_of([&] {
    const Manifest manifest = read_manifest(checkpoint);
    const auto found = std::ranges::find(manifest.tensors, token_weight, &SavedTensor::name);
    if (found != manifest.tensors.end() && !found->shape.empty()) tokens = found->shape.front();
  }));
  return tokens;
}

// A model may have more tokens than words, by model.vocab.
void require_size(const TrainJob& job, const KnownWords& words, const fs::path& checkpoint) {
  const std::int64_t tokens = tokens_in(checkpoint, model_row(job.model.name).token_weight);
  const std::int64_t size = Vocabulary::of_lines(words.lines, words.key, words.path).size();
  if (tokens == 0 || size == tokens || (job.model.vocab > 0 && size < tokens)) return;
  throw ConfigError("run.dir", words.path,
                    fmt::format("has {}, and the model of the run has {} ({})", format_count(size, "line"),
                                format_count(tokens, "token"), checkpoint.string()),
                    "restore the file that the run wrote when it began, or begin another run");
}

}  // namespace

std::optional<KnownWords> words_in(const fs::path& folder, std::string_view key) {
  const fs::path file = folder / kWordsName;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  return KnownWords{.lines = read_file(file), .key = std::string(key), .path = file.string()};
}

FoundWords find_words(const TrainJob& job) {
  FoundWords found;
  const RunFolder run(job.run_dir);
  const auto checkpoints = run.files().checkpoints.list();
  // As RunOpening decides. Later attempts of a launcher may also have checkpoints in memory.
  const bool is_restarted = job.launch.is_restart && run.is_of(job.launch.name);
  if (is_restarted || (!job.overwrite && !checkpoints.empty())) {
    found.words = words_in(run.path(), "run.dir");
    if (found.words && !checkpoints.empty()) require_size(job, *found.words, checkpoints.front().path);
    if (!found.words && !checkpoints.empty())
      found.note = fmt::format(
          "words are learned from data.path and not checked: the run began without {}, with which it could compare "
          "them",
          (run.path() / kWordsName).string());
    if (found.words || !checkpoints.empty()) return found;
  }
  if (job.model.init.empty()) return found;
  const fs::path folder = folder_of_weights(job.model.init);
  found.words = words_in(folder, "model.init");
  if (!found.words)
    found.note = fmt::format("words are learned from data.path and not checked: {} has no {} for these weights",
                             folder.string(), kWordsName);
  return found;
}

}  // namespace zero
