// PipelineSave: one checkpoint of all sections of a model while it is being written to disk.
//
//   const auto save = checkpoints.begin_save("runs/x/checkpoints/step-00000500", contents, SaveMode::kAsync);
//   // ... train ...
//   if (save->poll()) ...                  // now and then: true after the checkpoint is published
//   save->wait();                          // or waits for it
//
// Each section is saved as a CheckpointSave, into a folder of its own. When all are written, rank 0 joins the folders
// (zero/checkpoint/join_sections.h). Collective over the run, except the destructor, as CheckpointSave. Throws IoError
// on every rank if one failed. Then the path is unchanged, and the folders of sections are removed. A save that is
// given up leaves its folders until the next save to this path. The constructor throws ConfigError between a backward
// pass and its step().
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zero/checkpoint/running_save.h"
#include "zero/checkpoint/save.h"

namespace zero {

class PipelineSave final : public RunningSave {
 public:
  // `sections`: those with parameters, in the order of their files. `begin`: begins the save of a section; returns null
  // if another rank has it.
  using Begin = std::function<std::unique_ptr<CheckpointSave>(int section)>;
  PipelineSave(Communicator& run, std::filesystem::path path, std::vector<int> sections, const Begin& begin);

  bool poll() override;
  void wait() override;

  // Local.
  bool copied() const override { return copied_; }
  std::int64_t size_bytes() const override;
  double stalled_seconds() const override { return stalled_; }
  double seconds() const override { return seconds_; }

 private:
  void publish();

  Communicator& run_;
  const std::filesystem::path path_;
  const std::vector<int> sections_;
  const double begin_;
  std::vector<std::unique_ptr<CheckpointSave>> parts_;
  std::string failure_;  // of this rank's sections
  std::exception_ptr failed_;
  bool copied_ = false;
  bool published_ = false;
  double stalled_ = 0, seconds_ = 0;
};

}  // namespace zero
