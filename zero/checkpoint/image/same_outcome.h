// require_same_outcome(): ends a call on every rank if one rank fails with a file, with that rank's message.
//
//   require_same_outcome(comm, path, [&] { ...reads or writes, may throw ConfigError and IoError... });
//
// Collective; the body is Local. The ranks exchange their outcomes after all are done. A rank that threw throws its
// error again. The others throw an IoError about `path` with the message of the lowest rank that failed.
#pragma once

#include <functional>
#include <string>

#include "zero/base/error/error.h"
#include "zero/comm/communicator.h"

namespace zero {

// Thrown by all ranks with the same message, which a user should read once, from one rank.
class SharedIoError : public IoError {
 public:
  using IoError::IoError;
};

void require_same_outcome(Communicator& comm, const std::string& path, const std::function<void()>& body);
// Takes an earlier outcome, and throws the same IoError on every rank. `failure` is empty on a rank that succeeded.
void require_same_outcome(Communicator& comm, const std::string& path, const std::string& failure);
// Like the call with a body, but every rank throws an IoError, whatever failed, so all ranks can continue alike. Only a
// bug (InternalError) keeps its type, on the rank that met it.
void require_same_failure(Communicator& comm, const std::string& path, const std::function<void()>& body);
// Local. Returns the message of whatever the body threw; empty: it threw nothing.
std::string failure_of(const std::function<void()>& body);

}  // namespace zero
