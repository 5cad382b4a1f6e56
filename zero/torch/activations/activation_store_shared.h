// ActivationStore::Shared: data that a store shares with its offloaded activations, and that outlives the store.
//
//   ActivationStore store(ActivationStore::Shared::make(options, seam));
//
// Hold the mutex while you use it. Local.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include <c10/core/Device.h>

#include "zero/base/process/fork_mark.h"
#include "zero/memory/account/ledger.h"
#include "zero/memory/activation_offload.h"
#include "zero/torch/activations/activation_store.h"
#include "zero/torch/seam/torch_device.h"

namespace zero {

struct ActivationStore::Shared {
  // Throws ConfigError, as ActivationOffload does. The objects to which `seam` points must outlive the result.
  Shared(ActivationOffloadOptions options, const DiskSeam& seam)
      : activation_offload(std::move(options), ledger, seam) {}

  // Sets the device of the activations. Call it before the first activation is offloaded.
  void come_from(std::shared_ptr<Device> from) {
    activation_offload.come_from(*from);
    place = place_of(*from);
    device = std::move(from);
  }

  // The result is not destroyed in a process that was forked since.
  static std::shared_ptr<Shared> make(ActivationOffloadOptions options, const DiskSeam& seam) {
    return {new Shared(std::move(options), seam), [](Shared* shared) {
              std::unique_ptr<Shared> owner(shared);
              if (shared->made_here.in_child()) keep_forever(std::move(owner));
            }};
  }

  ForkMark made_here;
  std::mutex mutex;
  Ledger ledger;
  c10::Device place = c10::Device(c10::DeviceType::CPU);  // device of the activations that are offloaded
  std::shared_ptr<Device> device;                         // null: main memory
  ActivationOffload activation_offload;
};

// Local. Makes a store that accesses its disk through `seam`. The objects to which `seam` points must outlive the
// store. Throws as ActivationStore does.
std::unique_ptr<ActivationStore> make_activation_store(ActivationOffloadOptions options, const DiskSeam& seam);

}  // namespace zero
