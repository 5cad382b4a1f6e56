// Exit statuses: those of the command (docs/errors.md), and what they tell a launcher whose rank has ended.
#pragma once

namespace zero {

// ConfigError: command line, configuration, an input file; nothing was begun, unless a GPU's memory was short in a step
inline constexpr int kBadInputStatus = 2;
inline constexpr int kRankFailedStatus = 3;  // CommError and what is none of these; of a rank also: a peer failed
inline constexpr int kIoFailedStatus = 4;    // IoError, DeviceError

}  // namespace zero
