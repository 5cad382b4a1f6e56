// join_sections(): makes one checkpoint of the checkpoints of a model's sections, each with tensors of its own.
//
//   PATH.section-0.tmp/   PATH.section-1.tmp/        // ordinary checkpoints, see path_of_section()
//
//   join_sections("runs/x/checkpoints/step-00000500", {1, 0});        // files of section 1 first
//
// The files of the sections are renamed, not copied, so all folders must be on one disk. PATH appears at one moment, as
// any checkpoint does, and the folders of the sections are removed. Progress, configuration and entries of the run are
// those of the first section. An engine of the whole model, or of other sections, can load PATH. Local; one rank does
// it. Throws IoError, and leaves PATH as it was.
#pragma once

#include <filesystem>
#include <vector>

#include "zero/memory/io/file_calls.h"

namespace zero {

// "PATH.section-3.tmp": CheckpointFolder does not list it, and removes it with the remains of unfinished saves.
std::filesystem::path path_of_section(const std::filesystem::path& path, int section);

void join_sections(const std::filesystem::path& path, const std::vector<int>& sections,
                   const FileCalls& calls = FileCalls::kernel());

// Removes the folders of sections of a save that failed.
void remove_sections(const std::filesystem::path& path, const std::vector<int>& sections,
                     const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
