// StateAccess: an engine's states between steps, for whoever fills, saves, exports or compares them.
//
//   StateAccess& states = engine.states();
//   states.load(u, whole, DType::kFloat32);                        // every unit once, before the first step
//   states.pause();                                                // then, Locally, until the next use or step:
//   states.read_shard(u, 0, [&](std::int64_t first, std::span<const std::byte> elements) { ... });
//   states.progress()                                              // how far training has come
//
// State 0 of a unit: its parameters in full precision; then what the optimizer keeps. What a caller's function throws
// comes back, and the engine goes on; an IoError of a disk where states lie ends it, as everywhere.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/engine_step.h"
#include "zero/engine/states/replicas.h"

namespace zero {

class StateAccess {
 public:
  StateAccess(EngineParts& parts, StepUpdate& update, EngineStep& step, FatalIo& io)
      : parts_(parts), update_(update), step_(step), io_(io) {}

  // Local. First contents, from the unit's whole range; see StateContents::load. The ranks must be given the same.
  void load(int unit, const std::byte* whole, DType dtype);

  // Collective: ends everything that was begun, as Engine::finish() does, and gives up gathered units. Throws
  // ConfigError between a backward pass and its step(), and in a gathered() scope.
  // `key`, `what`: the ConfigError's option, and the action that it refuses ("saved or loaded").
  void pause(std::string_view key = "checkpoint", std::string_view what = "saved or loaded");
  // Local, while paused: as StateContents'. Before a parameter's first update its moving average is the parameter.
  void read_shard(int unit, int state, const StateContents::ReadVisit& visit);
  void write_held(int unit, int state, const StateContents::WriteFill& fill);
  // Local. "parameter", and the optimizer's as torch.optim calls them.
  std::vector<std::string> names() const;
  int num_saved_states(int unit) const { return parts_.state.contents().num_saved_states(unit); }
  bool keeps(int unit, int state) const { return parts_.state.contents().keeps(unit, state); }
  DType saved_dtype(int unit, int state) const { return parts_.state.contents().saved_dtype(unit, state); }
  Shard held(int unit, int state) const { return parts_.state.contents().held(unit, state); }

  // Local. States of rows and columns, on every rank, as they are now; while paused they may be written.
  const std::vector<FactorStates::State>& factors() const { return parts_.state.factors().all(); }

  // Local. All that a next step depends on beside the states.
  EngineProgress progress() const { return step_.progress(); }
  void set_progress(const EngineProgress& progress) { step_.set_progress(progress); }

  // Collective; between steps. All weights change places with their moving averages, or, where copies of the model train
  // apart, with the weights that they share (the anchors); twice, and all is as before. In between there is no step(),
  // and pause() is refused. Throws ConfigError where neither is kept. `ends`: nothing is computed any more, and a backward
  // pass that no step() followed is forgotten.
  void exchange_averages(bool ends = false);
  // Collective; between steps. Copies that train apart: an outer step now, so that all have the same weights; no-op
  // directly after one. Throws ConfigError where they do not train apart.
  void merge();
  bool averaged() const { return parts_.averaged; }

  // Collective. The unit's whole range in full precision (the master where there is one), on every rank, for as long as
  // `read` takes; `read` is Local. As finish() does, it applies a gradient that waits: later steps are others then.
  void read_full_precision(int unit, const std::function<void(std::span<const float>)>& read);

  // Collective; between steps, of which it changes nothing. Do the ranks still hold the same of what several hold?
  // Throws ConfigError where gradients wait for a step(), or while parameters are gathered.
  ReplicaCheck compare_replicas();

 private:
  void require_between_steps(std::string_view key, std::string_view what) const;
  void give_up_what_was_begun();
  bool is_average(int state) const;
  void read_average(int unit, int state, const StateContents::ReadVisit& visit);

  EngineParts& parts_;
  StepUpdate& update_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
