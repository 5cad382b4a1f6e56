// RunningSave: a checkpoint that is being written to disk, by one engine (CheckpointSave) or a pipeline (PipelineSave).
//
//   std::unique_ptr<RunningSave> save = control.begin_save(path, contents, SaveMode::kAsync);
//   // ... train ...
//   if (save->poll()) ...                  // now and then: true after the checkpoint is published
//   save->wait();                          // or waits for it
//
// Collective, except the destructor. Throws IoError on every rank if one failed. Then the path is unchanged.
#pragma once

#include <cstdint>

namespace zero {

enum class SaveMode : std::uint8_t { kAsync, kSync };

class RunningSave {
 public:
  // Local. Ends a save that is not published.
  virtual ~RunningSave() = default;

  virtual bool poll() = 0;
  virtual void wait() = 0;

  // Local.
  virtual bool copied() const = 0;              // true: training continues meanwhile
  virtual std::int64_t size_bytes() const = 0;  // of this rank
  virtual double stalled_seconds() const = 0;   // seconds that training waited when the save began
  virtual double seconds() const = 0;           // seconds until the checkpoint was published
};

}  // namespace zero
