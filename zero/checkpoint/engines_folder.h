// EnginesFolder: a checkpoint of several engines: a folder that holds an ordinary checkpoint of each, all of one save.
//
//   PATH/engines.json   PATH/engine-0/   PATH/engine-1/ ...
//
//   EnginesFolder folder("runs/gan/checkpoint", calls);
//   folder.make();                                // rank 0: PATH.tmp
//   ... each engine is saved at folder.part(i)
//   folder.publish(2);                            // rank 0: engines.json, then all take the name at one moment
//
//   const std::vector<std::string> sums = read_engines("runs/gan/checkpoint", calls);   // a sum of each manifest
//   require_saved_with(sums, 1, manifest, path)   // the manifest at engine-1 is that of the same save
//
// docs/checkpoint_format.md has the format. Local. Throws IoError: error_number() 0 for a damaged one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/published_folder.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

inline constexpr std::string_view kEnginesName = "engines.json";

class EnginesFolder {
 public:
  explicit EnginesFolder(std::filesystem::path path, const FileCalls& calls = FileCalls::kernel());

  const std::filesystem::path& path() const { return folder_.path(); }
  // The path of engine `index`, before publish().
  std::filesystem::path part(int index) const;
  // Throws if the path is taken by something else than a checkpoint of several engines.
  void make() const;
  void publish(int num_engines);
  // Removes an unfinished one.
  void remove() const { folder_.remove(); }

 private:
  PublishedFolder folder_;
  const FileCalls& calls_;
};

// "PATH/engine-1"
std::filesystem::path part_of_engines(const std::filesystem::path& path, int index);
// A folder that is named as one of an engine, finished or not.
bool is_folder_of_engine(const std::filesystem::path& path);

// The sums of the manifests, by engine.
std::vector<std::string> read_engines(const std::filesystem::path& path, const FileCalls& calls = FileCalls::kernel());
void require_saved_with(const std::vector<std::string>& sums, int index, const Manifest& manifest,
                        const std::filesystem::path& path);

}  // namespace zero
