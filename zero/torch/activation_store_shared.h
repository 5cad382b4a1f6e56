// ActivationStore::Shared: what a store and every activation that it has offloaded share, and what outlives the store.
//
//   ActivationStore store(std::make_shared<ActivationStore::Shared>(options, seam));   // attach_seams.h
//
// Whoever works with it holds the mutex. Local.
#pragma once

#include <mutex>
#include <utility>

#include "zero/memory/activation_offload.h"
#include "zero/memory/ledger.h"
#include "zero/torch/activation_store.h"

namespace zero {

struct ActivationStore::Shared {
  // Throws ConfigError, as ActivationOffload does. What `seam` points to outlives it.
  Shared(ActivationOffloadOptions options, const DiskSeam& seam)
      : activation_offload(std::move(options), ledger, seam) {}

  std::mutex mutex;
  Ledger ledger;
  ActivationOffload activation_offload;
};

}  // namespace zero
