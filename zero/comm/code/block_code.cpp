// Kernels of the block codes. Highway compiles them once per instruction set, and chooses one at run time.
//
// The bits do not depend on the instruction set. Each element has one multiplication and one addition, and its hash is
// arithmetic of 32-bit integers. Magnitudes are compared as integer bits, among which an infinity and a NaN are the
// largest.
#include "zero/comm/code/block_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "zero/base/error/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/comm/code/block_code.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "zero/base/numbers/element_lanes-inl.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Words = hn::Rebind<std::uint32_t, Lanes>;
using Codes = hn::Rebind<std::int8_t, Lanes>;
constexpr auto kBlock = static_cast<std::size_t>(kWireBlock);

// Loads a block, padded with zeros, because loops process whole blocks.
void load_block(const WireElements& elements, std::int64_t begin, std::size_t count, float* block) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  with_type_of(elements.dtype, [&]<typename T>(std::type_identity<T>) {
    const T* const from = reinterpret_cast<const T*>(elements.data) + begin;
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) hn::StoreU(load_lanes(d, from + i), d, block + i);
    for (; i < count; ++i) block[i] = to_float(from[i]);
    for (; i < kBlock; ++i) block[i] = 0;
  });
}

float largest_magnitude(const float* block) {
  const Lanes d;
  const hn::Rebind<std::int32_t, Lanes> bits;
  auto largest = hn::Zero(bits);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d))
    largest = hn::Max(largest, hn::BitCast(bits, hn::Abs(hn::LoadU(d, block + i))));
  std::int32_t each[16] = {};
  hn::StoreU(largest, bits, each);
  return std::bit_cast<float>(*std::max_element(each, each + 16));
}

// The largest float is no multiple of 127 or 7. Its scale is rounded down, so it does not decode to an infinity.
float scale_of(float largest, float most) {
  const float scale = largest / most;
  return scale * most <= std::numeric_limits<float>::max() ? scale : std::nextafter(scale, 0.0F);
}

// Hashes `seed` and the position of the element: the finalizer of MurmurHash3 (public domain).
HWY_INLINE hn::Vec<Words> hashed(Words d, std::uint32_t seed, std::uint32_t first) {
  auto h = hn::Add(hn::Mul(hn::Iota(d, first), hn::Set(d, 0x9e3779b9U)), hn::Set(d, seed));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x85ebca6bU));
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, 0xc2b2ae35U));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

// Rounds with 12 bits of the hash plus half a bit. So an element that is a multiple of the scale, up to rounding
// errors, stays one.
void round_block(const float* block, float per_step, bool nearest, std::uint32_t seed, std::int8_t* codes) {
  const Lanes d;
  const Words words;
  const hn::Rebind<std::int32_t, Lanes> ints;
  const auto factor = hn::Set(d, per_step);
  auto u = hn::Set(d, 0.5F);
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    if (!nearest) {
      const auto twelve = hn::BitCast(ints, hn::ShiftRight<20>(hashed(words, seed, static_cast<std::uint32_t>(i))));
      u = hn::Add(hn::Mul(hn::ConvertTo(d, twelve), hn::Set(d, 0x1p-12F)), hn::Set(d, 0x1p-13F));
    }
    const auto floor = hn::Floor(hn::Add(hn::Mul(hn::LoadU(d, block + i), factor), u));
    hn::StoreU(hn::DemoteTo(Codes(), hn::ConvertTo(ints, floor)), Codes(), codes + i);
  }
}

void pack_block(WireCodec codec, const std::int8_t* codes, std::size_t count, std::byte* to) {
  if (codec == WireCodec::kInt8) {
    std::memcpy(to, codes, count);
    return;
  }
  const std::size_t half = (count + 1) / 2;  // a shorter block is padded with zeros
  for (std::size_t j = 0; j < half; ++j) {
    const int low = codes[j] + 8, high = (j + half < count ? codes[j + half] : 0) + 8;
    to[j] = static_cast<std::byte>(low | (high << 4));
  }
}

const std::int8_t* unpack_block(WireCodec codec, const std::byte* from, std::size_t count, std::int8_t* codes) {
  if (codec == WireCodec::kInt8) {
    std::memcpy(codes, from, count);
    return codes;
  }
  const std::size_t half = (count + 1) / 2;
  for (std::size_t j = 0; j < half; ++j) {
    const int both = static_cast<int>(from[j]);
    codes[j] = static_cast<std::int8_t>((both & 15) - 8);
    codes[j + half] = static_cast<std::int8_t>((both >> 4) - 8);
  }
  return codes;
}

void encode_wire(WireCodec codec, const WireElements& elements, const WireRounding& rounding, std::byte* wire) {
  const float most = codec == WireCodec::kInt8 ? 127 : 7;
  alignas(64) float block[kBlock];
  alignas(64) std::int8_t codes[kBlock];
  for (std::int64_t begin = 0; begin < elements.numel; begin += kWireBlock) {
    const auto count = static_cast<std::size_t>(std::min(kWireBlock, elements.numel - begin));
    load_block(elements, begin, count, block);
    const float largest = largest_magnitude(block);
    const bool finite = largest <= std::numeric_limits<float>::max(), zeros = largest < 0x1p-100F;
    const float scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zeros ? 0.0F : scale_of(largest, most);
    if (finite && !zeros) {
      const auto seed =
          static_cast<std::uint32_t>(mixed(rounding.key, static_cast<std::uint64_t>(rounding.first + begin)));
      round_block(block, most / largest, rounding.key == 0, seed, codes);
    } else {
      std::fill_n(codes, kBlock, static_cast<std::int8_t>(0));
    }
    std::memcpy(wire, &scale, sizeof scale);
    pack_block(codec, codes, count, wire + sizeof scale);
    wire += wire_bytes(codec, static_cast<std::int64_t>(count), elements.dtype);
  }
}

// Calls `store` with the decoded lanes i, i + 1, ... of a message.
template <class Store>
void each_decoded(WireCodec codec, const std::byte* wire, std::int64_t numel, Store store) {
  alignas(64) std::int8_t room[kBlock];
  const hn::CappedTag<float, 1> one;
  const Lanes d;
  const auto decoded = [&](auto tag, const std::int8_t* code, float scale) {
    const hn::Rebind<std::int8_t, decltype(tag)> bytes;
    const hn::Rebind<std::int32_t, decltype(tag)> ints;
    return hn::Mul(hn::ConvertTo(tag, hn::PromoteTo(ints, hn::LoadU(bytes, code))), hn::Set(tag, scale));
  };
  for (std::int64_t begin = 0; begin < numel; begin += kWireBlock) {
    const auto count = static_cast<std::size_t>(std::min(kWireBlock, numel - begin));
    float scale = 0;
    std::memcpy(&scale, wire, sizeof scale);
    const std::int8_t* const codes = unpack_block(codec, wire + sizeof scale, count, room);
    wire += wire_bytes(codec, static_cast<std::int64_t>(count), DType::kFloat32);
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
      store(d, begin + static_cast<std::int64_t>(i), decoded(d, codes + i, scale));
    for (; i < count; ++i) store(one, begin + static_cast<std::int64_t>(i), decoded(one, codes + i, scale));
  }
}

void decode_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, std::byte* out, DType out_dtype) {
  with_type_of(out_dtype, [&]<typename T>(std::type_identity<T>) {
    T* const to = reinterpret_cast<T*>(out);
    each_decoded(codec, wire, numel, [to](auto d, std::int64_t i, auto value) { store_lanes(d, value, to + i); });
  });
}

void add_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, float* sum) {
  each_decoded(codec, wire, numel, [sum](auto d, std::int64_t i, auto value) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), value), d, sum + i);
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
HWY_EXPORT(encode_wire);
HWY_EXPORT(decode_wire);
HWY_EXPORT(add_wire);

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a + (b + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  x ^= x >> 31;
  return x == 0 ? 1 : x;
}

void encode_for_wire(WireCodec codec, const WireElements& elements, const WireRounding& rounding, std::byte* wire) {
  ZERO_CHECK(codec != WireCodec::kNone, "no codec writes blocks");
  HWY_DYNAMIC_DISPATCH(encode_wire)(codec, elements, rounding, wire);
}

void decode_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, std::byte* out, DType out_dtype) {
  ZERO_CHECK(codec != WireCodec::kNone, "no codec writes blocks");
  HWY_DYNAMIC_DISPATCH(decode_wire)(codec, wire, numel, out, out_dtype);
}

void add_from_wire(WireCodec codec, const std::byte* wire, std::int64_t numel, float* sum) {
  ZERO_CHECK(codec != WireCodec::kNone, "no codec writes blocks");
  HWY_DYNAMIC_DISPATCH(add_wire)(codec, wire, numel, sum);
}

}  // namespace zero
#endif  // HWY_ONCE
