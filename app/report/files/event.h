// version_event(), scalars_event(): messages of an event file, as TensorBoard reads it.
//
//   const std::array values{Scalar{"train/loss", 2.5}, Scalar{"train/lr", 1e-3}};
//   std::string file = framed(version_event(seconds));               // the first of every file
//   file += framed(scalars_event({.time = seconds, .step = 7}, values));
//
// The bytes are those of protobuf's `tensorflow.Event`, of which this file writes a few fields by hand. A time is in
// seconds since 1970; a step counts from 1. Values are rounded to fp32; infinities and NaN are kept. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zero {

struct EventTime {
  double time = 0;
  std::int64_t step = 0;
};

struct Scalar {
  std::string_view tag;
  double value = 0;
};

// Returns "brain.Event:2", the version that readers know.
std::string version_event(double time);
std::string scalars_event(const EventTime& at, std::span<const Scalar> scalars);
// Returns a text in Markdown, for the text dashboard.
std::string text_event(const EventTime& at, std::string_view tag, std::string_view markdown);
// Marks the begin of a session at a step: readers drop their values of this step and later ones.
std::string start_event(const EventTime& at);

// Returns a record of TFRecord: length (8 bytes), its masked sum (4), the message, its masked sum (4); little endian.
std::string framed(std::string_view message);
// Returns crc32c, rotated by 15 bits, plus a constant. So a sum over bytes that contain such a sum remains a good sum.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace zero
