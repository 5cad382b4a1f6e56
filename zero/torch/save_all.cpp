#include "zero/torch/save_all.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/engines_folder.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/torch/attached_module.h"

namespace zero {

// The engines of one checkpoint, in their order in it.
class EngineSet {
 public:
  EngineSet(std::string_view call, const std::vector<Engine*>& engines) {
    const auto refuse = [call](std::size_t index, std::string_view reason, std::string_view remedy) {
      throw ConfigError(call, fmt::format("engine {}", index), reason, remedy);
    };
    if (engines.empty()) throw ConfigError(call, "no engine", "there is nothing to save or load", "give all engines");
    for (std::size_t index = 0; index < engines.size(); ++index) {
      if (engines[index] == nullptr) refuse(index, "it is null", "give the address of each engine");
      AttachedModule& attached = engines[index]->attached();
      if (std::ranges::find(attached_, &attached) != attached_.end())
        refuse(index, "it was given twice", "give each engine once");
      if (&attached.world() != &engines.front()->attached().world())
        refuse(index, "it was attached in another world than engine 0", "save the engines of each world separately");
      attached.role().refuse_joint_checkpoint(call, fmt::format("engine {}", index));
      attached_.push_back(&attached);
    }
  }

  const std::vector<AttachedModule*>& engines() const { return attached_; }
  Communicator& comm() const { return attached_.front()->engine().resources().comm; }
  int size() const { return static_cast<int>(attached_.size()); }

 private:
  std::vector<AttachedModule*> attached_;
};

namespace {

void require_engines(const std::filesystem::path& path, std::size_t saved, int wanted) {
  if (saved == static_cast<std::size_t>(wanted)) return;
  throw ConfigError("load_all", path.string(),
                    fmt::format("the checkpoint has {} engines, and {} were given", saved, wanted),
                    "give the engines that were saved, in the same order");
}

}  // namespace

void save_all(const std::filesystem::path& path, const std::vector<Engine*>& engines) {
  const EngineSet set("save_all", engines);
  for (AttachedModule* engine : set.engines()) {  // for all engines, before a file is written
    engine->checkpoints();
    engine->engine().states().pause();
  }
  Communicator& comm = set.comm();
  EnginesFolder folder(path);
  const auto on_rank_0 = [&](const std::function<void()>& body) {
    require_same_outcome(comm, folder.path().string(), failure_of([&] {
                           if (comm.rank() == 0) body();
                         }));
  };
  on_rank_0([&] { folder.make(); });
  try {
    for (int index = 0; index < set.size(); ++index)
      set.engines()[static_cast<std::size_t>(index)]
          ->checkpoints()
          .begin_save(folder.part(index), {}, SaveMode::kSync)
          ->wait();
    on_rank_0([&] { folder.publish(set.size()); });
  } catch (const IoError&) {
    const std::string left = failure_of([&] {
      if (comm.rank() == 0) folder.remove();
    });  // only the first error is reported; the next save removes the remaining files
    throw;
  }
}

std::vector<LoadedCheckpoint> load_all(const std::filesystem::path& path, const std::vector<Engine*>& engines) {
  const EngineSet set("load_all", engines);
  const FileCalls& calls = FileCalls::kernel();
  std::vector<std::string> sums;
  require_same_outcome(set.comm(), path.string(), [&] {
    sums = read_engines(path, calls);
    require_engines(path, sums.size(), set.size());
  });
  std::vector<std::pair<AttachedCheckpoints*, AttachedCheckpoints::Checked>> parts;
  for (int index = 0; index < set.size(); ++index) {
    AttachedCheckpoints& checkpoints = set.engines()[static_cast<std::size_t>(index)]->checkpoints_to_load();
    parts.emplace_back(&checkpoints, checkpoints.check(part_of_engines(path, index), calls));
  }
  require_same_outcome(set.comm(), path.string(), [&] {
    for (int index = 0; index < set.size(); ++index)
      require_saved_with(sums, index, parts[static_cast<std::size_t>(index)].second.load->reader().manifest(), path);
  });
  for (auto& [checkpoints, checked] : parts) checkpoints->begin_load();
  std::vector<LoadedCheckpoint> loaded;
  for (auto& [checkpoints, checked] : parts) loaded.push_back(checkpoints->fill(checked));
  for (auto& [checkpoints, checked] : parts) checkpoints->end_load();
  return loaded;
}

}  // namespace zero
