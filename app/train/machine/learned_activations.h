// LearnedActivations: the bytes of a GPU that libtorch was found to take while a model trained. The next run of such a model
// leaves its states that much less, in place of a fifth of the GPU (zero.device_memory = "auto").
//
//   LearnedActivations learned(activation_work(model, shape, batch, dtype, "NVIDIA H200"));
//   seams.beside_on_device = learned.bytes();     // 0: not known
//   learned.took(held_by_torch(place));           // a step was done with so much
//   learned.lacked({.torch = torch, .asked = asked, .held = held});      // none was: the device was full
//
// A file in the user's cache folder (${XDG_CACHE_HOME:-~/.cache}/zero.cpp/activations.json), one entry for each work. A
// file that is not there, or not to be read, holds nothing; one that cannot be written is a warning. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "zero/base/numbers/dtype.h"

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"

namespace zero {

// Of runs whose operators take the same: the version of libtorch, the kind of GPU, the model and its samples, `batch` of them a
// rank and micro-batch.
std::string activation_work(const ModelOptions& model, const SampleShape& shape, std::int64_t batch, DType dtype,
                            std::string_view gpu);

class LearnedActivations {
 public:
  explicit LearnedActivations(std::string work) : LearnedActivations(std::move(work), default_path()) {}
  LearnedActivations(std::string work, std::filesystem::path path);
  static std::filesystem::path default_path();

  // Bytes a rank; 0: not known.
  std::int64_t bytes() const { return bytes_; }
  // Steps were done: replaces what was known before this run, and then what is less.
  void took(std::int64_t torch_bytes);
  // The next run leaves half as much again, or as much as was asked for where that is more; at most what the device had for
  // both. False: that is no more than this run left.
  struct Full {
    std::int64_t torch = 0;  // bytes that libtorch had taken
    std::int64_t asked = 0;  // for which there was no room beside
    std::int64_t held = 0;   // by zero.cpp
  };
  bool lacked(const Full& full);

 private:
  void keep(std::int64_t bytes);

  std::string work_;
  std::filesystem::path path_;
  std::int64_t bytes_ = 0;
  std::int64_t most_ = 0;  // that steps of this run took
};

}  // namespace zero
