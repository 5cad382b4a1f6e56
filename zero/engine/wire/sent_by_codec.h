// SentByCodec: the bytes that a rank sends in a step, by receiver and codec.
//
//   report.sent_by_codec.group[codec]      // kSentCodecs[codec]: "none", "int8", "int4", "topk"
//
// Values only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zero/base/numbers/wire_codec.h"

namespace zero {

// Names of the codecs of WireCodec in their order, then of sending only the largest elements.
constexpr std::array kSentCodecs{kWireCodecNames[0], kWireCodecNames[1], kWireCodecNames[2], std::string_view("topk")};
constexpr std::size_t kSentTopk = 3;
static_assert(kWireCodecNames.size() == kSentTopk);

struct SentByCodec {
  using Bytes = std::array<std::int64_t, kSentCodecs.size()>;
  Bytes group{};   // to the ranks that hold one copy of the model with this one
  Bytes copies{};  // to other copies of the model

  SentByCodec& operator+=(const SentByCodec& more) {
    for (std::size_t codec = 0; codec < kSentCodecs.size(); ++codec) {
      group[codec] += more.group[codec];
      copies[codec] += more.copies[codec];
    }
    return *this;
  }
  SentByCodec operator-(const SentByCodec& before) const {
    SentByCodec since = *this;
    for (std::size_t codec = 0; codec < kSentCodecs.size(); ++codec) {
      since.group[codec] -= before.group[codec];
      since.copies[codec] -= before.copies[codec];
    }
    return since;
  }
};

}  // namespace zero
