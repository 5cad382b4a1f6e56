// find_words(): the words of texts that a run does not learn, because the weights that it begins with belong to them.
//
//   FoundWords found = find_words(job);           // of runs/a/words.txt, if the run in runs/a continues
//   job.data.known_words = std::move(found.words);
//
// A run whose texts have no tokenizer learns words from data.path and numbers them by frequency. It writes them to
// words.txt in its folder (model_files.h); `zero export` copies the file. Other data would give other numbers, and the
// weights of a word would be those of another word. So the file is used instead of learning by a run that continues,
// and by a run with model.init beside the file.
//
// Local.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "app/data/open_data.h"
#include "app/train/train_job.h"

namespace zero {

struct FoundWords {
  std::optional<KnownWords> words;  // empty: they are learned
  std::string note;                 // a line for the user, if weights belong to words that are not known
};

// Returns the words in a run's folder, or in an export. Empty: no file has them. Throws IoError if it cannot be read.
std::optional<KnownWords> words_in(const std::filesystem::path& folder, std::string_view key);

// For a job with learns_words(). Throws ConfigError under "run.dir" if the run has another number of words than its
// newest checkpoint. (For model.init, open_first_weights() throws.) Throws IoError.
FoundWords find_words(const TrainJob& job);

}  // namespace zero
