// ActivationStore: keeps the inputs of activation checkpoints on host or disk between forward and backward pass.
//
//   ActivationStore store({.tier = Tier::kDisk, .disk = {"/nvme0"}});          // one for each model and rank
//   y = zero::checkpoint(block, {x}, store.checkpoint_options());
//
// x's memory is free as soon as no other tensor shares it. In the backward pass its bytes are read ahead in the order
// in which a chain of checkpoints needs them: the last first (zero/memory/activation_offload.h). Bytes and strides are
// the same, so losses and gradients equal those of a run without a store. A retained graph can be used for several
// backward passes. A dropped graph gives back its memory and its space on disk.
//
// Not offloaded: tensors without memory of their own (meta, parameters of an attached module), on another device than
// the engine's, or not strided. If such a tensor is written between the passes, backward throws ConfigError.
//
// Local; passes of one model use a store one after the other, on any thread of autograd. The forward or the backward
// pass throws IoError if the disk fails; the run cannot continue then.
#pragma once

#include <memory>
#include <utility>

#include "zero/memory/account/ledger.h"
#include "zero/memory/activation_offload_values.h"
#include "zero/torch/activations/checkpoint.h"

namespace zero {

class Timeline;

struct ActivationReport {
  ActivationOffloadReport activation_offload;
  PerTier<MemoryCount> held;  // now
  PerTier<MemoryCount> peak;  // of each tag
};

class ActivationStore {
 public:
  // Throws ConfigError ("zero.disk") if the tier is disk and no folder is given, and for a number below 0. Touches no
  // disk.
  //
  // The store has its own ledger, and report() returns its bytes by tier. Its budget is
  // ActivationOffloadOptions::most_bytes; the budgets of attach() are only for states. Tensors that are still offloaded
  // when the store is destroyed stay readable.
  //
  // On a GPU, call engine.control().share_link(store) before the first forward pass. Inputs are then copied to pinned
  // host memory and back, in parallel with operators. Only the operators that use the inputs wait for these copies.
  // With the tier disk, the host also waits for the disk.
  explicit ActivationStore(ActivationOffloadOptions options);
  ~ActivationStore();
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // Creates the first file, so a missing, unwritable or full folder is found before a run. Throws ConfigError or
  // IoError.
  void open();
  // Records transfers to and from the disk from now on. Call it before open().
  void record(Timeline* timeline);
  CheckpointOptions checkpoint_options() const;
  ActivationReport report() const;

  // activation_store_shared.h
  struct Shared;
  explicit ActivationStore(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Shared& shared() { return *shared_; }

 private:
  std::shared_ptr<Shared> shared_;  // also holds all offloaded activations
};

}  // namespace zero
