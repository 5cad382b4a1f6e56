// ActivationStore::Shared: what a store and every activation that it has offloaded share, and what outlives the store.
//
//   ActivationStore store(std::make_shared<ActivationStore::Shared>(options, seam));
//
// Whoever works with it holds the mutex. Local.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include <c10/core/Device.h>

#include "zero/memory/account/ledger.h"
#include "zero/memory/activation_offload.h"
#include "zero/torch/activations/activation_store.h"
#include "zero/torch/seam/torch_device.h"

namespace zero {

struct ActivationStore::Shared {
  // Throws ConfigError, as ActivationOffload does. What `seam` points to outlives it.
  Shared(ActivationOffloadOptions options, const DiskSeam& seam)
      : activation_offload(std::move(options), ledger, seam) {}

  // Before the first is offloaded.
  void come_from(std::shared_ptr<Device> from) {
    activation_offload.come_from(*from);
    place = place_of(*from);
    device = std::move(from);
  }

  std::mutex mutex;
  Ledger ledger;
  c10::Device place = c10::Device(c10::DeviceType::CPU);  // of activations that are offloaded
  std::shared_ptr<Device> device;                         // null: main memory
  ActivationOffload activation_offload;
};

// Local. A store that reaches its disk through `seam`. Everything that `seam` points to must outlive the store. Throws as
// ActivationStore does.
std::unique_ptr<ActivationStore> make_activation_store(ActivationOffloadOptions options, const DiskSeam& seam);

}  // namespace zero
