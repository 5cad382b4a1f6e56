// InitialWeights, open_weights(): read and write a model's weights in safetensors files; no rank ever holds them all.
//
//   const InitialWeights weights(module, "init.safetensors");             // opened and matched; no value is read yet
//   auto engine = attach(module, world, {.weights = weights.source()});   // unit by unit
//   auto file = rank == 0 ? open_weights(engine, module, "model.safetensors") : nullptr;   // reserves its disk space
//   ...                                                                   // the run
//   std::string sha = save_weights(engine, module, std::move(file));
//
// Reading is strict: the file must have every parameter with its shape, and nothing else. The model's row
// (PublishedFiles, model_table.h) allows names without the prefix, names of old files, and tensors that are not
// weights. It also allows a tied head with the shape of the table of tokens. It also allows missing new heads, which
// begin with random values. Notes report missing heads and ignored tensors. Types are F32, F16 and BF16.
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

#include "app/train/engine/engine_of_run.h"
#include "app/train/tasks/model_table.h"

namespace zero {

// The tensor of each parameter, in the order of parameters. A head that is initialised randomly has no entry. `notes`:
// lines for the user about what the file lacks and which tensors are ignored.
struct MatchedWeights {
  std::vector<SafetensorsSet::Tensor> tensors;
  std::vector<std::string> notes;
};

// Local. Matches a file with the parameters `specs`. Throws ConfigError under "model.init" with the tensors that are
// missing, unexpected, or of another shape or type. `vocabulary`: the source of the model's number of tokens, such as
// "the tokenizer FILE has", for weights that have another number.
//
// `row`: the model's row; null: the row of kModelTable whose table of tokens is a parameter. If no row describes the
// module, names may be without the prefix, or with the old endings, of any row.
MatchedWeights match_weights(const SafetensorsSet& set, const std::vector<ParamSpec>& specs, const std::string& path,
                             const std::string& vocabulary = "", const ModelRow* row = nullptr);

// The values of a module's parameters, in one file or several (see SafetensorsSet). Local.
class InitialWeights {
 public:
  // Reads no values, and does not change `module`, which should be deferred, so it has no memory yet. `seed`: for heads
  // that are not in the file. Throws as match_weights() does.
  InitialWeights(const torch::nn::Module& module, const std::filesystem::path& path, std::uint64_t seed = 0,
                 const std::string& vocabulary = "", const ModelRow* row = nullptr);

  // Reads a parameter's values in fp32. Uses one MiB of additional memory. Throws IoError if the file has changed.
  void read(const std::string& name, std::span<float> values) const;
  // Returns read() as a source for attach(). This object must outlive the call.
  WeightSource source() const;
  // Returns lines for the user: see MatchedWeights.
  const std::vector<std::string>& notes() const { return notes_; }
  void add_notes(std::vector<std::string> notes) {
    notes_.insert(notes_.begin(), std::make_move_iterator(notes.begin()), std::make_move_iterator(notes.end()));
  }

 private:
  SafetensorsSet set_;
  std::uint64_t seed_;
  std::map<std::string, SafetensorsSet::Tensor> tensors_;  // tensor of each parameter
  std::vector<std::string> notes_;
  std::span<const std::string_view> new_heads_;
};

// Local. Loads the values of a module that is not attached, in the file's type (F16: in fp32).
void read_weights(torch::nn::Module& module, const std::filesystem::path& path);

// Local. Loads the values from a checkpoint, in fp32. Throws ConfigError under "RUN" if it is of another model.
void read_weights(torch::nn::Module& module, CheckpointReader& checkpoint);

// Local, on the rank that writes. Creates the file for the parameters and buffers of an attached module. Reserves its
// disk space, so a full disk cannot end the run at its last step. Removes files that killed runs left beside `path`; no
// other process may write there. Throws ConfigError under "run.dir" if the disk has no room. If the result is destroyed
// before save_weights(), no file is left. `what`: name of the weights for the error.
std::unique_ptr<SafetensorsWriter> open_weights(EngineOfRun engine, const torch::nn::Module& module,
                                                const std::filesystem::path& path,
                                                std::string_view what = "the weights");

// Collective. Writes the weights, with this rank's buffers, and gives the file its name. `file` is null on ranks that
// do not write. Returns, on the writing rank, the SHA-256 over all parameters in name order, in full precision. The
// values are those of the master, if there is one. Empty on the others.
std::string save_weights(EngineOfRun engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file);

// Collective. Writes the weights as save_weights() does, without the SHA-256. In a scope of engine.averaged() it writes
// the averages.
void write_weights(EngineOfRun engine, const torch::nn::Module& module, std::unique_ptr<SafetensorsWriter> file);

// The files of weights that a run writes at its end, on rank 0.
struct RunWeights {
  std::unique_ptr<SafetensorsWriter> model;
  std::unique_ptr<SafetensorsWriter> average;  // null if the run keeps no average (train.ema)
};

}  // namespace zero
