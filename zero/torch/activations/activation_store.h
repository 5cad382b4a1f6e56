// ActivationStore: keeps the inputs of activation checkpoints on the host or on disk between the passes.
//
//   ActivationStore store({.tier = Tier::kDisk, .disk = {"/nvme0"}});          // one a model and rank
//   y = zero::checkpoint(block, {x}, store.checkpoint_options());
//
// x's memory is free again as soon as no other tensor shares it. In the backward pass its bytes come back, read ahead
// in the order in which a chain of checkpoints needs them: the last first (zero/memory/activation_offload.h). They are
// the same bytes with the same strides, so losses and gradients are those of a run without a store. Backward may go
// through a retained graph again; a dropped graph gives back its memory and its places on disk.
//
// On a GPU: engine.control().share_link(store) before the first forward pass, which names the engine's device to the store.
// Inputs then go to pinned memory of the host, and come back, beside what operators do; nothing waits for that but the
// operators that use them, and where a disk is behind the host, the host.
//
// Not offloaded: tensors without memory of their own (meta, parameters of an attached module), on another device than the
// engine's, or not strided. A write into such a tensor between the passes is a ConfigError in backward.
//
// Errors of the disk (IoError) come out of the forward or the backward pass, and end the run. The store has a ledger of
// its own: report() has its bytes by tier. Its budget is ActivationOffloadOptions::most_bytes; the budgets of attach()
// are for states alone. Local; passes of one model go through a store one after the other, on any thread of autograd.
// Tensors that are still offloaded when the store is destroyed stay readable.
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
  MemoryCount device, host, disk;  // held now
  MemoryCount peak_device, peak_host;
};

class ActivationStore {
 public:
  // Throws ConfigError ("zero.disk") where a disk is asked for and none is named. Touches no disk.
  explicit ActivationStore(ActivationOffloadOptions options);
  ~ActivationStore();
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // Makes the first file, so that a missing, unwritable or full folder shows before a run: ConfigError, IoError.
  void open();
  // Records transfers to and from the disk from now on. To be called before open().
  void record(Timeline* timeline);
  CheckpointOptions checkpoint_options() const;
  ActivationReport report() const;

  // activation_store_shared.h
  struct Shared;
  explicit ActivationStore(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Shared& shared() { return *shared_; }

 private:
  std::shared_ptr<Shared> shared_;  // with everything offloaded
};

}  // namespace zero
