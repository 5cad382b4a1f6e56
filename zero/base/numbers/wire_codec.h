// WireCodec: the encoding of elements between ranks that takes fewer bytes than their type.
//
//   wire_bytes(WireCodec::kInt8, 1000, DType::kFloat32)       // 1,016: a byte per element, and 4 per block of 256
//
// Elements are encoded in blocks of kWireBlock, each with an fp32 scale: its largest magnitude over 127 (int8) or 7
// (int4). The last block of a message may be shorter. zero/comm/code/block_code.h makes the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "zero/base/numbers/dtype.h"

namespace zero {

enum class WireCodec : std::uint8_t { kNone, kInt8, kInt4 };

constexpr std::array kWireCodecNames{std::string_view("none"), std::string_view("int8"), std::string_view("int4")};

constexpr std::string_view name_of(WireCodec codec) {
  return kWireCodecNames[static_cast<std::size_t>(codec)];
}

// Returns the codec with this name; nothing if there is none.
constexpr std::optional<WireCodec> wire_codec_named(std::string_view name) {
  for (std::size_t i = 0; i < kWireCodecNames.size(); ++i)
    if (kWireCodecNames[i] == name) return static_cast<WireCodec>(i);
  return std::nullopt;
}

// The codec of each kind of message that an engine sends.
struct WireCodecs {
  WireCodec gather = WireCodec::kNone;  // codec of parameters whose owner keeps the exact values: stage 3
  WireCodec reduce = WireCodec::kNone;  // codec of a rank's contribution to a sum of gradients
  WireCodec outer = WireCodec::kNone;   // codec between copies: of gradients, or of outer steps if copies train apart
  // Share of a difference that outer steps send, its largest elements. The rest is kept in a state, and added to the
  // next difference (top-k with error feedback; zero/base/numbers/topk_blocks.h). 0: all elements. Excludes `outer`.
  double outer_topk = 0;
  bool operator==(const WireCodecs&) const = default;
};

constexpr std::int64_t kWireBlock = 256;

// Returns the bytes of `numel` elements in a message; `dtype`: their type, which a message without a codec uses.
constexpr std::int64_t wire_bytes(WireCodec codec, std::int64_t numel, DType dtype) {
  const std::int64_t scales = (numel + kWireBlock - 1) / kWireBlock * static_cast<std::int64_t>(sizeof(float));
  switch (codec) {
    case WireCodec::kInt8:
      return numel + scales;
    case WireCodec::kInt4:
      return (numel + 1) / 2 + scales;
    case WireCodec::kNone:
      break;
  }
  return numel * static_cast<std::int64_t>(size_of(dtype));
}

// Returns the bytes per element of a long message.
constexpr double wire_element_bytes(WireCodec codec, DType dtype) {
  return static_cast<double>(wire_bytes(codec, kWireBlock, dtype)) / kWireBlock;
}

}  // namespace zero
