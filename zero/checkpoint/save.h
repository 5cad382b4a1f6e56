// CheckpointSave: one checkpoint while it is being written to disk.
//
//   ImageMemory memory(engine.resources());            // copies of the states, for one save after another
//   CheckpointSave save(engine, "runs/x/checkpoints/step-00000500", contents, SaveMode::kAsync, calls, &memory);
//   // ... train ...
//   if (save.poll()) ...                   // now and then: true after the checkpoint is published
//   save.wait();                           // or waits for it
//
// Every rank writes its shard of every state into the folder PATH.tmp, past the page cache, and syncs it. Then rank 0
// adds the manifest, syncs file and folder, and renames the folder to PATH, or exchanges it with an older checkpoint
// there. So a reader always finds the old checkpoint, the new one or none. All ranks wait for the slowest writer,
// however long it takes. They ask each other repeatedly, so a rank that is gone or silent is found as in any
// collective. Collective, except the destructor. Throws IoError on every rank if one failed, or if PATH is taken by
// something that is no checkpoint. Then PATH is unchanged, and PATH.tmp is removed.
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "zero/base/process/fork_mark.h"
#include "zero/checkpoint/image/image_memory.h"
#include "zero/checkpoint/image/rank_image.h"
#include "zero/checkpoint/published_folder.h"
#include "zero/checkpoint/running_save.h"
#include "zero/engine/rank_engine.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

class CheckpointSave final : public RunningSave {
 public:
  // With kAsync, if every machine has memory for copies of all its ranks, copies the states first, and a thread writes
  // the copies. Otherwise every rank has written its states before the constructor returns. `memory`: for the copies;
  // it outlives the save, and the next save uses it again. Null: memory of this save. With kSync, `memory` keeps
  // nothing.
  CheckpointSave(RankEngine& engine, std::filesystem::path path, SaveContents contents, SaveMode mode,
                 const FileCalls& calls = FileCalls::kernel(), ImageMemory* memory = nullptr);
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;
  // Local. Ends a save that is not published. PATH.tmp remains, and the next save removes it. Does nothing in a process
  // that was forked since.
  ~CheckpointSave() override;

  bool poll() override;
  void wait() override;

  // Local.
  const std::filesystem::path& path() const { return folder_.path(); }
  bool copied() const override { return copied_; }
  std::int64_t size_bytes() const override { return rank_.size_bytes(); }
  double stalled_seconds() const override { return stalled_; }
  double seconds() const override { return seconds_; }

 private:
  void write();
  bool all_have_ended();
  void wait_until_written();
  void give_up();
  void give_image_back();
  void commit();
  void publish(const std::string& text);

  Communicator& comm_;
  Ledger& ledger_;
  PublishedFolder folder_;
  const FileCalls& calls_;
  bool copied_ = false;
  bool committed_ = false;
  std::exception_ptr failed_;
  double begin_ = 0, stalled_ = 0, seconds_ = 0;
  RankImage rank_;
  std::unique_ptr<ImageMemory> own_memory_;
  ImageMemory* memory_;
  std::span<std::byte> image_;
  BlockSums content_;
  StateSums sums_;       // of this rank's file
  std::string failure_;  // of this rank's writing; read after ended_
  std::atomic<bool> ended_{false};
  std::atomic<bool> given_up_{false};  // true: nobody will publish it
  std::thread thread_;
  ForkMark made_here_;
};

}  // namespace zero
