// LearnedActivations: the GPU memory that libtorch took while a model trained, kept for the next run of the model.
//
//   LearnedActivations learned(activation_work(model, shape, batch, dtype, "NVIDIA H200"));
//   host.beside_on_device = learned.bytes();     // 0: not known
//   learned.took(held_by_torch(place));           // a step succeeded with so many bytes
//   learned.lacked({.torch = torch, .asked = asked, .held = held});      // a step failed: the device was full
//
// The next run leaves that many bytes to libtorch instead of a fifth of the GPU (zero.device_memory = "auto"). They are
// stored in a file of the user's cache folder (${XDG_CACHE_HOME:-~/.cache}/zero.cpp/activations.json), with one entry
// for each work. A missing or unreadable file holds nothing; a file that cannot be written is a warning. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "zero/base/numbers/dtype.h"

#include "app/data/sample/dataset.h"
#include "app/train/tasks/model_options.h"

namespace zero {

// Returns a name for all runs whose operators take the same memory. It has the version of libtorch, the kind of GPU,
// the model and its samples. `batch`: samples of a rank and micro-batch.
std::string activation_work(const ModelOptions& model, const SampleShape& shape, std::int64_t batch, DType dtype,
                            std::string_view gpu);

class LearnedActivations {
 public:
  explicit LearnedActivations(std::string work) : LearnedActivations(std::move(work), default_path()) {}
  LearnedActivations(std::string work, std::filesystem::path path);
  static std::filesystem::path default_path();

  // Returns the bytes of a rank; 0: not known.
  std::int64_t bytes() const { return bytes_; }
  // Records the bytes after a successful step. The first value replaces that of earlier runs; later values replace it
  // if they are larger.
  void took(std::int64_t torch_bytes);
  // Records that the device was full. The next run leaves 1.5 times the bytes that libtorch took or this run left. If
  // that is less than libtorch's bytes and the failed allocation together, it leaves this sum. The limit is torch +
  // held. Returns false if that is no more than this run left.
  struct Full {
    std::int64_t torch = 0;  // bytes held by libtorch
    std::int64_t asked = 0;  // bytes of the allocation that failed
    std::int64_t held = 0;   // bytes held by zero.cpp
  };
  bool lacked(const Full& full);

 private:
  void keep(std::int64_t bytes);

  std::string work_;
  std::filesystem::path path_;
  std::int64_t bytes_ = 0;
  std::int64_t most_ = 0;  // peak of this run's steps
};

}  // namespace zero
