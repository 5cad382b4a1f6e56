// How a process of ours ends when something is wrong (docs/errors.md), and what a launcher reads out of a rank's end.
#pragma once

namespace zero {

inline constexpr int kBadInputStatus = 2;  // ConfigError: command line, configuration, an input file; nothing was begun
inline constexpr int kRankFailedStatus = 3;  // CommError and what is none of these; of a rank also: a peer failed
inline constexpr int kIoFailedStatus = 4;    // IoError

}  // namespace zero
