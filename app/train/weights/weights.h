// InitialWeights, open_weights(): a model's weights from and to safetensors files, so that no rank ever holds them all.
//
//   const InitialWeights weights(module, "init.safetensors");             // opened and matched; no value is read yet
//   auto engine = attach(module, world, {.weights = weights.source()});   // unit by unit
//   auto file = rank == 0 ? open_weights(engine, module, "model.safetensors") : nullptr;   // has its room on the disk
//   ...                                                                   // the run
//   std::string sha = save_weights(engine, module, std::move(file));
//
// Reading is strict: every parameter must be there with its shape, and nothing else. Allowed besides is what published
// files of the model have, as its row says (PublishedFiles, model_table.h): names without the prefix, names of old files, a
// tied head that has the shape of the table of tokens, and tensors that are no weights. They may lack a head that the row
// calls new, which then begins with random values. Notes for the user tell both. Types are F32, F16 and BF16.
#pragma once

#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/safetensors/safetensors_writer.h"
#include "zero/checkpoint/safetensors_set.h"
#include "zero/plan/units/param_spec.h"
#include "zero/torch/attach.h"

#include "app/train/tasks/model_table.h"

namespace zero {

// Which tensor is which parameter's: one for each parameter, in their order; without an entry for a head that is to be
// drawn. `notes`: lines for the user about what a file lacks and what of it is passed over.
struct MatchedWeights {
  std::vector<SafetensorsSet::Tensor> tensors;
  std::vector<std::string> notes;
};

// For the parameters `specs`. Local. Throws ConfigError under "model.init" that names what is missing, too much, or of
// another shape or type. `vocabulary`: what says how many tokens the model has, such as "the tokenizer FILE has", for
// weights that have another number of them.
// `row`: the model's; null: the row of kModelTable whose table of tokens is a parameter. The file of a module that no row
// describes may have its names without the prefix, or with the old endings, of any row.
MatchedWeights match_weights(const SafetensorsSet& set, const std::vector<ParamSpec>& specs, const std::string& path,
                             const std::string& vocabulary = "", const ModelRow* row = nullptr);

// The values of a module's parameters, in one file or several: see SafetensorsSet. Local.
class InitialWeights {
 public:
  // Throws as match_weights() does. `module` is looked at alone: best a deferred one, which has no memory yet.
  // `seed`: of a head that is not in the file.
  InitialWeights(const torch::nn::Module& module, const std::filesystem::path& path, std::uint64_t seed = 0,
                 const std::string& vocabulary = "", const ModelRow* row = nullptr);

  // A parameter's values in fp32; a MiB besides. IoError where the file is not what it was.
  void read(const std::string& name, std::span<float> values) const;
  // The same for attach(); this must outlive the call.
  WeightSource source() const;
  // Lines for the user: MatchedWeights.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_notes(std::vector<std::string> notes) {
    notes_.insert(notes_.begin(), std::make_move_iterator(notes.begin()), std::make_move_iterator(notes.end()));
  }

 private:
  SafetensorsSet set_;
  std::uint64_t seed_;
  std::map<std::string, SafetensorsSet::Tensor> tensors_;  // by parameter
  std::vector<std::string> notes_;
  std::span<const std::string_view> new_heads_;
};

// Local. Gives each parameter of a module that is not to be attached its values, in the file's type (F16: in fp32).
void read_weights(torch::nn::Module& module, const std::filesystem::path& path);

// The same from a checkpoint, in fp32. ConfigError under "RUN" where it is of another model.
void read_weights(torch::nn::Module& module, CheckpointReader& checkpoint);

// Local, on the rank that is to write them: the file for the parameters of an attached module and its buffers, with
// their room on the disk taken, so that a run cannot end on a full one. What killed runs left beside `path` goes:
// nobody else may write it. Throws ConfigError under "run.dir" where there is no room. Destroyed before save_weights(),
// it leaves nothing. `what`: for the error.
std::unique_ptr<SafetensorsWriter> open_weights(const Attachment& engine, const torch::nn::Module& module,
                                                const std::filesystem::path& path,
                                                std::string_view what = "the weights");

// Collective. Writes them, buffers as this rank has them, and gives the file its name; `file` is null on the ranks that
// do not write. Returns the SHA-256 over all parameters in name order, in the full precision held (the master where
// there is one), on that rank; empty on the others.
std::string save_weights(Attachment& engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file);

// The same without the sum; in a scope of engine.averaged() the averages.
void write_weights(Attachment& engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file);

// The files that a run ends with, on rank 0.
struct RunWeights {
  std::unique_ptr<SafetensorsWriter> model;
  std::unique_ptr<SafetensorsWriter> average;  // null where the run keeps none (train.ema)
};

}  // namespace zero
