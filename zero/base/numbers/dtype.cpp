#include "zero/base/numbers/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/base/numbers/dtype.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/numbers/element_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements that do not fill a vector are converted one by one with the same operations.
template <class In, class Out>
void convert_lanes(const In* in, Out* out, std::int64_t numel) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= numel; i += lanes) store_lanes(d, load_lanes(d, in + i), out + i);
  for (; i < numel; ++i) store_lanes(one, load_lanes(one, in + i), out + i);
}

void convert_target(const std::byte* in, DType in_dtype, std::byte* out, DType out_dtype, std::int64_t numel) {
  with_type_of(in_dtype, [&]<typename In>(std::type_identity<In>) {
    with_type_of(out_dtype, [&]<typename Out>(std::type_identity<Out>) {
      convert_lanes(reinterpret_cast<const In*>(in), reinterpret_cast<Out*>(out), numel);
    });
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(convert_target);

void convert_elements(const std::byte* in, DType in_dtype, std::byte* out, DType out_dtype, std::int64_t numel) {
  HWY_DYNAMIC_DISPATCH(convert_target)(in, in_dtype, out, out_dtype, numel);
}

}  // namespace zero
#endif  // HWY_ONCE
