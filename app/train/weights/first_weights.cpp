#include "app/train/weights/first_weights.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/data/tokens/byte_pair_tokenizer.h"
#include "app/train/tasks/model_table.h"
#include "app/train/weights/model_of_weights.h"

namespace zero {
namespace {

// Returns the source of the model's number of tokens, for a message.
std::string vocabulary_of(const TrainJob& job, const Corpus& corpus) {
  if (job.model.vocab > 0) return "model.vocab is";
  if (!job.data.tokenizer.empty())
    return fmt::format("the tokenizer {} (data.tokenizer) has",
                       BytePairTokenizer::file_of(job.data.tokenizer).string());
  if (!job.data.vocab.empty()) return fmt::format("{} (data.vocab) has", job.data.vocab.string());
  if (learns_words(job.data) && job.data.known_words) return job.data.known_words->path + " has";
  if (job.data.kind == DataKind::kText) return fmt::format("{} is text, whose bytes are", job.data.path.text());
  const std::string token = corpus.largest_token();
  return token.empty() ? fmt::format("the data of {} has", job.data.path.text()) : token + ", so the data has";
}

}  // namespace

std::optional<InitialWeights> open_first_weights(const TrainJob& job, const Corpus& corpus, Task& task) {
  if (job.model.init.empty()) return std::nullopt;
  std::vector<std::string> notes = require_model_of_weights(job.model, task.published());
  std::optional<InitialWeights> weights(std::in_place, task.module(), job.model.init, job.train.seed,
                                        vocabulary_of(job, corpus), &model_row(job.model.name));
  weights->add_notes(std::move(notes));
  return weights;
}

}  // namespace zero
