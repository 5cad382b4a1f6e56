// kBadInputStatus, kRankFailedStatus, kIoFailedStatus: the command's exit statuses (docs/errors.md), also for a
// launcher.
#pragma once

namespace zero {

// ConfigError: command line, configuration, an input file; nothing was begun, unless a GPU ran out of memory in a step
inline constexpr int kBadInputStatus = 2;
inline constexpr int kRankFailedStatus = 3;  // CommError and all other errors; of a rank also: a peer failed
inline constexpr int kIoFailedStatus = 4;    // IoError, DeviceError

}  // namespace zero
