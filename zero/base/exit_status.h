// Exit statuses: those of the command (docs/errors.md), and what they tell a launcher whose rank has ended.
#pragma once

namespace zero {

inline constexpr int kBadInputStatus = 2;  // ConfigError: command line, configuration, an input file; nothing was begun
inline constexpr int kRankFailedStatus = 3;  // CommError and what is none of these; of a rank also: a peer failed
inline constexpr int kIoFailedStatus = 4;    // IoError, DeviceError

}  // namespace zero
