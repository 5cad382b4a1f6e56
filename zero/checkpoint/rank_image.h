// RankImage: one rank's part of a checkpoint, on disk or in memory: its part of the manifest, and the bytes of its
// file in order.
//
//   engine.states().pause();
//   const RankImage image(engine, {.run = {{"step", "40"}}});
//   image.stream([&](std::span<const std::byte> bytes) { writer.append(bytes); });     // image.size_bytes() in all
//   Manifest manifest = image.manifest_with(all_gather_text(comm, image.file_text(sums)), path);
//
// The engine outlives it, and is not used between the constructor and stream(). Local, unless said otherwise.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "zero/checkpoint/rank_layout.h"
#include "zero/checkpoint/saved_states.h"
#include "zero/engine/engine.h"

namespace zero {

// What goes with the states.
struct SaveContents {
  std::map<std::string, std::string> run;  // rank 0's counts
  std::string config;                      // rank 0's counts
  std::vector<Extra> extras;               // this rank's own; the image adds factor_extras()
};

class RankImage {
 public:
  // Throws ConfigError for a name that cannot be stored.
  RankImage(Engine& engine, SaveContents contents);

  std::int64_t size_bytes() const { return layout_.size_bytes; }
  std::string file_name() const { return rank_file_name(engine_.resources().comm.rank()); }
  // Throws what `sink` throws, and IoError of a disk where states lie.
  void stream(const std::function<void(std::span<const std::byte>)>& sink) const;

  // The same, into `memory`, of size_bytes(), by as many threads as the engine updates with.
  void copy_to(std::span<std::byte> memory) const;

  // This rank's entry in the manifest, for sending; and the manifest with every rank's.
  std::string file_text(const BlockSums& content) const;
  Manifest manifest_with(const std::vector<std::string>& file_texts, const std::string& path) const;

 private:
  Engine& engine_;
  SaveContents contents_;
  SavedStates states_;
  Manifest manifest_;  // without files
  RankLayout layout_;
};

}  // namespace zero
