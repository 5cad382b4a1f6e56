#include "zero/device/element_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/device/element_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/numbers/element_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls each(d, i) for all elements: with vectors of floats, then with single floats for the rest.
template <class Each>
void for_lanes(std::int64_t numel, Each each) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= numel; i += lanes) each(d, i);
  for (; i < numel; ++i) each(one, i);
}

void add_target(const ElementArguments& a) {
  with_type_of(a.from_dtype, [&]<typename From>(std::type_identity<From>) {
    with_type_of(a.to_dtype, [&]<typename To>(std::type_identity<To>) {
      const auto* from = reinterpret_cast<const From*>(a.from);
      auto* to = reinterpret_cast<To*>(a.to);
      for_lanes(a.numel, [&](auto d, std::int64_t i) {
        store_lanes(d, hn::Add(load_lanes(d, to + i), load_lanes(d, from + i)), to + i);
      });
    });
  });
}

void round_target(const ElementArguments& a) {
  with_type_of(a.from_dtype, [&]<typename T>(std::type_identity<T>) {
    auto* values = reinterpret_cast<float*>(a.to);
    for_lanes(a.numel, [&](auto d, std::int64_t i) {
      T lanes[hn::MaxLanes(decltype(d)())];
      hn::StoreU(store_lanes(d, hn::LoadU(d, values + i), lanes), d, values + i);
    });
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(add_target);
HWY_EXPORT(round_target);

namespace {

void cast_host(const ElementArguments& a) {
  convert_elements(a.from, a.from_dtype, a.to, a.to_dtype, a.numel);
}

void add_host(const ElementArguments& a) {
  HWY_DYNAMIC_DISPATCH(add_target)(a);
}

void round_host(const ElementArguments& a) {
  HWY_DYNAMIC_DISPATCH(round_target)(a);
}

std::span<const std::byte> from_bytes(const ElementArguments& a) {
  return {a.from, static_cast<std::size_t>(a.numel) * size_of(a.from_dtype)};
}
std::span<std::byte> to_bytes(const ElementArguments& a) {
  return {a.to, static_cast<std::size_t>(a.numel) * size_of(a.to_dtype)};
}

}  // namespace

const Kernel kCast = kernel_of<ElementArguments, &cast_host>("cast");
const Kernel kAdd = kernel_of<ElementArguments, &add_host>("add");
const Kernel kRound = kernel_of<ElementArguments, &round_host>("round");

void cast(Device& device, Lane lane, const ElementArguments& a) {
  if (a.from_dtype == a.to_dtype) return device.copy(lane, to_bytes(a), from_bytes(a));
  run(device, lane, kCast, a, {reads(from_bytes(a)), writes(to_bytes(a))});
}

void add(Device& device, Lane lane, const ElementArguments& a) {
  run(device, lane, kAdd, a, {reads(from_bytes(a)), changes(to_bytes(a))});
}

void round_to(Device& device, Lane lane, DType dtype, std::span<float> values) {
  run(device, lane, kRound,
      ElementArguments{.from_dtype = dtype,
                       .to = reinterpret_cast<std::byte*>(values.data()),
                       .numel = static_cast<std::int64_t>(values.size())},
      {changes(values)});
}

}  // namespace zero
#endif  // HWY_ONCE
