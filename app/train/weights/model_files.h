// write_model_files(): writes the files that other programs read beside a run's weights.
//
//   for (const std::string& note : write_model_files(job, *task, corpus, "runs/mine", ModelFiles::kNew)) say(note);
//
// The files are config.json for transformers, and generation_config.json and the tokenizer's files of the first
// weights. classes.json has the names of the data's classes. words.txt has the words of texts without a tokenizer
// (run_words.h). They are written when the run begins, because the export of an unfinished run also needs them.
//
// The tokenizer is that of data.tokenizer, or of the folder of data.vocab = ".../vocab.txt", or of the folder of
// model.init. A config.json that describes no model is not changed; the end of the run reports it. Local, on rank 0.
// Throws IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/data/open_data.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"

namespace zero {

// kResumed: the files that the run wrote when it began are kept, and only missing files are written.
enum class ModelFiles { kNew, kResumed };

// Returns lines for the user.
std::vector<std::string> write_model_files(const TrainJob& job, const Task& task, const Corpus& corpus,
                                           const std::filesystem::path& folder, ModelFiles files);

// Removes such files of an old run, before another run begins in its folder. A config.json that describes no model
// stays. Files that the new run reads from this folder (model.init, data.tokenizer, data.vocab) also stay.
void remove_model_files(const TrainJob& job, const std::filesystem::path& folder);

// Throws ConfigError under "data.labels" unless the classes of a resumed run are those with which it began. Names that
// are not UTF-8 are compared as classes.json has them.
void require_classes_of_run(const std::filesystem::path& folder, const std::vector<std::string>& class_names);

}  // namespace zero
