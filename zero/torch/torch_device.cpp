#include "zero/torch/torch_device.h"

#include <string>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace zero {

c10::Device place_of(const Device& device) {
  const std::string name(device.name());
  return name.starts_with("cuda") ? c10::Device(name) : c10::Device(c10::DeviceType::CPU);
}

void adopt_stream(Device& device) {
  const c10::Device place = place_of(device);
  if (!place.is_cuda()) return;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(place.type()).getStream(place);
  device.adopt(stream.native_handle());
}

}  // namespace zero
