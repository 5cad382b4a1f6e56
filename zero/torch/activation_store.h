// ActivationStore: what activation checkpoints keep lies on the host or on disk between the passes, not on the device.
//
//   ActivationStore store({.tier = Tier::kDisk, .disk = {"/nvme0"}});          // one a model and rank
//   y = zero::checkpoint(block, {x}, store.checkpoint_options());
//
// x's memory is free again as soon as nobody else holds it. In backward its bytes come back, read ahead in the order in
// which a chain of checkpoints wants them: the last first (zero/memory/activation_offload.h). They are the same bytes with the
// same strides, so losses and gradients are those of a run without a store; a graph that is retained may be gone
// through again, and one that is dropped gives back what it held.
//
// Kept as they are: tensors without memory of their own (meta, parameters of an attached module), those that lie
// elsewhere or are not strided. A write into such a one between the passes is a ConfigError in backward.
//
// Errors of the disk (IoError) come out of the forward or the backward pass, and end the run. The ledger is the store's
// own: report() says what is held where; ActivationOffloadOptions::most_bytes is its budget, and those given to attach() are of
// states alone. Local; passes of one model go through a store one after the other, on whatever
// threads autograd uses. What is still offloaded when the store goes keeps what it needs alive.
#pragma once

#include <memory>

#include "zero/memory/activation_offload.h"
#include "zero/memory/ledger.h"
#include "zero/torch/checkpoint.h"

namespace zero {

struct ActivationReport {
  ActivationOffloadReport activation_offload;
  MemoryCount device, host, disk;  // held now
  MemoryCount peak_device, peak_host;
};

class ActivationStore {
 public:
  // Throws ConfigError ("zero.disk") where a disk is asked for and none is named. Touches no disk.
  explicit ActivationStore(ActivationOffloadOptions options, DiskSeam seam = {});
  ~ActivationStore();
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // Makes the first file, so that a folder that is missing, closed or full is known before a run: ConfigError, IoError.
  void open();
  // As ActivationOffload's: a timeline for what goes to disk, before open(); a link to share, before anything is offloaded.
  void record(Timeline* timeline);
  void share_link(const Link& link);
  CheckpointOptions checkpoint_options() const;
  ActivationReport report() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with everything offloaded
};

}  // namespace zero
