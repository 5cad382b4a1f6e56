#include "zero/checkpoint/join_sections.h"

#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/image/rank_layout.h"
#include "zero/checkpoint/image/state_sums.h"
#include "zero/checkpoint/published_folder.h"
#include "zero/checkpoint/safetensors/block_file.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

// Adds the tensors and files of a section, whose files get the next numbers.
void add_section(Manifest& whole, Manifest section, const fs::path& from, const fs::path& to, const FileCalls& calls) {
  if (section.states != whole.states)
    throw IoError(from.string(), "join", 0, "its sections keep other optimizer states than each other");
  const int first_tensor = static_cast<int>(whole.tensors.size());
  for (SavedTensor& tensor : section.tensors) whole.tensors.push_back(std::move(tensor));
  for (SavedFile& file : section.files) {
    const std::string name = rank_file_name(static_cast<int>(whole.files.size()));
    const int result = calls.rename((from / file.name).string(), (to / name).string());
    if (result < 0) throw IoError((from / file.name).string(), "rename into the checkpoint", -result);
    file.name = name;
    for (SavedSlice& slice : file.slices) slice.tensor += first_tensor;
    whole.files.push_back(std::move(file));
  }
}

void write_manifest(const Manifest& manifest, const fs::path& folder, const FileCalls& calls) {
  const std::string text = to_text(manifest);
  BlockFileWriter writer((folder / kManifestName).string(), std::ssize(text), calls);
  writer.append(std::as_bytes(std::span(text)));
  writer.finish();
}

}  // namespace

fs::path path_of_section(const fs::path& path, int section) {
  const fs::path whole = path.has_filename() ? path : path.parent_path();
  return whole.string() + fmt::format(".section-{}.tmp", section);
}

void join_sections(const fs::path& path, const std::vector<int>& sections, const FileCalls& calls) {
  PublishedFolder folder(path, calls);
  folder.make(is_part_of_checkpoint);
  try {
    Manifest whole;
    StateSums sums;
    for (const int section : sections) {
      const fs::path from = path_of_section(path, section);
      Manifest part = parse_manifest(read_file(from / kManifestName), from.string());
      if (const auto of_part = part.run.find(kStateSumsKey); of_part != part.run.end())
        sums.merge(StateSums::of_text(of_part->second).value_or(StateSums()));
      if (section == sections.front()) {
        whole = part;
        whole.tensors.clear();
        whole.files.clear();
      }
      add_section(whole, std::move(part), from, folder.temporary(), calls);
    }
    if (!sums.of_states().empty()) whole.run[kStateSumsKey] = to_text(sums);
    write_manifest(whole, folder.temporary(), calls);
    folder.publish();
  } catch (const IoError&) {
    folder.remove();
    throw;
  }
  remove_sections(path, sections, calls);
}

void remove_sections(const fs::path& path, const std::vector<int>& sections, const FileCalls& calls) {
  for (const int section : sections) {
    const fs::path folder = path_of_section(path, section);
    remove_checkpoint(folder, calls);
    remove_checkpoint(folder.string() + ".tmp", calls);
  }
}

}  // namespace zero
