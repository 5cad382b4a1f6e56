#include "app/train/train_job.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/train/tasks/model_kind.h"

namespace zero {
namespace {

// keep_best and patience compare evaluations: they need data for evaluations, and classes for an accuracy.
void require_watchable(const TrainJob& job, const Corpus& corpus) {
  const auto measure = watched_measure(job);
  if (!measure) return;
  const bool keeps = job.checkpoint.keep_best.has_value();
  const std::string key = keeps ? "checkpoint.keep_best" : "train.patience";
  const std::string value = keeps ? std::string(name_of(*measure)) : fmt::format("{}", job.train.patience);
  if (!corpus.validation)
    throw ConfigError(key, value, "it compares evaluations, and no data is held out for evaluations",
                      fmt::format("set data.validation, or {} {}", key, keeps ? "none" : "0"));
  const SampleShape shape = corpus.shape();
  const bool has_classes = shape.classes > 0 && (shape.context == 0 || shape.vocab > 0);
  if (*measure == BestMeasure::kAccuracy && !has_classes)
    throw ConfigError(
        key, value, fmt::format("a {} has no classes on this data, so it has no accuracy", job.model.name), "use loss");
}

}  // namespace

DataOptions with_context(const TrainJob& job) {
  DataOptions data = job.data;
  data.context = sample_context(job.model, data.context);
  return data;
}

// Checks that tokens and labels fit the configured model. An error names the place of the first that does not fit.
Corpus open_corpus(const TrainJob& job) {
  Corpus corpus = open_data(with_context(job));
  const SampleShape shape = corpus.shape();
  const ModelRow& row = model_row(job.model.name);
  const auto require = [&](std::string_view key, std::int64_t classes) {
    if (row.takes(key) && classes > 0 && classes < shape.classes) corpus.require_classes(classes, key);
  };
  if (shape.context > 0 && shape.vocab == 0) require("model.vocab", job.model.vocab);
  if (const std::string token = corpus.largest_token(); !token.empty() && job.model.vocab == 0 && corpus.vocab == 0)
    corpus.notes.push_back(
        fmt::format("vocabulary: {} tokens, as {}; model.vocab sets another number", shape.classes, token));
  if (shape.context == 0 && !job.model.sizes.empty()) require("model.sizes", job.model.sizes.back());
  require_watchable(job, corpus);
  return corpus;
}

}  // namespace zero
