// write_model_files(): the files that other programs read beside a run's weights. They are written when the run begins,
// because the export of an unfinished run needs them also: config.json for transformers, generation_config.json and the tokenizer's files of the first
// weights, and classes.json with the names of the data's classes.
//
//   for (const std::string& note : write_model_files(job, *task, corpus, "runs/mine", ModelFiles::kNew)) say(note);
//
// The tokenizer is that of data.tokenizer, or the folder of data.vocab = ".../vocab.txt", or that beside model.init.
// A config.json that describes no model stays as it is; the end of the run says so. Local, on rank 0; throws IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/data/open_data.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"

namespace zero {

// kResumed: the files that the run wrote when it began count, and only missing ones are written.
enum class ModelFiles { kNew, kResumed };

// Returns lines for the user.
std::vector<std::string> write_model_files(const TrainJob& job, const Task& task, const Corpus& corpus,
                                           const std::filesystem::path& folder, ModelFiles files);

// The classes of a resumed run are those that it began with. Throws ConfigError under "data.labels".
void require_classes_of_run(const std::filesystem::path& folder, const std::vector<std::string>& class_names);

}  // namespace zero
