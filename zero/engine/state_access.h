// StateAccess: reads and writes an engine's states between steps, to fill, save, export or compare them.
//
//   StateAccess& states = engine.states();
//   states.load(u, whole, DType::kFloat32);                        // every unit once, before the first step
//   states.pause();                                                // then, Locally, until the next use or step:
//   states.read_shard(u, 0, [&](std::int64_t first, std::span<const std::byte> elements) { ... });
//   states.progress()                                              // steps and counters of the training so far
//
// State 0 of a unit is its parameters in full precision; the optimizer's states follow. An exception of a caller's
// function is rethrown, and the engine continues. An IoError of a disk that holds states ends the engine.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/states/factor_states.h"
#include "zero/engine/states/replicas.h"

namespace zero {

struct EngineParts;
class EngineStep;
class UpdateTimes;

class StateAccess {
 public:
  StateAccess(EngineParts& parts, UpdateTimes& update_times, EngineStep& step, FatalIo& io)
      : parts_(parts), update_times_(update_times), step_(step), io_(io) {}

  // Local. Writes first values from the unit's whole range; see StateContents::load. All ranks must pass the same
  // values.
  void load(int unit, const std::byte* whole, DType dtype);

  // Collective. Ends everything begun, as RankEngine::finish() does, and releases gathered units. Throws ConfigError
  // between a backward pass and its step(), and in a gathered() scope. `key`, `what`: the ConfigError's option, and the
  // action that it refuses ("saved or loaded").
  void pause(std::string_view key = "checkpoint", std::string_view what = "saved or loaded");
  // Local, while paused. See StateContents. Before a parameter's first update its moving average is the parameter.
  void read_shard(int unit, int state, const StateContents::ReadVisit& visit);
  void write_held(int unit, int state, const StateContents::WriteFill& fill);
  // Local. Returns "parameter", and the optimizer's states by the names of torch.optim.
  std::vector<std::string> names() const;
  // Local. Answers which states a unit has, in which types and ranges.
  const StateContents& contents() const;

  // Local. Returns the states of rows and columns, which every rank holds. While paused they may be written.
  const std::vector<FactorStates::State>& factors() const;

  // Local. The counters on which, besides the states, a later step depends.
  EngineProgress progress() const;
  void set_progress(const EngineProgress& progress);

  // Collective; between steps. Exchanges all weights with their moving averages, or with the anchors if copies of the
  // model train apart. A second call restores the weights. In between, step() and pause() are refused. Throws
  // ConfigError if neither is kept. `ends`: no more computation follows, and a backward pass without step() is dropped.
  void exchange_averages(bool ends = false);
  // Collective; between steps. Takes an outer step now, so all copies have the same weights. No-op directly after an
  // outer step. Throws ConfigError if copies do not train apart.
  void merge();
  bool averaged() const;

  // Collective. Calls `read`, which is Local, with the unit's whole range in full precision (the master, if there is
  // one). The range is valid only during that call. Applies a waiting gradient, as finish() does, which changes later
  // steps.
  void read_full_precision(int unit, const std::function<void(std::span<const float>)>& read);

  // Collective; between steps. Compares the states that several ranks hold, and changes nothing. Throws ConfigError if
  // gradients wait for a step(), or while parameters are gathered.
  ReplicaCheck compare_replicas();

 private:
  void require_between_steps(std::string_view key, std::string_view what) const;
  void give_up_what_was_begun();
  bool is_average(int state) const;
  void read_average(int unit, int state, const StateContents::ReadVisit& visit);

  EngineParts& parts_;
  UpdateTimes& update_times_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
