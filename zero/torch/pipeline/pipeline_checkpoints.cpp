#include "zero/torch/pipeline/pipeline_checkpoints.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/join_sections.h"

namespace zero {

PipelineCheckpoints::PipelineCheckpoints(Communicator& run, const PipelinePlan& plan, std::vector<int> homes,
                                         std::vector<std::string> names, std::vector<AttachedModule*> modules)
    : run_(run),
      num_positions_(plan.ranks),
      homes_(std::move(homes)),
      names_(std::move(names)),
      modules_(std::move(modules)) {
  std::ranges::stable_sort(homes_, {},
                           [&](int section) { return plan.rank_of_section[static_cast<std::size_t>(section)]; });
}

std::unique_ptr<PipelineSave> PipelineCheckpoints::begin_save(const std::filesystem::path& path, SaveContents contents,
                                                              SaveMode mode) {
  return std::make_unique<PipelineSave>(run_, path, homes_, [&](int section) -> std::unique_ptr<CheckpointSave> {
    AttachedModule* const module = modules_[static_cast<std::size_t>(section)];
    if (module == nullptr) return nullptr;
    SaveContents of_section{.run = contents.run, .config = contents.config, .extras = std::move(contents.extras)};
    contents.extras.clear();
    return module->checkpoints().begin_save(path_of_section(path, section), std::move(of_section), mode);
  });
}

LoadedCheckpoint PipelineCheckpoints::load(const std::filesystem::path& path) {
  const FileCalls& calls = FileCalls::kernel();
  // The ranks of a section's position save a file each.
  const std::int64_t num_files = std::ssize(homes_) * (run_.world() / num_positions_);
  std::vector<std::pair<AttachedCheckpoints*, AttachedCheckpoints::Checked>> parts;
  require_same_outcome(run_, path.string(), [&] {
    for (const int section : homes_)
      if (AttachedModule* const module = modules_[static_cast<std::size_t>(section)]) {
        AttachedCheckpoints& checkpoints = module->checkpoints_to_load();
        parts.emplace_back(&checkpoints, checkpoints.check(path, calls, {.names = names_, .num_files = num_files}));
      }
  });
  ZERO_CHECK(!parts.empty(), "this rank has no section with parameters");
  std::vector<LoadedCheckpoint> loaded;
  require_same_outcome(run_, path.string(), [&] {
    for (auto& [checkpoints, checked] : parts) checkpoints->begin_load();
    for (auto& [checkpoints, checked] : parts) loaded.push_back(checkpoints->fill(checked));
    for (auto& [checkpoints, checked] : parts) checkpoints->end_load();
  });
  return std::move(loaded.front());
}

}  // namespace zero
