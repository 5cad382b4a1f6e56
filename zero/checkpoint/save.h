// CheckpointSave: one checkpoint on its way to the disk.
//
//   StagingMemory memory(engine.resources());            // what one save after another copies into
//   CheckpointSave save(engine, "runs/x/checkpoints/step-00000500", contents, SaveMode::kAsync, calls, &memory);
//   ... train on ...
//   if (save.poll()) ...                   // now and then: true when the checkpoint is there
//   save.wait();                           // or so
//
// Every rank writes its shard of every state into a folder beside the path (PATH.tmp), past the page cache, and syncs
// it; when all have, rank 0 adds the manifest, syncs file and folder, and one rename makes the checkpoint true, or
// changes places with one that had the path. So at any instant a reader finds the old checkpoint, the new one or none.
// Asynchronously the states are copied first, where the machine has memory for copies of all its ranks, and written by
// a thread; else every rank has written them before the constructor returns. However long one rank writes, the others
// wait for it: the ranks keep asking each other, so a rank that is gone or silent is found as in any collective. The
// next save copies into the same memory.
//
// Collective, except for destruction, which ends a save that is not published and leaves PATH.tmp for the next save to
// remove. Throws IoError, on every rank, where one failed, or where the path is taken by something that is no
// checkpoint: the path is as it was, and PATH.tmp is gone. (A file system that cannot exchange names, such as NFS, has
// an instant without either when a path is used again; the old one is then at PATH.old.tmp.)
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "zero/checkpoint/published_folder.h"
#include "zero/checkpoint/rank_image.h"
#include "zero/checkpoint/staging_memory.h"
#include "zero/engine/engine.h"
#include "zero/memory/file_calls.h"

namespace zero {

enum class SaveMode : std::uint8_t { kAsync, kSync };

class CheckpointSave {
 public:
  // `memory` outlives it; none: its own, which goes when the save is over. Where kSync is asked for, it keeps nothing.
  CheckpointSave(Engine& engine, std::filesystem::path path, SaveContents contents, SaveMode mode,
                 const FileCalls& calls = FileCalls::kernel(), StagingMemory* memory = nullptr);
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;
  ~CheckpointSave();

  bool poll();
  void wait();

  // Local.
  const std::filesystem::path& path() const { return folder_.path(); }
  bool copied() const { return copied_; }                         // training goes on meanwhile
  std::int64_t size_bytes() const { return rank_.size_bytes(); }  // this rank's
  double stalled_seconds() const { return stalled_; }             // that the constructor took
  double seconds() const { return seconds_; }                     // until the checkpoint was there

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
  std::unique_ptr<StagingMemory> own_memory_;
  StagingMemory* memory_;
  std::span<std::byte> image_;
  BlockSums content_;
  std::string failure_;  // of this rank's writing; read when ended_
  std::atomic<bool> ended_{false};
  std::atomic<bool> given_up_{false};  // nobody will publish it
  std::thread thread_;
};

}  // namespace zero
