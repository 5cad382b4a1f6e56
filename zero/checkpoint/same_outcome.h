// require_same_outcome(): an error that one rank has with a file ends the call on every rank, with that rank's words.
//
//   require_same_outcome(comm, path, [&] { ...reads or writes, may throw ConfigError and IoError... });
//
// Collective; the body is Local. The ranks exchange their outcomes when all are done. A rank that threw throws the
// same again; the others throw an IoError about `path` with the words of the lowest rank that failed.
#pragma once

#include <functional>
#include <string>

#include "zero/base/error.h"
#include "zero/comm/communicator.h"

namespace zero {

// Thrown by all ranks with the same words: a user is to read them once, from one rank.
class SharedIoError : public IoError {
 public:
  using IoError::IoError;
};

void require_same_outcome(Communicator& comm, const std::string& path, const std::function<void()>& body);
// Of what was done before: an IoError on every rank alike. `failure` is empty on a rank where it went well.
void require_same_outcome(Communicator& comm, const std::string& path, const std::string& failure);
// As with a body, but every rank throws an IoError, whatever went wrong where, so that all can go on alike. A bug alone
// (InternalError) stays what it is on the rank that met it.
void require_same_failure(Communicator& comm, const std::string& path, const std::function<void()>& body);
// Local. What a body threw, whatever it is; empty: nothing.
std::string failure_of(const std::function<void()>& body);

}  // namespace zero
