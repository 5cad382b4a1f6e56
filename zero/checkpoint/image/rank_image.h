// RankImage: one rank's part of a checkpoint: the bytes of its file in order, and its part of the manifest.
//
//   engine.states().pause();
//   const RankImage image(engine, {.run = {{"step", "40"}}});
//   image.stream([&](std::span<const std::byte> bytes) { writer.append(bytes); });     // image.size_bytes() in all
//   Manifest manifest = image.manifest_with(all_gather_text(comm, image.file_text(sums)), path);
//
// The engine outlives it, and must not be used between the constructor and stream(). Local, except where noted.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "zero/checkpoint/image/rank_layout.h"
#include "zero/checkpoint/image/saved_states.h"
#include "zero/checkpoint/image/state_sums.h"
#include "zero/engine/rank_engine.h"

namespace zero {

// Contents of a checkpoint beside the states.
struct SaveContents {
  std::map<std::string, std::string> run;  // rank 0's are saved
  std::string config;                      // rank 0's is saved
  std::vector<Extra> extras;               // this rank's own; the image adds factor_extras()
};

class RankImage {
 public:
  // Throws ConfigError for a name that cannot be stored.
  RankImage(RankEngine& engine, SaveContents contents);

  std::int64_t size_bytes() const { return layout_.size_bytes; }
  std::string file_name() const { return rank_file_name(engine_.resources().comm.rank()); }
  // Passes all bytes to `sink` in order. Throws the errors of `sink`, and IoError of a disk tier that holds states.
  void stream(const std::function<void(std::span<const std::byte>)>& sink) const;

  // Copies the same bytes into `memory`, which has size_bytes(), with as many threads as the engine's updates.
  void copy_to(std::span<std::byte> memory) const;

  // Sums the states in the bytes that stream() passes. Refers to the image.
  SumsOfFile sums_of_file() const { return {manifest_, layout_.slices}; }

  // Return this rank's entry of the manifest, for sending, and the manifest with the entries of all ranks. `sums`: of
  // the states in all files.
  std::string file_text(const BlockSums& content) const;
  Manifest manifest_with(const std::vector<std::string>& file_texts, const std::string& path,
                         const StateSums& sums = {}) const;

 private:
  RankEngine& engine_;
  SaveContents contents_;
  SavedStates states_;
  Manifest manifest_;  // without files
  RankLayout layout_;
};

}  // namespace zero
